"""The estimate on real traces, against the counts that the engine itself recorded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lanescope.attribution.attribute import Attribution, attribute
from lanescope.schemas.documents.misses import ScoreRow
from tests.conftest import load_json, trace_path

#: Done means: exact share, error of the mean, coverage of the 95 % intervals.
CLEAN = ("k1", "k2", "slots20", "slots44", "mixed", "apirange", "eager", "fieldlike")
BYTES = {"w13": 2_097_152, "w2": 1_048_576, "w13_scale": 131_072, "w2_scale": 65_536}


def _score(result: Attribution, name: str) -> ScoreRow:
    return result.score(trace_path(name).with_name(f"{name}.truth.json"))


@pytest.mark.parametrize("name", CLEAN)
def test_counts_without_any_fact(name: str) -> None:
    with attribute(trace_path(name)) as result:
        row = _score(result, name)
        assert row.exact >= 0.995
        assert row.covered >= 0.93
        assert abs(row.mean_error) <= 0.005
        assert row.mean_covered
        misses = result.document.misses
        truth = load_json(name, "truth")
        assert misses is not None
        assert misses.routed_rows == truth["routed_per_layer_step"]
        assert misses.layers == truth["args"]["layers"]
        assert misses.copies_per_layer_step == 4
        assert misses.identifiability.verdict == "exact"
        assert misses.hit_rate is not None
        assert misses.hit_rate.low <= truth["hit_rate"] <= misses.hit_rate.high


def test_disturbed_and_unsaturated() -> None:
    with attribute(trace_path("noisy")) as result:
        row = _score(result, "noisy")
    assert row.exact >= 0.95
    assert row.covered >= 0.93
    assert abs(row.mean_error) <= 0.02
    assert row.mean_covered


@pytest.mark.parametrize(
    ("name", "parts"), [("twoproc", ("p1", "p2")), ("gpus_index", ("p0", "p1"))]
)
def test_two_processes(name: str, parts: tuple[str, str]) -> None:
    with attribute(trace_path(name)) as result:
        for part in parts:
            row = result.score(trace_path(name).with_name(f"{name}.{part}.truth.json"))
            assert row.exact >= 0.95, part
            assert row.covered >= 0.93, part


def test_graph_level_withholds_misses() -> None:
    with attribute(trace_path("graphlevel")) as result:
        assert result.document.misses is None
        assert "misses" in {a.what for a in result.document.abstained}


@pytest.mark.parametrize("name", ["k1", "k2", "slots20", "slots44", "fieldlike"])
def test_bandwidth_with_row_bytes(name: str, tmp_path: Path) -> None:
    truth = load_json(name, "truth")
    with attribute(trace_path(name), profile=_profile(tmp_path)) as result:
        link, frame = result.document.link, result.layer_steps
    assert link is not None
    assert frame is not None
    assert link.counted_tensors == ["w13"]
    some = frame[frame.measured]
    counts = np.array(truth["misses"])[some.step - some.step.min(), some.layer]
    measured = counts.sum() * BYTES["w13"] / some.copy_ns_w13.to_numpy().sum()
    assert link.marginal_GBps == pytest.approx(measured, rel=0.03)
    # between that and the slope of the levels alone, which leaves latency out
    assert measured < link.marginal_GBps < (link.saturated_GBps or 0.0)
    assert link.marginal_GBps < truth["h2d_GBps"]
    assert link.reference_GBps == pytest.approx(truth["h2d_GBps"], rel=0.01)
    whole = counts.sum() * sum(BYTES.values())
    copies = some[[f"copy_ns_{t}" for t in BYTES]].to_numpy().sum()
    assert link.effective_GBps == pytest.approx(whole / copies, rel=0.002)
    steps = some.step.nunique()
    assert link.copy_ms_per_step == pytest.approx(copies / steps / 1e6)
    split = link.byte_ms_per_step + link.overhead_ms_per_step + link.contention_ms_per_step
    assert split == pytest.approx(link.copy_ms_per_step)


def _profile(folder: Path, **more: object) -> str:
    """The bundled profile with the bytes of a row stated."""
    from lanescope.attribution.rules.profile import bundled

    text = bundled()["slot-cache"].read_text(encoding="utf-8")
    lines = ["[row_copies.row_bytes]", *(f"{k} = {v}" for k, v in BYTES.items())]
    facts = "\n".join(f"{k} = {json.dumps(v)}" for k, v in more.items())
    path = folder / "lane.toml"
    path.write_text(text.rstrip() + "\n" + facts + "\n" + "\n".join(lines) + "\n")
    return str(path)


def test_a_contradicting_profile_is_reported_not_averaged(tmp_path: Path) -> None:
    profile = _profile(tmp_path, layers=23, routed_rows=16)
    with attribute(trace_path("k1"), profile=profile) as result:
        codes = [
            w.message for w in result.document.warnings if w.code == "copies-contradict-profile"
        ]
        assert any("23 layers" in c for c in codes)
        assert any("16 routed rows" in c for c in codes)
        assert result.document.misses is not None
        assert result.document.misses.layers == 24
        assert _score(result, "k1").exact >= 0.995


def test_prefill_copies_are_in_no_step() -> None:
    """Prompts under the bypass threshold go through the cache: `fieldlike` has them."""
    with attribute(trace_path("fieldlike")) as result:
        misses, frame = result.document.misses, result.layer_steps
    assert misses is not None
    assert frame is not None
    assert misses.outside_decode.get("prefill", 0) > 0
    assert len(frame[frame.measured]) == 144 * 20
    assert "copies-in-prefill" in {w.code for w in result.document.warnings}
