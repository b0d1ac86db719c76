"""The cache replay at the size of the field report: 71,210 tokens x 75 layers x top-8 of 256.

`python -m benchmarks.replay [TOKENS]` makes the trace and runs each sub-command as a user would,
in a process of its own, start-up and reading included. The limits are the ones the product is
built to: 60 s and 4 GB on two processors for the policy table and the curves together.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_S = 60.0
LIMIT_BYTES = 4e9
COMMANDS = {
    "policy table": ["run", "TRACE", "--slots", "98"],
    "LRU and static curves": ["curve", "TRACE"],
    "structure": ["structure", "TRACE", "--slots", "98"],
    "plan": ["plan", "TRACE", "--budget", "7360"],
    "check": ["check", "TRACE"],
}


def run(arguments: list[str]) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds and peak bytes of `lanescope replay` with `arguments`."""
    begun = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "lanescope", "replay", *arguments], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"lanescope replay {' '.join(arguments)} exited {child.returncode}")
    wall = time.perf_counter() - begun
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main(tokens: int = 71_210) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        trace = str(Path(folder) / "trace.parquet")
        size = ["--tokens", str(tokens), "--layers", "75", "--experts", "256", "--top-k", "8"]
        planted = ["--repeat", "0.2", "--local", "0.6", "--working-set", "64", "--turnover", "0.3"]
        wall, cpu, peak = run(["generate", trace, *size, *planted, "--first-layer", "3"])
        megabytes = Path(trace).stat().st_size / 1e6
        print(f"{tokens:,} tokens x 75 layers x top-8 of 256: {megabytes:.0f} MB")
        print(f"{'':24}{'wall s':>8}{'CPU s':>8}{'peak GB':>9}{'of 60 s':>9}{'of 4 GB':>9}")
        rows = {"generate": (wall, cpu, peak)}
        for name, arguments in COMMANDS.items():
            rows[name] = run([trace if part == "TRACE" else part for part in arguments])
        for name, (wall, cpu, peak) in rows.items():
            shares = f"{wall / LIMIT_S:>9.1%}{peak / LIMIT_BYTES:>9.1%}"
            print(f"{name:24}{wall:>8.2f}{cpu:>8.2f}{peak / 1e9:>9.2f}{shares}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
