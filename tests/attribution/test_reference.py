"""The attribution of real traces against their slow, independent references: exact integers."""

from __future__ import annotations

import pytest

import lanescope
from tests.conftest import ALL_TRACES, REFERENCED, load_json, trace_path

PHASE = {
    "spec_verify": ("decode", "verify"),
    "draft": ("decode", "draft"),
    "prefill": ("prefill", ""),
    "outside": ("outside", ""),
}


@pytest.mark.parametrize("name", REFERENCED)
def test_phases_equal_the_reference(name: str) -> None:
    reference = load_json(name, "reference")
    with lanescope.attribute(trace_path(name)) as result:
        document = result.document
        assert document.coverage.kernels == reference["kernels"]
        found = {
            (p.phase, p.part): (p.kernels, p.sum_ns, p.busy_ns)
            for p in document.phases
            if p.kernels
        }
        wanted = {
            PHASE[word]: (r["kernels"], r["sum_ns"], r["union_ns"])
            for word, r in reference["phases"].items()
        }
        assert found == wanted
        instances = {(p.phase, p.part): p.instances for p in document.phases}
        for word, r in reference["phases"].items():
            if word != "outside":
                assert instances[PHASE[word]] == r["ranges"]


@pytest.mark.parametrize("name", REFERENCED)
def test_names_equal_the_reference(name: str) -> None:
    reference = load_json(name, "reference")
    with lanescope.attribute(trace_path(name)) as result:
        rows = result.analysis.rows(
            "SELECT phase, part, name, count(*) AS n, sum(end_ns - start_ns)::BIGINT AS ns"
            " FROM kernels_out GROUP BY ALL"
        )
    found = {(r["phase"], r["part"], r["name"]): [r["n"], r["ns"]] for r in rows}
    wanted = {
        (*PHASE[word], kernel): figures
        for word, r in reference["phases"].items()
        for kernel, figures in r["by_kernel"].items()
    }
    assert found == wanted


@pytest.mark.parametrize("name", REFERENCED)
def test_steps_equal_the_reference(name: str) -> None:
    reference = load_json(name, "reference")
    with lanescope.attribute(trace_path(name)) as result:
        steps = result.steps
    measured = steps[steps.measured]
    found = list(zip(measured.kernels, measured.gpu_sum_ns, measured.gpu_busy_ns, strict=True))
    assert found == [(s["kernels"], s["sum_ns"], s["union_ns"]) for s in reference["steps"]]


@pytest.mark.parametrize("name", REFERENCED)
def test_row_copies_of_the_measured_steps_equal_the_reference(name: str) -> None:
    reference = load_json(name, "reference")
    with lanescope.attribute(trace_path(name)) as result:
        bucket = next(b for b in result.document.buckets if b.bucket == "row_copy")
    assert bucket.sum_ns == sum(reference["copy_ns_by_tensor"].values())


@pytest.mark.parametrize("name", ALL_TRACES)
def test_conservation(name: str) -> None:
    with lanescope.attribute(trace_path(name)) as result:
        con = result.analysis.con
        document = result.document
        kernels, total = con.execute(
            "SELECT count(*), sum(end_ns - start_ns)::BIGINT FROM kernels"
        ).fetchall()[0]
        assert document.coverage.kernels == kernels
        assert document.coverage.kernel_sum_ns == total
        blocks = sum(p.graph_blocks for p in document.phases)
        assert sum(p.kernels for p in document.phases) == kernels
        if not blocks:
            assert sum(p.sum_ns for p in document.phases) == total
        steps = result.steps
        exclusive = result.step_buckets.groupby(["segment", "device"]).exclusive_ns.sum()
        by_step = steps.set_index(["segment", "device"]).sort_index()
        assert (exclusive.sort_index() + by_step.idle_ns == by_step.wall_ns).all()


@pytest.mark.parametrize("name", ["twoproc", "gpus_index"])
def test_two_processes_keep_their_own_steps_and_devices(name: str) -> None:
    truths = [
        load_json(name, kind.removesuffix(".json"))
        for kind in (("p1.truth", "p2.truth") if name == "twoproc" else ("p0.truth", "p1.truth"))
    ]
    with lanescope.attribute(trace_path(name)) as result:
        steps = result.steps
        processes = result.document.trace.processes
    per_process = steps[steps.measured].groupby("process").step.count()
    assert sorted(per_process) == sorted(t["steps"] for t in truths)
    devices = sorted(d for p in processes for d in p.devices)
    assert devices == ([0, 0] if name == "twoproc" else [0, 1])


def test_every_replayed_layer_kernel_of_k1_carries_its_layer() -> None:
    layers = load_json("k1", "truth")["args"]["layers"]
    with lanescope.attribute(trace_path("k1")) as result:
        rows = result.analysis.rows(
            """
            SELECT step, layer, count(*) AS n, count(*) FILTER (name = 'masked_row_copy') AS copies
            FROM kernels_out WHERE graph_node IS NOT NULL AND part = 'verify' AND step IS NOT NULL
            GROUP BY ALL
            """
        )
    per_layer = {(r["step"], r["layer"]): r for r in rows}
    steps = {r["step"] for r in rows}
    for step in steps:
        # advance_step is no layer's kernel; all others are
        assert per_layer[step, None]["n"] == 1
        for layer in range(layers):
            assert per_layer[step, layer]["copies"] == 4
            assert per_layer[step, layer]["n"] == 20
