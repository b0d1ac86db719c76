"""Fifty small traces, two of them broken."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from lanescope.profiler.cli.main import main

#: Kernels, calls and ranges of the first so many steps of k1 are kept.
_STEPS = (12, 16, 20, 24)
BROKEN = ("t07.sqlite", "t31.sqlite")


@pytest.fixture(scope="package")
def fifty(tmp_path_factory: pytest.TempPathFactory, unpacked: Callable[[str], Path]) -> Path:
    """A folder of 50 traces, named t00 to t49: four contents, and two files that are no traces."""
    folder = tmp_path_factory.mktemp("fifty")
    cut = [_cut(unpacked("k1"), folder / f"cut{n}", n) for n in _STEPS]
    for i in range(50):
        shutil.copy(cut[i % len(cut)], folder / f"t{i:02}.sqlite")
    for one in cut:
        one.unlink()
    (folder / BROKEN[0]).write_bytes(b"SQLite format 3\x00" + b"\x00" * 200)
    (folder / BROKEN[1]).write_bytes(b"")
    return folder


@pytest.fixture(scope="package")
def by_one(fifty: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset of all fifty, by one process."""
    target = tmp_path_factory.mktemp("datasets") / "one"
    with pytest.raises(SystemExit) as ended:
        main(["attribute", str(fifty), "--jobs", "1", "--out", str(target), "--json"])
    assert ended.value.code == 3
    return target


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by its path in it."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def _cut(trace: Path, target: Path, steps: int) -> Path:
    """The trace up to the end of its `steps`-th verification step."""
    shutil.copy(trace, target)
    con = sqlite3.connect(target)
    ranges = "SELECT start, end FROM NVTX_EVENTS JOIN StringIds ON id = textId WHERE value LIKE ?"
    found = con.execute(f"{ranges} ORDER BY start", ("%verify%",)).fetchall()
    if not found:
        found = con.execute(
            "SELECT start, end FROM NVTX_EVENTS WHERE text LIKE '%verify%' ORDER BY start"
        ).fetchall()
    stop = found[min(steps, len(found)) - 1][1] + 50_000_000
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
        con.execute(f"DELETE FROM {table} WHERE start > ?", (stop,))
    con.commit()
    con.execute("VACUUM")
    con.close()
    return target
