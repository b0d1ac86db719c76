"""What a recipe sees: a real report, and the Parquet tables of a bundled trace beside it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

Reports = Callable[..., Path]
Nsys = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def cpu_report(nsys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real report of a program without a GPU: Nsight Systems opens it, and finds no kernels."""
    report = tmp_path_factory.mktemp("report") / "cpu.nsys-rep"
    for _ in range(3):  # its import fails now and then
        subprocess.run(
            [nsys / "bin/nsys", "profile", "-t", "nvtx", "-s", "none", "--cpuctxsw=none",
             "-f", "true", "-o", report.with_suffix(""), sys.executable, "-c", "pass"],
            check=True, capture_output=True,
        )  # fmt: skip
        if report.exists():
            return report
    raise AssertionError("nsys left no report three times")


def write_tables(export: Path, folder: Path) -> None:
    """A SQLite export as a folder of Parquet tables, one file a table."""
    folder.mkdir()
    con = sqlite3.connect(export)
    for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        cursor = con.execute(f'SELECT * FROM "{name}"')
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
        columns = [[row[i] for row in rows] for i in range(len(names))]
        table = pa.table({n: pa.array(c) for n, c in zip(names, columns, strict=True)})
        pq.write_table(table, folder / f"{name}.parquet")
    con.close()


@pytest.fixture(scope="session")
def reports(
    cpu_report: Path, unpacked: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Reports:
    """`reports("k1", "k2")`: a folder of its own with NAME.nsys-rep and NAME_pqtdir/ of each."""

    def make(*names: str) -> Path:
        folder = tmp_path_factory.mktemp("reports")
        for name in names:
            shutil.copyfile(cpu_report, folder / f"{name}.nsys-rep")
            write_tables(unpacked(name), folder / f"{name}_pqtdir")
        return folder

    return make


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which `lanescope recipes install` put the recipes."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [sys.executable, "-m", "lanescope", "recipes", "install", "--to", folder],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="session")
def recipe(nsys: Path, installed: Path) -> Nsys:
    """`recipe(NAME, *options, cwd=FOLDER)` runs `nsys recipe` with this Python.

    Without a terminal nsys puts what the recipe says on stderr into stdout: read that.
    """
    environment = {
        **os.environ,
        "NSYS_RECIPE_PATH": str(installed),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NSYS_DASK_N_WORKERS": "2",
    }

    def run(
        name: str, *options: object, cwd: Path, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [nsys / "bin/nsys", "recipe", name, *map(str, options)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=cwd,
            env=environment | extra,
        )  # fmt: skip

    return run
