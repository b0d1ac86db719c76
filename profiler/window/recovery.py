"""After the runner: where a window stands, and finishing one whose runner was killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lanescope.profiler.adapters import procs
from lanescope.profiler.window import states
from lanescope.profiler.window.guard import Guard, choose
from lanescope.profiler.window.plan import load
from lanescope.profiler.window.run import Run
from lanescope.profiler.window.runner import Runner, RunnerLost
from lanescope.schemas.documents.receipt import Outcome
from lanescope.schemas.errors import LanescopeError, UsageError


def _json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found


def status(folder: Path) -> dict[str, Any]:
    """State, outcome, the living runner's id (0: none), marks, last restore."""
    state, runner = _json(folder / "state.json"), _json(folder / "runner.json")
    pid = int(runner.get("pid", 0))
    restores = sorted(folder.glob("restore-*.json"), key=lambda p: p.stat().st_mtime)
    return {
        "run": folder.name,
        "state": state.get("state", "starting"),
        "since": state.get("since", ""),
        "outcome": state.get("outcome", ""),
        "runner": pid if pid and procs.alive(pid, runner.get("started", "")) else 0,
        "touched": (folder / "touched").exists(),
        "failsafe_fired": (folder / "fired.json").exists(),
        "restored": _json(restores[-1]).get("status", "") if restores else "",
        "output": runner.get("output", ""),
    }


def line(found: dict[str, Any]) -> str:
    """The status in one line."""
    words = [found["run"], found["outcome"] or found["state"]]
    if not found["outcome"]:
        words.append(f"since {found['since']}")
        words.append(f"runner {found['runner']}" if found["runner"] else "NO RUNNER")
    words.append("incumbent touched" if found["touched"] else "incumbent untouched")
    if found["failsafe_fired"]:
        words.append("failsafe fired")
    if found["restored"]:
        words.append(found["restored"])
    return "  ".join(words)


def restore(folder: Path, say: Callable[[str], Any]) -> int:
    """Call the window's restore script by hand, then disarm its failsafe."""
    if not (folder / "restore.py").exists():
        say(f"{folder.name}: the incumbent was never touched")
        return 0
    command = _json(folder / "failsafe.json").get("command")
    if not command:
        command = [sys.executable, "-I", "-S", str(folder / "restore.py")]
    done = subprocess.run([*command, "restore", "hand"], check=False, stdout=subprocess.PIPE)
    answer = done.stdout.decode(errors="replace").strip().splitlines()
    say(answer[-1] if answer else "no answer from the restore script")
    if done.returncode != 0:
        return Outcome.NOT_RESTORED.code
    runner = _json(folder / "runner.json")
    if not status(folder)["runner"] and runner:
        try:
            _adopted(Run(load(Path(runner["plan"])), folder.name)).disarm()
        except LanescopeError as exc:
            say(f"the failsafe is left armed: {exc}")
    return 0


def _adopted(run: Run) -> Guard:
    facts = _json(run.state_folder / "failsafe.json")
    settings = run.plan.window.failsafe
    if facts.get("kind"):
        settings = settings.model_copy(update={"kind": facts["kind"]})
    run.restore_command = facts.get("command", [])
    guard = Guard(
        choose(settings, run.restore_command, run.state_folder, run.run), run.state_folder, settings
    )
    guard.adopt()
    return guard


def resume(folder: Path, say: Callable[[str], Any]) -> int:
    """Restoration, then export and the rest of what the killed runner had captured."""
    found, runner = status(folder), _json(folder / "runner.json")
    if found["runner"]:
        raise UsageError(f"{folder.name} has a runner", "follow it with capture status --follow")
    if found["outcome"]:
        raise UsageError(f"{folder.name} has ended: {found['outcome']}", "nothing is left to do")
    if not runner:
        raise UsageError(f"{folder.name} never began", "start it again")
    run = Run(load(Path(runner["plan"])), folder.name)
    run.lock_machine()
    run.claim()
    if (folder / "failsafe.json").exists():
        run.guard = _adopted(run)
    if any((run.folder.private / "report").glob("*.nsys-rep")):
        run.mark("collected")
    walk = Runner(run, say)
    walk.last = found["state"]
    if found["state"] in [s.name for s in states.EXPERIMENT]:
        walk.failure = RunnerLost(f"the runner was killed in {found['state']}", "resumed")
    return walk.finish().code
