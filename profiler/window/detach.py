"""Running a window free of the terminal, and of any connection through the incumbent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lanescope.profiler.window import places
from lanescope.profiler.window.plan import Plan


def start(plan: Plan, run: str) -> Path:
    """Start the runner in a session of its own; the path of what it says."""
    folder = places.state_folder() / "logs"
    folder.mkdir(mode=0o700, exist_ok=True)
    log = folder / f"{run}.log"
    with log.open("ab") as out:
        subprocess.Popen(
            [sys.executable, "-m", "lanescope", "capture", "run", str(plan.path), "--run-id", run],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            cwd="/",
            start_new_session=True,
        )
    return log
