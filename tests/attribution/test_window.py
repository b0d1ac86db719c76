"""Window folders are read whole, half-done or damaged; nothing is guessed and nothing raises."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lanescope.attribution.window import read_window, unix_ns
from lanescope.schemas.errors import UnusableInput

RECEIPTS = Path(__file__).parents[2] / "captures" / "receipts"


@pytest.fixture
def window(tmp_path: Path) -> Path:
    """A copy of a good window that a test may damage."""
    return Path(shutil.copytree(RECEIPTS / "h200-slots44", tmp_path / "w"))


def test_a_record_holds_what_the_files_say() -> None:
    folder = RECEIPTS / "h200-slots44"
    record = read_window(folder)
    figures = json.loads((folder / "probe-profiled.json").read_text())
    assert record.outcome == "done"
    assert len(record.receipts) == len(list((folder / "receipts").glob("*.json")))
    assert record.probes[1].by_concurrency == figures["by_concurrency"]
    rows = pq.read_table(folder / "gpu-control.parquet").to_pylist()
    assert record.gpu[0].columns["power_mw"] == [r["power_mw"] for r in rows]
    assert record.gpu[0].unix_ns == [r["unix_ns"] for r in rows]
    for probe in record.probes:
        chunks = [
            json.loads(line)["request"]
            for line in (folder / f"probe-{probe.phase}.chunks.jsonl").read_text().splitlines()
        ]
        assert probe.gaps is not None
        assert sum(probe.gaps.count) == len(chunks) - len(set(chunks))
    away = next(s for s in record.spans if s.name == "incumbent away")
    receipts = {r.state: r for r in record.receipts}
    assert away.from_ns == unix_ns(receipts["incumbent_stopped"].began)
    assert away.to_ns == unix_ns(receipts["incumbent_restored"].ended)
    assert record.unreadable == []


def test_time_of_a_receipt() -> None:
    assert unix_ns("1970-01-01T00:00:01.001Z") == 1_001_000_000
    with pytest.raises(ValueError, match="no time zone"):
        unix_ns("2026-11-30T21:26:34")


def test_every_half_done_window_is_read(window: Path) -> None:
    """A runner killed after any of its states: what is there is told, what is not stays open."""
    for receipt in sorted((window / "receipts").glob("*.json"), reverse=True):
        (window / "manifest.json").unlink(missing_ok=True)
        record = read_window(window)
        assert record.outcome == ""
        names = {r.state for r in record.receipts}
        away = [s for s in record.spans if s.name == "incumbent away"]
        assert bool(away) == ("incumbent_stopped" in names)
        if away:
            assert (away[0].to_ns is None) == ("incumbent_restored" not in names)
        receipt.unlink()
    assert read_window(window).receipts == []


@pytest.mark.parametrize("cut", [0, 1, 40, 0.5])
def test_damaged_files_are_named(window: Path, cut: float) -> None:
    files = [p for p in window.rglob("*") if p.suffix in {".json", ".jsonl", ".parquet"}]
    for file in files:
        data = file.read_bytes()
        file.write_bytes(data[: int(cut if cut >= 1 or cut == 0 else cut * len(data))])
    record = read_window(window)
    assert {"manifest.json", "gpu-control.parquet"} <= {name for name, _ in record.unreadable}
    assert record.receipts == []


def test_wrong_types_are_named_not_shown(window: Path) -> None:
    (window / "probe-control.json").write_text('{"by_concurrency": [3], "contamination": []}')
    (window / "probe-profiled.json").write_text('{"contamination": {"verdict": 7}}')
    (window / "probe-control.chunks.jsonl").write_text('{"request": "x", "t_ns": null}\n')
    (window / "receipts" / "01-preflight.json").write_text("[]")
    named = {name for name, _ in read_window(window).unreadable}
    assert named == {
        "probe-control.json", "probe-profiled.json", "probe-control.chunks.jsonl",
        "receipts/01-preflight.json",
    }  # fmt: skip


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="no receipts"):
        read_window(tmp_path)
