"""Fault matrix, the disk: full at capture, at export, at a receipt; on a small real file system."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.profiler.faults import expect
from tests.profiler.parts import ProcessBench

pytestmark = pytest.mark.nsight


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Callable[[str, int], Path]]:
    """Mounts a file system of so many bytes below the test's folder."""
    if os.geteuid() != 0:
        pytest.skip("a small file system of its own needs root")
    mounted: list[Path] = []

    def mount(name: str, size: int) -> Path:
        place = tmp_path / name
        place.mkdir(exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=False)


def fill(path: Path) -> None:
    """Write until there is no space."""
    with path.open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()


def test_full_at_capture(bench: ProcessBench, small: Callable[[str, int], Path]) -> None:
    bench.quick()
    small("little", 96 * 1024)  # a report of this window takes about twice that
    bench.change(private="little/private", checks={"free_gib": 0})
    done = bench.capture()
    expect("disk-capture", done.returncode, bench)
    assert bench.receipt("profile_stopped")["status"] == "failed"


def test_full_at_export(bench: ProcessBench, small: Callable[[str, int], Path]) -> None:
    bench.quick()
    small("little", 320 * 1024)  # room for the report, not for its export
    bench.change(private="little/private", checks={"free_gib": 0})
    done = bench.capture()
    expect("disk-export", done.returncode, bench)
    assert bench.receipt("export")["status"] == "failed"
    assert "try again: nsys export" in bench.receipt("export")["error"]
    private = bench.folder / "little" / "private" / bench.state.name
    assert (private / "report" / "report.nsys-rep").stat().st_size > 0
    assert not (private / "raw.sqlite").exists()


def test_full_at_a_receipt(bench: ProcessBench, small: Callable[[str, int], Path]) -> None:
    bench.quick()
    place = small("little", 6 * 2**20)
    bench.change(output="little/out", private="private", checks={"free_gib": 0})
    runner = bench.begin()
    bench.until(runner, "ready")
    with pytest.raises(OSError, match="No space left"):
        fill(place / "filler")
    code, said = bench.end_of(runner)
    expect("disk-receipt", code, bench)
    assert len(bench.receipts()) == 17, said
