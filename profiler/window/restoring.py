"""The way back, from the runner's side: save what can be saved quickly, call the script, disarm."""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import Any

from lanescope.profiler.window.run import Run
from lanescope.schemas.errors import LanescopeError


class NotRestored(LanescopeError):
    """The restore script gave up: a person must act."""


def abandon(run: Run, failure: BaseException | None) -> None:
    """After a failure in the experiment: stop the collection if it was open, keep the log.

    Each may fail; none may keep the incumbent waiting for long.
    """
    if failure is None:
        return
    if run.marked("collecting") and not run.marked("stopping"):
        try:
            if run.plan.candidate.tracer.mode == "session":
                seconds = min(60.0, run.plan.window.durations.stop_s)
                run.session.stop(run.launcher.run_inside, seconds)
                run.mark("collected")
        except Exception as exc:  # noqa: BLE001 - the report may be lost; the incumbent may not
            run.results["abandoned"] = f"{type(exc).__name__}: {exc}"
    with contextlib.suppress(Exception):
        run.launcher.save_log(run.folder.private / "engine.log")


def restore(run: Run) -> dict[str, Any]:
    """Call the script: the same one that the failsafe and a person call."""
    done = subprocess.run(
        [*run.restore_command, "restore", "runner"],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        # its notes are in its answer; a closed terminal must not end it
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    try:
        answer: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        answer = {"status": "no answer", "notes": []}
    if done.returncode != 0 or answer["status"] != "WINDOW_RESTORE_OK":
        last = answer["notes"][-1] if answer["notes"] else f"exit {done.returncode}"
        raise NotRestored(
            f"the incumbent could not be verified: {last}",
            "act now: " + " ".join([*run.restore_command, "restore", "hand"]),
        )
    run.results["restored"] = answer
    return answer


def disarm(run: Run) -> dict[str, Any]:
    """Only now, with the incumbent verified. Confirms that the failsafe is gone."""
    if run.guard is None:
        return {"kind": "none"}
    facts = run.guard.disarm()
    armed = run.state_folder.parent.parent / "armed"
    with contextlib.suppress(OSError):
        if armed.readlink() == run.state_folder / "armed.sh":
            armed.unlink()
    run.results["failsafe"] = facts
    return facts
