"""What exports by other people teach: old and new schemas, other systems, other programs.

Made from the bundled traces by surgery, so that every figure has its reference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lanescope
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.errors import NoDeviceActivity, UnusableInput
from tests.conftest import trace_path

Surgery = Callable[..., Path]
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"


def document(path: Path) -> AttributionDocument:
    with lanescope.attribute(path) as result:
        return result.document


@pytest.fixture(scope="module")
def eager() -> AttributionDocument:
    return document(trace_path("eager"))


def same_kernels(a: AttributionDocument, b: AttributionDocument) -> bool:
    return [p.model_dump() for p in a.phases] == [p.model_dump() for p in b.phases]


def test_an_export_from_before_there_was_metadata(
    surgery: Surgery, eager: AttributionDocument
) -> None:
    """2020 and 2021: no metadata, enumerations, processes or device map; defaults for NULL."""
    path = surgery(
        "eager",
        *(
            f"DROP TABLE IF EXISTS {t}"
            for t in (
                "META_DATA_EXPORT", "META_DATA_CAPTURE", "ENUM_CUDA_MEMCPY_OPER",
                "ENUM_CUDA_MEM_KIND", "ENUM_NSYS_EVENT_TYPE", "ENUM_CUPTI_SYNC_TYPE", "PROCESSES",
                "TARGET_INFO_CUDA_DEVICE", "CUDA_GRAPH_NODE_EVENTS",
            )
        ),
        f"ALTER TABLE {KERNEL} DROP COLUMN mangledName",
        f"ALTER TABLE {KERNEL} DROP COLUMN greenContextId",
        f"UPDATE {KERNEL} SET graphNodeId = 0",
        "UPDATE NVTX_EVENTS SET textId = 0, domainId = 0, endGlobalTid = 0",
        "ALTER TABLE NVTX_EVENTS DROP COLUMN jsonTextId",
    )  # fmt: skip
    doc = document(path)
    assert same_kernels(doc, eager)
    assert doc.steps == eager.steps
    assert doc.trace.nsys_version == ""
    assert "nsys_version" in {a.what for a in doc.abstained}


def test_metadata_under_its_old_name(surgery: Surgery, eager: AttributionDocument) -> None:
    doc = document(surgery("eager", "ALTER TABLE META_DATA_EXPORT RENAME TO EXPORT_META_DATA"))
    assert doc.trace.nsys_version == eager.trace.nsys_version != ""
    assert doc.trace.schema_version == eager.trace.schema_version


def test_names_that_differ_by_case_alone_are_two_names(surgery: Surgery) -> None:
    doc = document(
        surgery("eager", "UPDATE NVTX_EVENTS SET text = 'Layer_3' WHERE text = 'layer_2'")
    )
    found = {r.name: r.instances for r in doc.ranges}
    assert found["Layer_3"] == found["layer_3"]
    assert "layer_2" not in found


def test_the_same_range_name_in_two_domains_is_two_rows(surgery: Surgery) -> None:
    doc = document(
        surgery(
            "eager",
            "UPDATE NVTX_EVENTS SET domainId = 7 WHERE text = 'draft' AND rowid % 4 = 0",
        )
    )
    rows = [r for r in doc.ranges if r.name == "draft"]
    assert {r.domain for r in rows} == {0, 7}
    assert sum(r.instances for r in rows) == 48


def test_one_process_on_devices_0_and_3_of_eight(
    surgery: Surgery, eager: AttributionDocument
) -> None:
    doc = document(
        surgery(
            "eager",
            "DROP TABLE TARGET_INFO_CUDA_DEVICE",
            f"UPDATE {KERNEL} SET deviceId = 3, streamId = 7 WHERE rowid % 2 = 0",
        )
    )
    assert doc.trace.processes[0].devices == [0, 3]
    assert doc.coverage.kernels == eager.coverage.kernels
    assert doc.coverage.kernel_sum_ns == eager.coverage.kernel_sum_ns
    per_device: dict[int | None, int] = {}
    for p in doc.phases:
        per_device[p.device] = per_device.get(p.device, 0) + p.sum_ns
    assert sum(per_device.values()) == doc.coverage.kernel_sum_ns
    # on each device its own union: never more than the sum there
    for p in doc.phases:
        assert p.busy_ns <= p.sum_ns


def test_adapters_that_are_no_nvidia_gpus(surgery: Surgery, eager: AttributionDocument) -> None:
    """Windows lists other makers' adapters, all with CUDA device 0, and no processes table."""
    adapter = "INSERT INTO TARGET_INFO_GPU (vmId, id, name, cuDevice) VALUES (1, {i}, '{name}', 0)"
    doc = document(
        surgery(
            "eager",
            adapter.format(i=1, name="Intel(R) Iris(R) Xe Graphics"),
            adapter.format(i=2, name="Microsoft Basic Render Driver"),
            "DROP TABLE PROCESSES",
        )
    )
    assert [g.name for g in doc.trace.gpus] == ["NVIDIA H200"]
    assert same_kernels(doc, eager)


def test_columns_that_newer_exports_add(surgery: Surgery, eager: AttributionDocument) -> None:
    doc = document(
        surgery(
            "eager",
            *(
                f"ALTER TABLE {KERNEL} ADD COLUMN {c} INTEGER"
                for c in ("graphId", "clusterX", "qmdBulkReleaseDone", "schedulingPolicy")
            ),
        )
    )
    assert same_kernels(doc, eager)


@pytest.mark.parametrize("how", ["DELETE FROM", "DROP TABLE"])
def test_a_capture_with_copies_and_no_kernels_tells_of_no_step(how: str, surgery: Surgery) -> None:
    with pytest.raises(NoDeviceActivity, match=r"0 kernels.*1,354 memory operations") as caught:
        document(surgery("eager", f"{how} {KERNEL}"))
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


def test_graphs_traced_as_blocks_need_no_kernels(surgery: Surgery) -> None:
    assert document(surgery("graphlevel", f"DELETE FROM {KERNEL}")).coverage.graph_blocks > 0


def test_half_of_the_kernels_have_no_launch_row(
    surgery: Surgery, eager: AttributionDocument
) -> None:
    doc = document(
        surgery(
            "eager",
            f"DELETE FROM {RUNTIME} WHERE start < (SELECT start FROM NVTX_EVENTS WHERE text ="
            " 'request_1')",
        )
    )
    assert doc.coverage.kernels == eager.coverage.kernels
    assert doc.coverage.kernel_sum_ns == eager.coverage.kernel_sum_ns
    assert 0 < doc.coverage.unattributed < doc.coverage.kernels
    warning = next(w for w in doc.warnings if w.code == "unattributed")
    assert f"{doc.coverage.unattributed:,} of {doc.coverage.kernels:,}" in warning.message


def test_a_derived_table_with_few_columns(surgery: Surgery, eager: AttributionDocument) -> None:
    kept = (
        "start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName,"
        " gridX, gridY, gridZ, blockX, blockY"
    )
    doc = document(
        surgery(
            "eager",
            f"CREATE TABLE few AS SELECT {kept} FROM {KERNEL}",
            f"DROP TABLE {KERNEL}",
            f"ALTER TABLE few RENAME TO {KERNEL}",
        )
    )
    assert same_kernels(doc, eager)


def test_managed_memory_copies_that_all_carry_id_0(
    surgery: Surgery, eager: AttributionDocument
) -> None:
    doc = document(surgery("eager", "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET correlationId = 0"))
    assert same_kernels(doc, eager)
    assert doc.coverage.memcpy == 152


def test_a_report_from_a_program_that_is_no_engine(surgery: Surgery) -> None:
    """No range, no recurring work: totals stand, steps are withheld, nothing is guessed."""
    doc = document(
        surgery(
            "eager",
            "DELETE FROM NVTX_EVENTS",
            f"DELETE FROM {KERNEL} WHERE rowid > 700",
        )
    )
    assert doc.coverage.kernels == 700
    assert doc.steps is None
    assert {p.phase for p in doc.phases if p.kernels} == {"outside"}


def test_a_report_is_not_a_sqlite_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "window.nsys-rep"
    report.write_bytes(b"\x00NSYS" * 100)
    monkeypatch.setenv("LANESCOPE_NSYS", "/nowhere/nsys")
    with pytest.raises(UnusableInput, match="no nsys found at /nowhere/nsys"):
        document(report)
    old = tmp_path / "nsys"
    old.write_text("#!/bin/sh\necho 'report was made by a newer version' >&2\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setenv("LANESCOPE_NSYS", str(old))
    with pytest.raises(UnusableInput, match="older than the nsys that recorded it"):
        document(report)
    assert {p.name for p in tmp_path.iterdir()} == {"window.nsys-rep", "nsys"}


def test_a_report_is_exported_and_bound_to_its_own_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unpacked: Callable[[str], Path],
    eager: AttributionDocument,
) -> None:  # fmt: skip
    report = tmp_path / "window.nsys-rep"
    report.write_bytes(b"\x00NSYS" * 100)
    nsys = tmp_path / "nsys"  # stands in for the exporter, which needs a real report
    nsys.write_text(f"#!/bin/sh\ncp '{unpacked('eager')}' \"$5\"\n")
    nsys.chmod(0o755)
    monkeypatch.setenv("LANESCOPE_NSYS", str(nsys))
    assert same_kernels(document(report), eager)
    monkeypatch.setenv("LANESCOPE_NSYS", "/nowhere/nsys")  # the second time needs no nsys
    assert same_kernels(document(report), eager)
