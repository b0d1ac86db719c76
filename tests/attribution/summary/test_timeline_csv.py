"""`cuda_gpu_trace` CSVs: the same kernels and steps as the trace they were written from."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lanescope.attribution.attribute import Analysis, analyse
from lanescope.schemas.errors import NoDeviceActivity, UsageError
from tests.attribution.summary import device_timeline
from tests.conftest import load_json, trace_path

ORDER = ["start_ns", "device", "stream", "name"]


def kernels(analysis: Analysis) -> pd.DataFrame:
    frame = analysis.frame("kernels_out").sort_values(ORDER, kind="stable")
    return frame.reset_index(drop=True)


def figures(analysis: Analysis) -> dict[tuple[str, str], tuple[int, int, int]]:
    rows = analysis.rows("SELECT * FROM phases_table WHERE kernels > 0")
    return {(r["phase"], r["part"]): (r["kernels"], r["sum_ns"], r["busy_ns"]) for r in rows}


@pytest.fixture(scope="module")
def k1_csv(unpacked: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return device_timeline.write(unpacked("k1"), tmp_path_factory.mktemp("csv") / "k1 trace.csv")


def test_phases_and_steps_of_k1_equal_the_reference(k1_csv: Path) -> None:
    reference = load_json("k1", "reference")["phases"]
    with analyse(k1_csv) as found:
        words = {
            "spec_verify": ("decode", "verify"),
            "draft": ("decode", "draft"),
            "prefill": ("prefill", ""),
            "outside": ("outside", ""),
        }
        wanted = {
            words[w]: (r["kernels"], r["sum_ns"], r["union_ns"]) for w, r in reference.items()
        }
        got = figures(found)
        steps = found.frame("steps_table")
    # a lone fill before the first prefill cannot be told from it
    lone = wanted["outside", ""][0] - got["outside", ""][0]
    assert 0 <= lone <= 1
    assert got["prefill", ""][0] == wanted["prefill", ""][0] + lone
    for part in ("verify", "draft"):
        assert got["decode", part] == wanted["decode", part]
    measured = steps[steps.measured]
    got = list(zip(measured.kernels, measured.gpu_sum_ns, measured.gpu_busy_ns, strict=True))
    of_steps = load_json("k1", "reference")["steps"]
    assert got == [(s["kernels"], s["sum_ns"], s["union_ns"]) for s in of_steps]


@pytest.mark.parametrize("name", ["mixed", "apirange", "eager"])
def test_others_are_as_right_or_withheld(
    name: str, unpacked: Callable[[str], Path], tmp_path: Path
) -> None:
    path = device_timeline.write(unpacked(name), tmp_path / "trace.csv")
    with analyse(trace_path(name)) as truth, analyse(path, use_cache=False) as found:
        left, right = kernels(truth), kernels(found)
        steps = [len(a.rows("SELECT DISTINCT step FROM steps_table")) for a in (truth, found)]
        reasons = found.phased.reasons
    time = left.end_ns - left.start_ns
    assert (left[["start_ns", "end_ns"]] == right[["start_ns", "end_ns"]]).all(axis=None)
    if steps[1] == 0:
        assert reasons
        assert set(right.phase) == {"outside"}
        return
    agree = (left.phase == right.phase) & (left.part == right.part)
    assert time[agree].sum() / time.sum() >= 0.995
    assert steps[0] == steps[1]


def small(
    tmp_path: Path, change: Callable[[list[str]], list[str]] | None = None, **kw: Any
) -> Path:
    """A made-up timeline: 6 replays of a graph of 5 kernels, one copy before each."""
    lines = [",".join(device_timeline.HEADINGS)]
    at = 1_000_000_000
    for step in range(6):
        corr = 100 + 10 * step
        lines.append(
            f"{at},800,{corr},,,,,,,,,,0.004,1.0,Pinned,Device,NVIDIA H200 (0),1,,7,"
            "[CUDA memcpy Host-to-Device]"
        )
        at += 30_000
        for k in range(5):
            lines.append(
                f"{at},4000,{corr + 1},{k + 1},1,1,128,1,1,16,0.000,0.000,,,,,NVIDIA H200 (0),1,,7,"
                f'"void ns::kernel_{k}<(int)4, float>(T1, int)"'
            )
            at += 5_000
        at += 400_000
    text = "\n".join(change(lines) if change else lines) + "\n"
    path = tmp_path / "trace.csv"
    path.write_bytes(text.encode(kw.get("encoding", "utf-8")))
    return path


def total(path: Path) -> tuple[int, int]:
    with analyse(path, use_cache=False) as found:
        row = found.rows("SELECT * FROM conservation")[0]
    return row["fact_kernels"], row["fact_ns"]


def thousands(lines: list[str]) -> list[str]:
    out = [lines[0]]
    for line in lines[1:]:
        start, rest = line.split(",", 1)
        out.append(f'"{int(start):,}",{rest}')
    return out


def microseconds(lines: list[str]) -> list[str]:
    head = lines[0].replace("Start (ns)", "Start (us)").replace("Duration (ns)", "Duration(usec)")
    out = [head]
    for line in lines[1:]:
        start, length, rest = line.split(",", 2)
        out.append(f"{int(start) / 1000:.3f},{int(length) / 1000:.3f},{rest}")
    return out


@pytest.mark.parametrize(
    ("change", "encoding"),
    [
        (None, "utf-8"),
        (None, "utf-8-sig"),
        (None, "utf-16"),
        (thousands, "utf-8"),
        (microseconds, "utf-8"),
        (lambda lines: [x + "\r" for x in lines], "utf-8"),
        (lambda lines: ["", " ** CUDA GPU Trace (cuda_gpu_trace):", "", *lines], "utf-8"),
        (lambda lines: [*lines, "", "Time (%),Total Time (ns),Instances,Name", "1,2,3,x"], "utf-8"),
        (lambda lines: [lines[0], *sorted(lines[1:], reverse=True)], "utf-8"),
    ],
)
def test_spellings(
    change: Callable[[list[str]], list[str]] | None, encoding: str, tmp_path: Path
) -> None:
    assert total(small(tmp_path, change, encoding=encoding)) == (30, 30 * 4000)


def test_bad_cells_cost_their_row_alone(tmp_path: Path) -> None:
    def spoil(lines: list[str]) -> list[str]:
        return [*lines, lines[-1].replace("4000", "long", 1), "1,2"]

    with analyse(small(tmp_path, spoil), use_cache=False) as found:
        bad = {(b["table"], b["column"]): b["cells"] for b in found.staged.info.bad_cells}
    assert bad == {("cuda_gpu_trace", "Start or Duration"): 1, ("cuda_gpu_trace", "rows"): 1}
    assert total(small(tmp_path, spoil)) == (30, 30 * 4000)


def test_a_graph_replay_a_step_is_found_without_a_host(tmp_path: Path) -> None:
    with analyse(small(tmp_path), use_cache=False) as found:
        assert len(found.rows("SELECT * FROM steps_table")) == 6


def test_the_same_piece_replayed_once_a_layer_is_one_step(tmp_path: Path) -> None:
    """Engines that capture a graph a layer replay equal graphs many times a step."""
    lines = [",".join(device_timeline.HEADINGS)]
    at, corr = 1_000_000_000, 100
    for _step in range(12):
        for _layer in range(8):
            corr += 3
            for k in range(3):
                lines.append(
                    f"{at},4000,{corr},{k + 1},1,1,8,1,1,16,0,0,,,,,GPU (0),1,,7,piece_{k}"
                )
                at += 5_000
            corr += 2
            lines.append(
                f"{at},9000,{corr},9,1,1,128,1,1,16,0,0,,,,,NVIDIA H200 (0),1,,7,attention"
            )
            at += 10_000
        at += 400_000
    path = tmp_path / "pieces.csv"
    path.write_text("\n".join(lines))
    with analyse(path, use_cache=False) as found:
        steps = found.rows("SELECT kernels FROM steps_table")
    assert [s["kernels"] for s in steps] == [32] * 12


def test_processes_that_share_ids_are_not_mixed_up(tmp_path: Path) -> None:
    """Two processes on one GPU use the same correlation ids: nothing then tells their launches."""
    lines = [",".join(device_timeline.HEADINGS)]
    at = 1_000_000_000
    for step in range(40):
        for corr, name in ((100 + step, "one"), (105 + step, "two")):
            for k in range(4):
                lines.append(f"{at},900,{corr},{k + 1},1,1,1,1,1,1,0,0,,,,,GPU (0),1,,7,{name}_{k}")
                at += 1_000
        at += 100_000
    path = tmp_path / "two.csv"
    path.write_text("\n".join(lines))
    with analyse(path, use_cache=False) as found:
        assert not found.rows("SELECT * FROM steps_table")
        assert "processes share correlation ids" in found.phased.reasons[0]
        assert total(path) == (320, 320 * 900)


def test_a_compressed_timeline_is_the_same(k1_csv: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(k1_csv.read_bytes(), 1))
    with analyse(k1_csv) as plain, analyse(path) as packed:
        assert figures(packed) == figures(plain)


def test_copies_alone_are_no_step(k1_csv: Path, tmp_path: Path) -> None:
    lines = k1_csv.read_text().splitlines()
    copies = [line for line in lines[1:] if line.endswith("]")]
    path = tmp_path / "copies.csv"
    path.write_text("\n".join([lines[0], *copies]))
    with pytest.raises(NoDeviceActivity, match=f"no kernel.*{len(copies):,} memory operations"):
        analyse(path, use_cache=False)


def test_no_rows_and_no_window(tmp_path: Path) -> None:
    with pytest.raises(NoDeviceActivity):
        analyse(small(tmp_path, lambda lines: lines[:1]), use_cache=False)
    with pytest.raises(UsageError):
        analyse(small(tmp_path), window="90..99", use_cache=False)
