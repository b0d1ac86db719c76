"""The same traces with their ranges deleted, scored against the references that had them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lanescope
from tests.conftest import load_json, trace_path

SCORED = ("k1", "k2", "slots20", "slots44", "noisy", "mixed", "apirange", "fieldlike", "eager")


def right_share(with_ranges: Path, without: Path) -> tuple[float, int, int]:
    """(share of kernel time whose phase and part agree, steps with ranges, steps without)."""
    with lanescope.attribute(with_ranges) as a, lanescope.attribute(without) as b:
        columns = ["start_ns", "end_ns", "phase", "part"]
        left, right = a.kernels[columns], b.kernels[columns]
        assert (left.start_ns == right.start_ns).all()
        time = left.end_ns - left.start_ns
        agree = (left.phase == right.phase) & (left.part == right.part)
        return (
            float(time[agree].sum() / time.sum()),
            a.document.steps.count if a.document.steps else 0,
            b.document.steps.count if b.document.steps else 0,
        )


@pytest.mark.parametrize("name", SCORED)
def test_phases_and_steps_without_any_range(name: str, surgery: Callable[..., Path]) -> None:
    share, steps, found = right_share(trace_path(name), surgery(name, "DELETE FROM NVTX_EVENTS"))
    assert share >= 0.995
    assert found == steps


@pytest.mark.parametrize("missing", ["prefill", "spec_verify", "draft"])
def test_one_kind_of_range_missing(missing: str, surgery: Callable[..., Path]) -> None:
    without = surgery("k1", f"DELETE FROM NVTX_EVENTS WHERE text = '{missing}'")
    share, steps, found = right_share(trace_path("k1"), without)
    assert share >= 0.995
    assert found == steps


def test_graph_level_keeps_busy_time_and_withholds_buckets() -> None:
    truth = load_json("graphlevel", "truth")
    with lanescope.attribute(trace_path("graphlevel")) as result:
        document = result.document
        blocks = result.analysis.rows("SELECT count(*) AS n FROM ops WHERE kind = 'graph'")[0]
    assert document.coverage.graph_blocks == blocks["n"]
    assert document.coverage.kernel_busy_ns > document.coverage.kernel_sum_ns
    verify = next(p for p in document.phases if p.part == "verify")
    assert verify.graph_blocks == 2 * (truth["steps"] + 8)
    assert document.steps is not None
    assert document.steps.measured == truth["steps"]
    withheld = {a.what: a for a in document.abstained}
    assert "--cuda-graph-trace=node" in withheld["buckets"].remedy
    assert "row_copy" not in {b.bucket for b in document.buckets}


@pytest.mark.parametrize("ranges", ["", "WHERE text LIKE 'request%'"])
def test_a_capture_that_begins_in_a_request_has_no_warm_up(
    ranges: str, surgery: Callable[..., Path]
) -> None:
    """Cut in the middle of the first request: the prefill that follows is the second one's."""
    begin = (
        "(SELECT start FROM NVTX_EVENTS WHERE text = 'spec_verify' ORDER BY 1 LIMIT 1 OFFSET 12)"
    )
    cut = [f"CREATE TABLE cut AS SELECT {begin} AS t"]
    for table in ("RUNTIME", "KERNEL", "MEMCPY", "MEMSET"):
        cut.append(f"DELETE FROM CUPTI_ACTIVITY_KIND_{table} WHERE start < (SELECT t FROM cut)")
    cut.append("DELETE FROM CUDA_GRAPH_NODE_EVENTS")
    cut.append("DELETE FROM NVTX_EVENTS WHERE start < (SELECT t FROM cut)")
    path = surgery("k1", *cut, f"DELETE FROM NVTX_EVENTS {ranges}")
    with lanescope.attribute(path) as result:
        steps = result.document.steps
    assert steps is not None
    assert steps.warmup == 0
    assert steps.measured == steps.count == 148 - 12


@pytest.mark.parametrize("name", ["k1", "k2", "eager", "fieldlike"])
def test_warm_up_after_a_start_is_told_without_ranges(
    name: str, surgery: Callable[..., Path]
) -> None:
    path = surgery(name, "DELETE FROM NVTX_EVENTS")
    with lanescope.attribute(trace_path(name)) as whole, lanescope.attribute(path) as result:
        assert whole.document.steps is not None
        assert result.document.steps is not None
        assert result.document.steps.warmup == whole.document.steps.warmup
        assert result.document.steps.measured == whole.document.steps.measured
