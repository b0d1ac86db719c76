"""The report's window through the whole pipeline: its E1 figures come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from lanescope.attribution.attribute import attribute
from lanescope.attribution.rules.profile import bundled
from tests.attribution.copies import report_window as window


def test_the_tables_of_the_report(tmp_path: Path) -> None:
    export = tmp_path / "e1.sqlite"
    truth = window.write(export)
    rows = "\n".join(f"{k} = {v}" for k, v in window.TENSORS.items())
    profile = tmp_path / "lane.toml"
    text = bundled()["slot-cache"].read_text(encoding="utf-8")
    profile.write_text(f"{text.rstrip()}\n[row_copies.row_bytes]\n{rows}\n")
    with attribute(export, profile=str(profile)) as result:
        doc, frame = result.document, result.layer_steps
    assert doc.misses is not None
    assert doc.link is not None
    assert doc.model is not None
    assert frame is not None
    ms = {b.bucket: b.sum_ms_per_step for b in doc.buckets}
    for bucket, figure in (("dense_gemm", 9.415), ("routed_moe", 5.381), ("bookkeeping", 1.054)):
        assert ms[bucket] == pytest.approx(figure, rel=0.001)
    assert ms["row_copy"] == pytest.approx(window.COPIES_MS, rel=0.02)
    copies = next(b for b in doc.buckets if b.bucket == "row_copy")
    assert copies.launches_per_step == 300  # 75 layers x 4
    assert doc.prefill is not None  # and none of it in decode
    assert doc.prefill.sum_ms_per_instance == pytest.approx(75 * 7.812, rel=0.001)

    misses = doc.misses
    assert (misses.layers, misses.copies_per_layer_step, misses.routed_rows) == (75, 4, 16)
    assert [t.grid for t in misses.tensors] == [[16, b, 1] for b in (768, 384, 96, 48)]
    measured = frame[frame.measured]
    last = measured[measured.step > measured.step.max() - len(truth)]
    counts = truth[(last.step - last.step.min()).to_numpy(), last.layer.to_numpy()]
    assert (last.misses.to_numpy() == counts).mean() >= 0.995
    assert misses.per_layer_step.low <= counts.mean() <= misses.per_layer_step.high
    assert misses.per_layer_step.estimate == pytest.approx(4.4, abs=0.1)
    assert misses.hit_rate is not None
    assert misses.hit_rate.estimate == pytest.approx(1 - counts.mean() / 16, abs=0.001)

    # 32.8 us a missed row of 12 MiB is 383 GB/s; about 18 of 20.1 ms are bytes
    rate = window.TENSORS["w13"] / window.ROW_W13_NS
    assert rate == pytest.approx(383.6, abs=0.1)
    assert doc.link.saturated_GBps == pytest.approx(rate, rel=0.01)
    expected = counts.mean() * 75 * sum(window.TENSORS.values()) / rate / 1e6
    assert doc.link.byte_ms_per_step == pytest.approx(expected, rel=0.02)
    assert doc.link.copy_ms_per_step == pytest.approx(ms["row_copy"], rel=1e-6)
    # one more miss in every layer moves 75 rows of every tensor
    slope = 75 * sum(window.TENSORS.values()) / rate / 1e6
    assert doc.model.ms_per_miss.low <= slope * 1.01
    assert doc.model.ms_per_miss.high >= slope * 0.99
    assert doc.model.slope_GBps == pytest.approx(rate, rel=0.03)


def test_formulas_of_the_report() -> None:
    assert pytest.approx(0.725) == 1 - 4.4 / 16
    assert pytest.approx(346.0, abs=0.05) == 4.4 * 75 * (12_582_912 + 6_291_456) / 18e6
