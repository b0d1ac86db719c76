"""A kernel summary attributed: published rules to the digit, and what a careful reader notices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import lanescope
from lanescope.attribution.summary.reading import Given
from lanescope.profiler.cli.attribute import command
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.errors import UnusableInput, UsageError
from tests.attribution.summary.planted import Planted, slot_cache
from tests.conftest import trace_path

DATA = Path(__file__).parent / "data"
#: The geometry of the published window, with times of our own.
STEPS, LAYERS, REQUESTS = 143, 75, 4


def planted() -> Planted:
    return slot_cache(STEPS, LAYERS, REQUESTS, split=1, indexed=21)


def run(path: Path, profile: str | None = None, **given: int) -> AttributionDocument:
    with lanescope.attribute(path, profile=profile, given=Given(**given) if given else None) as a:
        return a.document


def codes(doc: AttributionDocument) -> dict[str, str]:
    out: dict[str, str] = {}
    for w in doc.warnings:
        out[w.code] = f"{out.get(w.code, chr(32))} {w.message}"
    return out


def test_by_itself(tmp_path: Path) -> None:
    truth = planted()
    doc = run(truth.write(tmp_path))
    assert doc.summary is not None
    assert (doc.summary.decode_passes, doc.summary.prefill_passes) == (STEPS, REQUESTS)
    assert (doc.summary.passes, doc.summary.layers) == (STEPS + REQUESTS, LAYERS)
    assert {76, 79} <= {c.layers for c in doc.summary.layer_counts}
    assert doc.prefill is not None
    assert doc.prefill.sum_ms_per_instance * REQUESTS * 1e6 == pytest.approx(truth.total("prefill"))
    assert doc.steps is not None
    assert doc.steps.gpu_sum_ns.total == truth.total("decode", "both")
    assert sum(b.sum_ns for b in doc.buckets) == truth.total("decode", "both")
    assert sum(p.sum_ns for p in doc.phases) == doc.coverage.kernel_sum_ns
    assert sum(p.kernels for p in doc.phases) == doc.coverage.kernels
    copies = next(b for b in doc.buckets if b.bucket == "row_copy")
    assert copies.launches_per_step == 4 * LAYERS
    withheld = {a.what for a in doc.abstained}
    assert {"wall", "busy", "exclusive", "idle", "step_spread", "period", "launches"} <= withheld
    assert copies.exclusive_ms_per_step is None
    found = codes(doc)
    assert "summary-both-phases" in found
    assert "summary-draft" in found
    assert f"{STEPS + REQUESTS} times" in found["summary-both-phases"]


def test_published_rules_and_what_they_miss(tmp_path: Path) -> None:
    truth = planted()
    doc = run(truth.write(tmp_path), profile="e1-publication")
    by_name = {r.name: r.total_ns for r in truth.rows}
    taken = {
        "bmm_E2m1_E2m1E2m1_Fp32_t128x32x512u2_s5",
        "bmm_Bfloat16_E2m1E2m1_Fp32_t128x32x512u2_s4",
        "bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x32x128_s4",
    }
    prefill = sum(by_name[n] for n in taken)
    decode = sum(by_name.values()) - prefill
    assert doc.steps is not None
    assert doc.steps.measured == 140
    assert doc.steps.gpu_sum_ns.total == decode
    expected = {
        "row_copy": by_name["masked_row_copy"],
        "bookkeeping": by_name["fused_bookkeeping"],
        "routed_moe": sum(ns for n, ns in by_name.items() if "_E2m1E2m1_" in n and n not in taken),
        "dense_gemm": sum(ns for n, ns in by_name.items() if n.startswith("nvjet")),
    }
    expected["other"] = decode - sum(expected.values())
    assert {b.bucket: b.sum_ns for b in doc.buckets} == expected
    for bucket in doc.buckets:
        assert bucket.sum_ms_per_step == pytest.approx(expected[bucket.bucket] / 140 / 1e6)
        assert bucket.share_of_sum == pytest.approx(expected[bucket.bucket] / decode)
    # what the rules overlook
    found = codes(doc)
    copies = expected["row_copy"] / 1e6
    assert (
        f"{copies / STEPS:.2f} ms a step by {STEPS}, not {copies / 140:.2f}"
        in (found["summary-passes"])
    )
    told = [r for r in truth.rows if r.phase == "prefill"]
    left = sum(r.total_ns for r in told) - prefill
    assert f"{left / 1e6:,.1f} ms of prefill" in found["summary-prefill-rows"]
    assert f"{len(told)} rows have prefill-only counts" in found["summary-prefill-rows"]
    assert "sparse_attn_fwd_kernel" in found["summary-hidden-names"]
    assert "under other" in found["summary-draft"]


def test_given_steps_are_held_against_the_counts(tmp_path: Path) -> None:
    doc = run(planted().write(tmp_path), steps=140)
    assert doc.steps is not None
    assert (doc.steps.measured, doc.steps.basis) == (140, "given")
    assert "143 decode passes" in codes(doc)["summary-passes"]
    same = run(planted().write(tmp_path), steps=STEPS)
    assert "summary-passes" not in codes(same)


def test_counts_that_do_not_tell_withhold_steps_until_they_are_given(tmp_path: Path) -> None:
    truth = slot_cache(120, 40, 7, dense=0, draft=False, once=False)
    path = truth.write(tmp_path)
    doc = run(path)
    assert doc.steps is None
    assert {"steps", "buckets"} <= {a.what for a in doc.abstained}
    assert sum(p.sum_ns for p in doc.phases) == doc.coverage.kernel_sum_ns
    told = run(path, steps=120, requests=7, layers=40)
    assert told.steps is not None
    assert told.steps.gpu_sum_ns.total == truth.total("decode", "both")


def test_a_real_summary_of_a_trace_with_truth() -> None:
    truth = json.loads(trace_path("k1").with_name("k1.truth.json").read_text())
    reference = json.loads(trace_path("k1").with_name("k1.reference.json").read_text())
    doc = run(DATA / "k1_kern_sum.csv")
    assert doc.summary is not None
    # eight warm-up steps, and two passes before the graphs were captured, are in the capture too
    assert doc.summary.decode_passes == truth["steps"] + 10
    assert doc.summary.layers == truth["args"]["layers"]
    assert doc.coverage.kernels == reference["kernels"]
    # prefill and decode share the GEMM's name here: the counts cannot split it, and that is said
    moe = next(r for r in doc.summary.table if r.name == "moe_gemm_kernel")
    assert moe.phase == "both"
    assert "buckets" in {a.what for a in doc.abstained}
    within = doc.summary.prefill_within_most_ns
    assert within is not None
    assert within >= reference["phases"]["prefill"]["by_kernel"]["moe_gemm_kernel"][1]


def test_a_real_summary_by_grid_tells_the_phases_of_one_kernel_apart() -> None:
    reference = json.loads(trace_path("k1").with_name("k1.reference.json").read_text())
    doc = run(DATA / "k1_kern_gb_sum.csv")
    assert doc.summary is not None
    assert (doc.summary.decode_passes, doc.summary.prefill_passes) == (150, 5)
    assert doc.coverage.kernels == reference["kernels"]
    gemm = {r.instances: r for r in doc.summary.table if r.name.startswith("moe_gemm_kernel")}
    # the bypass's grid: two launches a layer in each of five prompts, one of them in warm-up
    assert gemm[5 * 24 * 2].counted_as == "prefill"
    assert (
        gemm[5 * 24 * 2].sum_ns
        >= (reference["phases"]["prefill"]["by_kernel"]["moe_gemm_kernel"][1])
    )
    assert gemm[150 * 24 * 2].counted_as == "decode"
    assert "buckets" not in {a.what for a in doc.abstained}


def test_api_calls_beside_the_summary() -> None:
    with lanescope.attribute(DATA / "k1_kern_sum.csv", api=DATA / "k1_api_sum.csv") as a:
        doc = a.document
    assert doc.launches is not None
    assert doc.launches.graph_launches_per_step == pytest.approx(444 / 150)
    assert "2.96" in codes(doc)["summary-graph-launches"]
    assert "launches" not in {w.what for w in doc.abstained}


def test_a_timeline_takes_no_such_options_and_a_summary_no_window(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--steps"):
        lanescope.attribute(trace_path("k1"), given=Given(steps=3))
    with pytest.raises(UsageError, match="--window"):
        lanescope.attribute(planted().write(tmp_path), window="1..3")


def test_what_needs_a_timeline_says_so(tmp_path: Path) -> None:
    with (
        lanescope.attribute(planted().write(tmp_path)) as result,
        pytest.raises(UnusableInput, match="no timeline"),
    ):
        _ = result.kernels


def test_command_writes_document_and_page(tmp_path: Path) -> None:
    path, out = planted().write(tmp_path), tmp_path / "out"
    run_ = CliRunner().invoke(command, [str(path), "--out", str(out)], standalone_mode=False)
    assert run_.exception is None, run_.output
    document = AttributionDocument.model_validate_json((out / "attribution.json").read_text())
    assert document.summary is not None
    assert "The rows, and what their counts say" in (out / "report.html").read_text()
    assert sorted(p.name for p in out.iterdir()) == ["attribution.json", "report.html"]
    assert f"{STEPS} decode passes" in run_.output


def test_require_names_what_had_to_be_withheld(tmp_path: Path) -> None:
    path = str(planted().write(tmp_path))
    told = CliRunner().invoke(
        command, [path, "--json", "--require", "steps,buckets"], standalone_mode=False
    )
    assert told.return_value == 0
    missing = CliRunner().invoke(
        command, [path, "--json", "--require", "period"], standalone_mode=False
    )
    assert missing.return_value == 1
