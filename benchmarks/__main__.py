"""`make bench`: what `lanescope attribute` costs, against reading the file at all.

    python -m benchmarks [--times 1,20,100] [--rounds 3] [--nsys PATH] [--no-recipe] [--work DIR]
                         [--save NAME] [--rows FILE]

The bundled trace k1 is grown along the time axis and attributed as a whole process: cold (nothing
staged), staged (another question about a trace seen before) and again (the same question, answered
from the kept answer); then compared with itself as if it were another lane. The yardstick is one
SQLite scan that sums an expression over the kernel table, run before and after each; `read` reads
the file and no more. Ratios are of medians of the same run. With an `nsys` (found in PATH, or
named) the three reports that a person would ask for run in the same round, and so does our recipe
through `nsys recipe`. Ratios travel between machines, seconds do not: on a machine that others use,
look at CPU ratios.

--rows writes what `lanescope gate benchmarks/slower.toml BEFORE AFTER` reads: whether a change
slows it by more than its runs differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.grow import grow
from benchmarks.process import Cost, run
from benchmarks.recipes import Recipe
from lanescope._version import __version__

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "captures" / "samples" / "k1.sqlite.xz"
REPORTS = ("cuda_gpu_kern_sum", "nvtx_gpu_proj_sum", "nvtx_kern_sum")
_SCAN = (
    "import sqlite3, sys; print(sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True).execute("
    "'SELECT sum(\"end\" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL').fetchone())"
)

_READ = (
    "import sys; f = open(sys.argv[1], 'rb', buffering=0); b = bytearray(1 << 22)\n"
    "while f.readinto(b): pass"
)


def measure(
    trace: Path, work: Path, rounds: int, nsys: str | None, recipe: bool = False
) -> dict[str, list[Cost]]:
    """The costs of every contender, a list entry a round; contenders alternate."""
    cache, out = work / "cache", work / "out"
    attribute = [sys.executable, "-m", "lanescope", "attribute", str(trace), "--out", str(out)]
    attribute.append("--force")
    another = [*attribute, "--window", "0..99999999"]  # every step: as much work as the first
    env = {"LANESCOPE_CACHE_DIR": str(cache)}
    scan = [sys.executable, "-I", "-S", "-c", _SCAN, str(trace)]
    read = [sys.executable, "-I", "-S", "-c", _READ, str(trace)]
    lanes = [work / "a.sqlite", work / "b.sqlite"]
    for lane in lanes:
        lane.unlink(missing_ok=True)
        lane.symlink_to(trace.resolve())
    compare = [sys.executable, "-m", "lanescope", "compare", *map(str, lanes), "--json"]
    names = ("read", "scan", "cold", "staged", "again", "compare")
    costs: dict[str, list[Cost]] = {name: [] for name in names}
    through_nsys = Recipe(nsys, trace, work) if nsys and recipe else None
    run(scan)  # the file is in memory from here on, for all alike
    for _ in range(rounds):
        shutil.rmtree(cache, ignore_errors=True)
        costs["scan"].append(run(scan))
        costs["cold"].append(run(attribute, env))
        costs["scan"].append(run(scan))
        costs["staged"].append(run(another, env))
        costs["scan"].append(run(scan))
        run(attribute, env)  # the question of the next row becomes the last one asked
        costs["again"].append(run(attribute, env))
        costs["compare"].append(run(compare, env))
        costs["read"].append(run(read))
        if nsys:
            costs.setdefault("nsys", []).append(_three_reports(nsys, trace))
        if through_nsys:
            costs.setdefault("recipe", []).append(through_nsys.cost())
    return costs


def _three_reports(nsys: str, trace: Path) -> Cost:
    parts = [run([nsys, "stats", "--report", r, "--format", "csv", str(trace)]) for r in REPORTS]
    return Cost(
        wall_s=sum(p.wall_s for p in parts),
        cpu_s=sum(p.cpu_s for p in parts),
        peak_mb=max(p.peak_mb for p in parts),
        read_mb=sum(p.read_mb for p in parts),
    )


def middle(costs: list[Cost]) -> Cost:
    """The median of each figure; of peaks the highest."""
    return Cost(
        wall_s=median(c.wall_s for c in costs),
        cpu_s=median(c.cpu_s for c in costs),
        peak_mb=max(c.peak_mb for c in costs),
        read_mb=median(c.read_mb for c in costs),
    )


def table(
    times: int, kernels: int, costs: dict[str, list[Cost]]
) -> tuple[list[str], dict[str, Any]]:
    """Markdown rows of one size, and the same as a document."""
    whole = {name: middle(c) for name, c in costs.items()}
    scan = whole["scan"]
    lines = [
        f"| x{times} | {name} | {c.wall_s:.2f} | {c.wall_s / scan.wall_s:.1f} | {c.cpu_s:.2f} | "
        f"{c.cpu_s / scan.cpu_s:.1f} | {c.peak_mb:.0f} | {c.read_mb:.0f} |"
        for name, c in whole.items()
    ]
    return lines, {
        "times": times,
        "kernels": kernels,
        "rounds": len(costs["cold"]),
        "median": {name: asdict(c) for name, c in whole.items()},
    }


def gate_rows(times: int, kernels: int, costs: dict[str, list[Cost]]) -> list[dict[str, Any]]:
    """Rows as `lanescope gate` reads them: a stage is a prompt, a round a repetition.

    The wall is in scans of the same round, so that two runs on one machine compare.
    """
    scans = costs["scan"]
    rows = []
    for stage in ("cold", "staged", "again", "compare"):
        for i, cost in enumerate(costs[stage]):
            scan = median(c.wall_s for c in scans[3 * i : 3 * i + 3])
            rows.append(
                {
                    "prompt": f"x{times} {stage}",
                    "repetition": i,
                    "tokens": kernels,
                    "wall_s": cost.wall_s / scan,
                }
            )
    return rows


def main() -> None:
    """Grow, measure, print."""
    options = argparse.ArgumentParser(
        "python -m benchmarks", description=(__doc__ or "").split("\n")[0]
    )
    options.add_argument("--times", default="1,20", help="growth factors  [default: 1,20]")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--nsys", default=shutil.which("nsys"), help="an nsys to compare with")
    options.add_argument("--no-recipe", action="store_true", help="leave `nsys recipe` out")
    options.add_argument("--work", type=Path, help="where grown traces are kept for the next time")
    options.add_argument("--rows", type=Path, help="write rows for lanescope gate")
    options.add_argument("--save", help="keep the figures as benchmarks/results/NAME.json")
    args = options.parse_args()
    work = Path(tempfile.mkdtemp(prefix="lanescope-bench-", dir=args.work))
    try:
        print(f"lanescope {__version__}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}\n")
        print("| size | what | wall s | x scan | CPU s | x scan | peak MB | read MB |")
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        documents, rows = [], []
        for times in (int(t) for t in args.times.split(",")):
            trace = (args.work or work) / f"k1x{times}.sqlite"
            if not trace.exists():
                grow(SAMPLE, trace, times)
            kernels = _kernels(trace)
            room = work / f"x{times}"
            room.mkdir()
            costs = measure(trace, room, args.rounds, args.nsys, not args.no_recipe)
            rows += gate_rows(times, kernels, costs)
            lines, document = table(times, kernels, costs)
            print("\n".join(lines), flush=True)
            documents.append(document)
        if args.rows:
            args.rows.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
        if args.save:
            path = HERE / "results" / f"{args.save}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(
                json.dumps({"lanescope": __version__, "sizes": documents}, indent=1) + "\n"
            )
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _kernels(trace: Path) -> int:
    con = sqlite3.connect(f"file:{trace}?mode=ro", uri=True)
    try:
        count: int = con.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0]
    finally:
        con.close()
    return count


if __name__ == "__main__":
    main()
