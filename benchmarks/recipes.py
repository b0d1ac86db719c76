"""`nsys recipe` on a grown trace, with our recipe of a step's buckets.

A recipe reads a report and the Parquet tables beside it. The report here is a small real one; the
tables are those of the trace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import adbc_driver_sqlite.dbapi as adbc
import pyarrow.parquet as pq

from benchmarks.process import Cost, run

RECIPE = "lanescope_step_buckets"


class Recipe:
    """What a run of the recipe needs, made once a trace."""

    def __init__(self, nsys: str, trace: Path, work: Path) -> None:
        """Record a report, write the tables beside it, install our recipes."""
        self._nsys, self._room = nsys, work / "recipes"
        reports = self._room / "reports"
        reports.mkdir(parents=True)
        python = [sys.executable, "-c", "pass"]
        record = [nsys, "profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o"]
        subprocess.run(
            [*record, str(reports / trace.stem), *python], check=True, capture_output=True
        )
        self._report = reports / f"{trace.stem}.nsys-rep"
        tables = reports / f"{trace.stem}_pqtdir"
        # in a process of its own: what a child is said to have used includes what we use
        subprocess.run([sys.executable, "-m", __name__, str(trace), str(tables)], check=True)
        installed = self._room / "installed"
        command = [sys.executable, "-m", "lanescope", "recipes", "install", "--to", str(installed)]
        subprocess.run(command, check=True, capture_output=True)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        cache = str(self._room / "cache")
        self._env = {
            "NSYS_RECIPE_PATH": str(installed), "PATH": path, "LANESCOPE_CACHE_DIR": cache
        }  # fmt: skip

    def cost(self) -> Cost:
        """Run the recipe in one process of its own, on tables not seen before."""
        shutil.rmtree(self._room / "cache", ignore_errors=True)
        options = ["--input", str(self._report), "--output", str(self._room / "out")]
        command = [self._nsys, "recipe", RECIPE, *options, "--mode", "none", "--force-overwrite"]
        return run(command, self._env, cwd=self._room)


def _write_tables(trace: Path, folder: Path) -> None:
    """Every table as a Parquet file, as `nsys export --type parquetdir` names them."""
    folder.mkdir()
    with adbc.connect(f"file:{trace}?mode=ro") as con, con.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for name in cursor.fetch_arrow_table().column(0).to_pylist():
            cursor.execute(f'SELECT * FROM "{name}"')
            pq.write_table(cursor.fetch_arrow_table(), folder / f"{name}.parquet")


if __name__ == "__main__":
    _write_tables(Path(sys.argv[1]), Path(sys.argv[2]))
