"""Running a command with a bound that holds: nothing that it leaves behind can keep us waiting."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess


def run(words: list[str], environment: dict[str, str], seconds: float) -> tuple[int, str]:
    """Exit code and output; 124 after the bound, 127 where it could not start.

    The command gets a session of its own, so that all of it can be ended at the bound, and Ctrl-C
    in our terminal does not reach it.
    """
    try:
        child = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as exc:
        return 127, str(exc)
    try:
        output, _ = child.communicate(timeout=seconds)
        return child.returncode, _text(output)
    except subprocess.TimeoutExpired as exc:
        return 124, f"no end within {seconds:g} s: {_text(exc.output)}"
    finally:
        if child.poll() is None or child.returncode is None:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(5)
    if child.stdout:
        child.stdout.close()


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")
