"""The recipes against any Nsight Systems: PASS or FAIL a case, in every mode.

    python -m tests.profiler.recipes.against NSYS REPORT REPORT [--work DIR]

NSYS is the program, REPORTs are two .nsys-rep of serving engines. Beside a report its Parquet
tables may lie (NAME_pqtdir); it is exported otherwise, for the figures to hold the recipes against.
Run it with the Python that lanescope is installed for; dask and nbclient are used where they are.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd

import lanescope

MODES = ("none", "concurrent", "dask-futures")
Check = Callable[[Path, list[Path], list[Path]], str]


def equal(recipe: pd.DataFrame, direct: pd.DataFrame, keys: list[str]) -> str:
    """What differs between two tables, '' if nothing does."""
    columns = sorted((set(recipe) & set(direct)) - {"process"})
    if set(direct) - set(recipe):
        return f"columns {sorted(set(direct) - set(recipe))} are missing"
    a, b = (f.sort_values(keys, ignore_index=True)[columns] for f in (recipe, direct))
    try:
        pd.testing.assert_frame_equal(a, b, check_dtype=False)
    except AssertionError as exc:
        return " ".join(str(exc).split())
    return ""


def step_buckets(out: Path, reports: list[Path], sources: list[Path]) -> str:
    """steps and step_buckets are those of `lanescope.attribute`."""
    steps, buckets = (pd.read_parquet(out / f"{n}.parquet") for n in ("steps", "step_buckets"))
    for report, source in zip(reports, sources, strict=True):
        with lanescope.attribute(source) as direct:
            wrong = equal(
                steps[steps["file"] == report.stem], direct.steps, ["segment", "device"]
            ) or equal(
                buckets[buckets["file"] == report.stem],
                direct.step_buckets,
                ["segment", "device", "bucket"],
            )
            if wrong:
                return f"{report.name}: {wrong}"
            if direct.steps.empty:
                return f"{report.name} has no steps: nothing was compared"
    return ""


def row_copies(out: Path, reports: list[Path], sources: list[Path]) -> str:
    """layer_steps are those of `lanescope.attribute`."""
    rows = pd.read_parquet(out / "layer_steps.parquet")
    for report, source in zip(reports, sources, strict=True):
        with lanescope.attribute(source) as direct:
            mine = rows[rows["file"] == report.stem]
            if direct.layer_steps is None:
                return f"{report.name} has no row copies: nothing was compared"
            keys = [c for c in ("process", "step", "layer") if c in direct.layer_steps]
            if wrong := equal(mine, direct.layer_steps, keys):
                return f"{report.name}: {wrong}"
    return ""


def lane_diff(out: Path, _reports: list[Path], sources: list[Path]) -> str:
    """The figures are those of `lanescope.compare`."""
    mine = json.loads((out / "comparison.json").read_text())["pairs"]
    direct = [json.loads(p.model_dump_json()) for p in lanescope.compare(*sources).pairs]
    parts = ("deltas", "waterfall", "counts", "kernels", "refused")
    for a, b in zip(mine, direct, strict=True):
        for part in parts:
            if a[part] != b[part]:
                return f"{part} differ"
    return ""


CHECKS: dict[str, Check] = {
    "lanescope_step_buckets": step_buckets,
    "lanescope_row_copies": row_copies,
    "lanescope_lane_diff": lane_diff,
}


def run_notebook(out: Path) -> str:
    """Execute the notebook of an output folder."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    for file in out.glob("*.ipynb"):
        book = nbformat.read(file, 4)
        try:
            NotebookClient(book, timeout=300, resources={"metadata": {"path": out}}).execute()
        except CellExecutionError as exc:
            return str(exc).splitlines()[-1]
        return ""
    return "there is no notebook"


def exported(nsys: Path, report: Path, work: Path) -> Path:
    """What to attribute directly: the tables beside the report, or an export of it."""
    beside = report.with_name(f"{report.stem}_pqtdir")
    if beside.is_dir():
        return beside
    target = work / f"{report.stem}.sqlite"
    command = [nsys, "export", "--type", "sqlite", "--force-overwrite", "true"]
    subprocess.run([*command, "-o", target, report], check=True, capture_output=True)
    return target


def main() -> int:
    """Run every case. 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nsys", type=Path)
    parser.add_argument("reports", type=Path, nargs="+")
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="recipes-"))
    work.mkdir(parents=True, exist_ok=True)
    reports = [r.resolve() for r in given.reports]
    sources = [exported(given.nsys, r, work) for r in reports]
    installed = work / "recipes"
    subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "lanescope",
            "recipes",
            "install",
            "--to",
            installed,
            "--force",
        ],
        check=True,
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {
        "NSYS_RECIPE_PATH": str(installed),
        "PATH": path,
        "NSYS_DASK_N_WORKERS": "2",
    }
    failed = 0
    for name, check in CHECKS.items():
        for mode in MODES:
            out = work / f"{name}-{mode}"
            done = subprocess.run(
                [given.nsys, "recipe", name, "--input", *reports, "--mode", mode,
                 "--output", out, "--force-overwrite", "--csv"],
                env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
            try:
                wrong = check(out, reports, sources) if done.returncode == 0 else done.stdout
            except (OSError, KeyError, ValueError) as exc:
                wrong = f"{type(exc).__name__}: {exc}; {done.stdout}"
            failed += bool(wrong)
            print(f"{'FAIL' if wrong else 'PASS'} {name} --mode {mode}", flush=True)
            if wrong:
                print(f"     {wrong[-1500:]}")
        if importlib.util.find_spec("nbclient") and (out := work / f"{name}-none").is_dir():
            wrong = run_notebook(out)
            failed += bool(wrong)
            print(f"{'FAIL' if wrong else 'PASS'} {name} notebook {wrong}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
