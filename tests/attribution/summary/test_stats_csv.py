"""How `nsys stats` CSVs have been written over the years: all give the same rows."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

import lanescope
from lanescope.schemas.errors import NoDeviceActivity, UnusableInput
from tests.attribution.summary.planted import HEADINGS, Planted, slot_cache

PLANTED = slot_cache(97, 61, 6)
PLAIN = PLANTED.text()
OLD = "Time(%),Total Time (ns),Instances,Average,Median,Minimum,Maximum,StdDev,Name"


def sums(path: Path) -> tuple[int, int, int | None]:
    with lanescope.attribute(path) as result:
        doc = result.document
    assert doc.summary is not None
    return doc.coverage.kernels, doc.coverage.kernel_sum_ns, doc.summary.decode_passes


def whole(planted: Planted) -> tuple[int, int, int]:
    rows = planted.rows
    return sum(r.instances for r in rows), sum(r.total_ns for r in rows), planted.steps


def thousands(text: str) -> str:
    lines = text.splitlines()
    out = [lines[0]]
    for line in lines[1:]:
        share, total, count, rest = line.split(",", 3)
        out.append(f'{share},"{int(total):,}","{int(count):,}",{rest}')
    return "\n".join(out)


def semicolons(text: str) -> str:
    lines = [line.split(",", 8) for line in text.splitlines()]
    return "\n".join(";".join(cells) for cells in lines)


SPELLINGS: dict[str, Callable[[], bytes]] = {
    "plain": lambda: PLAIN.encode(),
    "byte-order mark": lambda: PLAIN.encode("utf-8-sig"),
    "CRLF": lambda: PLAIN.replace("\n", "\r\n").encode(),
    "UTF-16": lambda: PLAIN.encode("utf-16"),
    "old headings": lambda: PLAIN.replace(HEADINGS, OLD).encode(),
    "no end of line": lambda: PLAIN.rstrip("\n").encode(),
    "thousands": lambda: thousands(PLAIN).encode(),
    "semicolons": lambda: semicolons(PLAIN).encode(),
    "quoted headings": lambda: PLAIN.replace(
        HEADINGS, ",".join(f'"{h}"' for h in HEADINGS.split(","))
    ).encode(),
    "title": lambda: ("\n ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n" + PLAIN).encode(),
    "progress": lambda: ("Processing [a.sqlite] with [cuda_gpu_kern_sum.py]...\n" + PLAIN).encode(),
    "warnings of many lines": lambda: (
        "WARNING: the report database may be older than this version\n" * 400 + PLAIN
    ).encode(),
    "gz": lambda: gzip.compress(PLAIN.encode()),
    "xz": lambda: lzma.compress(PLAIN.encode("utf-16")),
    "zst": lambda: zstandard.compress(PLAIN.encode()),
    "comments": lambda: ("# our window of Tuesday\n# second line\n" + PLAIN).encode(),
    "other reports around it": lambda: (
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n50.0,10,2,5.0,cudaLaunchKernel_v7000\n\n"
        + PLAIN
        + "\nTime (%),Total Time (ns),Count,Avg (ns),Operation\n1.0,5,1,5.0,[CUDA memcpy HtoD]\n"
    ).encode(),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(spelling: str, tmp_path: Path) -> None:
    path = tmp_path / "a summary; of ours.csv"
    path.write_bytes(SPELLINGS[spelling]())
    assert sums(path) == whole(PLANTED)


@pytest.mark.parametrize(("unit", "scale"), [("us", 1e3), ("usec", 1e3), ("ms", 1e6), ("s", 1e9)])
def test_units_in_the_heading(unit: str, scale: float, tmp_path: Path) -> None:
    lines = [HEADINGS.replace("(ns)", f"({unit})")]
    for r in PLANTED.rows:
        lines.append(f'0.1,{r.total_ns / scale:.9f},{r.instances},0,0,0,0,0,"{r.name}"')
    path = tmp_path / "kern_sum.csv"
    path.write_text("\n".join(lines))
    kernels, total, passes = sums(path)
    expected = whole(PLANTED)
    assert (kernels, passes) == (expected[0], expected[2])
    assert total == pytest.approx(expected[1], abs=len(PLANTED.rows) * max(1.0, scale / 1e9))


def test_rows_that_cannot_be_read_are_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "kern_sum.csv"
    path.write_text(PLAIN + "0.0,many,3,1,1,1,1,1,odd\n1.0,2\n")
    with lanescope.attribute(path) as result:
        found = {w.code: w.message for w in result.document.warnings}
    assert found["bad-cells"].startswith("2 rows")
    assert sums(path) == whole(PLANTED)


def test_totals_that_disagree_with_the_averages_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "kern_sum.csv"
    first = max(PLANTED.rows, key=lambda r: r.total_ns)
    path.write_text(PLAIN.replace(str(first.total_ns), str(2 * first.total_ns), 1))
    with lanescope.attribute(path) as result:
        assert "summary-totals" in {w.code for w in result.document.warnings}


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (HEADINGS + "\n", NoDeviceActivity, "no kernels"),
        ("Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n1,2,3,4,x\n", UnusableInput, "summary"),
        (PLAIN.replace("Total Time (ns)", "Total Time (parsecs)"), UnusableInput, "unit"),
        ("a,b,c\n1,2,3\n", UnusableInput, "neither"),
    ],
)
def test_files_that_are_no_kernel_summary(
    text: str, error: type[UnusableInput], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(error, match=words):
        lanescope.attribute(path)
