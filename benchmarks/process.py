"""Run a command as a whole process and say what it cost."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds (user and system, all threads), peak memory, bytes read from disk."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    read_mb: float


def run(command: list[str], env: dict[str, str] | None = None, cwd: Path | None = None) -> Cost:
    """Run `command` to its end. Raises `RuntimeError` with its last words when it fails."""
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        said = child.stderr.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if child.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {child.returncode}: {said[-300:]}")
    return Cost(
        wall_s=wall,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_mb=used.ru_maxrss / 1024,
        read_mb=used.ru_inblock / 2048,
    )
