"""Real traces with one thing wrong: the rest stays exact, what is missing is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import lanescope
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.errors import NoDeviceActivity, UnusableInput
from tests.conftest import load_json, trace_path

Surgery = Callable[..., Path]
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"


def document(path: Path) -> AttributionDocument:
    with lanescope.attribute(path) as result:
        return result.document


def totals(doc: AttributionDocument) -> tuple[int, int]:
    return doc.coverage.kernels, doc.coverage.kernel_sum_ns


def codes(doc: AttributionDocument) -> set[str]:
    return {w.code for w in doc.warnings}


@pytest.fixture(scope="module")
def k1() -> AttributionDocument:
    return document(trace_path("k1"))


# -- tables that are missing or empty --------------------------------------------------------------

#: table -> the values that must be withheld without it
NEEDED_FOR = {
    "NVTX_EVENTS": {"ranges", "layers"},
    RUNTIME: {"launches", "host_wait"},
    "CUPTI_ACTIVITY_KIND_MEMCPY": {"memcpy"},
    "CUPTI_ACTIVITY_KIND_MEMSET": {"memset"},
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": set(),
    "TARGET_INFO_GPU": {"gpu"},
    "TARGET_INFO_CUDA_DEVICE": set(),
    "META_DATA_EXPORT": {"nsys_version"},
    "META_DATA_CAPTURE": set(),
    "CUDA_GRAPH_NODE_EVENTS": {"layers"},
    "PROCESSES": set(),
    "ENUM_CUDA_MEMCPY_OPER": set(),
    "ENUM_NSYS_EVENT_TYPE": set(),
}


@pytest.mark.parametrize("how", ["DROP TABLE", "DELETE FROM"])
@pytest.mark.parametrize("table", NEEDED_FOR)
def test_one_table_less(table: str, how: str, surgery: Surgery, k1: AttributionDocument) -> None:
    doc = document(surgery("k1", f"{how} {table}"))
    assert totals(doc) == totals(k1)
    assert [(b.bucket, b.sum_ns, b.exclusive_ns) for b in doc.buckets] == [
        (b.bucket, b.sum_ns, b.exclusive_ns) for b in k1.buckets
    ]
    whole = {a.what for a in k1.abstained}  # withheld whatever the trace has
    assert {a.what for a in doc.abstained} - whole == NEEDED_FOR[table]
    if NEEDED_FOR[table]:
        assert any(table in a.why for a in doc.abstained) or table == "META_DATA_EXPORT"


@pytest.mark.parametrize("how", ["DROP TABLE", "DELETE FROM"])
def test_without_names_time_is_kept_and_buckets_are_withheld(
    how: str, surgery: Surgery, k1: AttributionDocument
) -> None:
    doc = document(surgery("k1", f"{how} StringIds"))
    assert totals(doc) == totals(k1)
    assert "names-missing" in codes(doc)
    assert any(a.what == "buckets" and "StringIds" in a.why for a in doc.abstained)


def test_without_a_kernel_table_the_error_names_table_and_flag(surgery: Surgery) -> None:
    with pytest.raises(NoDeviceActivity, match=f"{KERNEL}.*--trace=cuda") as caught:
        document(surgery("k1", f"DROP TABLE {KERNEL}"))
    assert "0 kernels, 11,604 API calls" in str(caught.value)


def test_host_rows_alone_are_not_gpu_work(surgery: Surgery) -> None:
    drops = [f"DROP TABLE CUPTI_ACTIVITY_KIND_{t}" for t in ("KERNEL", "MEMCPY", "MEMSET")]
    with pytest.raises(NoDeviceActivity, match="no device activity captured"):
        document(surgery("k1", *drops))


@pytest.mark.parametrize("name", ["k1", "k2", "mixed", "noisy", "fieldlike", "apirange"])
def test_without_api_calls_graph_replays_still_tell_the_steps(name: str, surgery: Surgery) -> None:
    with (
        lanescope.attribute(trace_path(name)) as whole,
        lanescope.attribute(surgery(name, f"DROP TABLE {RUNTIME}")) as without,
    ):
        a, b = whole.kernels, without.kernels
        time = a.end_ns - a.start_ns
        right = (a.phase == b.phase) & (a.part == b.part)
        assert time[right].sum() / time.sum() >= 0.995
        assert whole.document.steps is not None
        assert without.document.steps is not None
        assert without.document.steps.count == whole.document.steps.count


def test_without_api_calls_and_graphs_nothing_is_claimed(surgery: Surgery) -> None:
    doc = document(surgery("eager", f"DROP TABLE {RUNTIME}"))
    assert doc.steps is None
    assert {"steps", "buckets", "prefill"} <= {a.what for a in doc.abstained}
    assert {p.phase for p in doc.phases if p.kernels} == {"outside"}


# -- columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["correlationId", "deviceId", "start", "end"])
def test_an_indispensable_column_is_named(column: str, surgery: Surgery) -> None:
    with pytest.raises(UnusableInput, match=f"{KERNEL} has no column {column}"):
        document(surgery("k1", f'ALTER TABLE {KERNEL} RENAME COLUMN "{column}" TO other'))


@pytest.mark.parametrize(
    "column", ["demangledName", "mangledName", "graphNodeId", "globalPid", "gridX", "streamId"]
)
def test_a_column_that_older_exports_lack(
    column: str, surgery: Surgery, k1: AttributionDocument
) -> None:
    doc = document(surgery("k1", f"ALTER TABLE {KERNEL} DROP COLUMN {column}"))
    assert totals(doc) == totals(k1)
    assert [(b.bucket, b.sum_ns) for b in doc.buckets] == [(b.bucket, b.sum_ns) for b in k1.buckets]
    assert ("short-names" in codes(doc)) == (column == "demangledName")


def test_a_newer_schema_is_read_with_a_warning_that_names_both(
    surgery: Surgery, k1: AttributionDocument
) -> None:
    doc = document(
        surgery(
            "k1",
            "UPDATE META_DATA_EXPORT SET value = '9.1.0' WHERE name = 'EXPORT_SCHEMA_VERSION'",
        )
    )
    assert totals(doc) == totals(k1)
    warning = next(w for w in doc.warnings if w.code == "newer-schema")
    assert "9.1.0" in warning.message
    assert "3.25" in warning.message


# -- odd cells -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "column", "value", "lost"),
    [
        (KERNEL, "start", "'abc'", 1),
        (KERNEL, "end", '"end" + 0.5', 1),
        (KERNEL, "gridX", "'12x'", 0),
        (KERNEL, "correlationId", "x'00'", 0),
        (RUNTIME, "nameId", "'q'", 0),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "bytes", "'many'", 0),
    ],
)
def test_one_bad_cell_is_counted_and_costs_its_row_at_most(
    table: str, column: str, value: str, lost: int, surgery: Surgery, k1: AttributionDocument
) -> None:
    doc = document(surgery("k1", f'UPDATE {table} SET "{column}" = {value} WHERE rowid = 200'))
    warning = next(w for w in doc.warnings if w.code == "bad-cells")
    assert warning.message.startswith(f"1 cells of {table}.{column}")
    assert doc.coverage.kernels == k1.coverage.kernels - lost


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("start = 0, end = 0", "no_time"),
        ("end = start - 5", "end_before_start"),
        ("start = start - 9000000000, end = end - 9000000000", "before_launch"),
        ("end = 9223372036854775807", "impossible_duration"),
    ],
)
def test_broken_kernels_are_in_no_time_and_counted(
    change: str, reason: str, surgery: Surgery, k1: AttributionDocument
) -> None:
    path = surgery("k1", f"UPDATE {KERNEL} SET {change} WHERE rowid BETWEEN 30000 AND 30009")
    doc = document(path)
    assert doc.coverage.kernels == k1.coverage.kernels - 10
    assert doc.coverage.excluded == {reason: 10}
    assert "broken-kernels" in codes(doc)


def test_clocks_that_disagree_lose_no_kernel(surgery: Surgery, k1: AttributionDocument) -> None:
    doc = document(
        surgery(
            "k1",
            f"UPDATE {RUNTIME} SET start = start + 60000000000, end = end + 60000000000",
            "UPDATE NVTX_EVENTS SET start = start + 60000000000, end = end + 60000000000",
        )
    )
    assert totals(doc) == totals(k1)
    assert "clock-skew" in codes(doc)


def test_names_with_bytes_that_are_no_text(surgery: Surgery, k1: AttributionDocument) -> None:
    doc = document(
        surgery(
            "k1",
            "UPDATE NVTX_EVENTS SET text = CAST(x'ff00fe' AS TEXT) WHERE text = 'layer_3'",
            "UPDATE StringIds SET value = CAST(x'c328' AS TEXT) WHERE value = 'reduce_kernel'",
        )
    )
    assert totals(doc) == totals(k1)


def test_a_second_without_device_rows_is_reported(surgery: Surgery) -> None:
    con = sqlite3.connect(trace_copy := surgery("k1"))
    middle = con.execute("SELECT min(start) FROM NVTX_EVENTS WHERE text = 'request_0'").fetchone()[
        0
    ]
    shift = 10_000_000_000  # launches of a far second, with nothing to show for them
    con.execute(
        f"INSERT INTO {RUNTIME} SELECT start + {shift}, end + {shift}, eventClass, globalTid,"
        f" correlationId + 100000000, nameId, returnValue, callchainId FROM {RUNTIME}"
        f" WHERE start BETWEEN {middle} AND {middle + 500_000_000}"
    )
    con.commit()
    con.close()
    assert "dropped-records" in codes(document(trace_copy))


# -- ids and joins -------------------------------------------------------------------------------


def test_rows_in_any_order_give_the_same(surgery: Surgery, k1: AttributionDocument) -> None:
    doc = document(
        surgery(
            "k1",
            f"CREATE TABLE shuffled AS SELECT * FROM {KERNEL} ORDER BY random()",
            f"DROP TABLE {KERNEL}",
            f"ALTER TABLE shuffled RENAME TO {KERNEL}",
        )
    )
    assert [p.model_dump() for p in doc.phases] == [p.model_dump() for p in k1.phases]
    assert doc.buckets == k1.buckets


def test_two_api_rows_for_one_launch_double_nothing(
    surgery: Surgery, k1: AttributionDocument
) -> None:
    doc = document(
        surgery(
            "k1",
            f"INSERT INTO {RUNTIME} SELECT start + 1, end - 1, eventClass, globalTid,"
            f" correlationId, nameId, returnValue, callchainId FROM {RUNTIME}",
        )
    )
    assert [p.model_dump() for p in doc.phases] == [p.model_dump() for p in k1.phases]


def test_ids_that_mean_nothing_never_join(surgery: Surgery, k1: AttributionDocument) -> None:
    odd = "CASE rowid % 3 WHEN 0 THEN 0 WHEN 1 THEN -1 ELSE NULL END"
    doc = document(
        surgery(
            "k1",
            f"UPDATE {KERNEL} SET correlationId = {odd} WHERE rowid <= 999",
            f"UPDATE {RUNTIME} SET correlationId = 0 WHERE rowid % 50 = 0 AND correlationId IN"
            f" (SELECT correlationId FROM {RUNTIME} WHERE rowid < 40)",
        )
    )
    assert totals(doc) == totals(k1)
    assert doc.coverage.unattributed == 999
    assert "unattributed" in codes(doc)


def test_packed_ids_with_the_top_bit_set(surgery: Surgery, k1: AttributionDocument) -> None:
    top = 1 << 63
    doc = document(
        surgery(
            "k1",
            f"UPDATE NVTX_EVENTS SET globalTid = globalTid | ({top - (1 << 64)})",
            f"UPDATE {RUNTIME} SET globalTid = globalTid | ({top - (1 << 64)})",
            f"UPDATE {KERNEL} SET globalPid = globalPid | ({top - (1 << 64)})",
        )
    )
    assert [p.model_dump(exclude={"process"}) for p in doc.phases] == [
        p.model_dump(exclude={"process"}) for p in k1.phases
    ]


@pytest.mark.parametrize("name", ["twoproc", "gpus_index"])
def test_processes_that_share_all_ids_stay_apart(name: str, surgery: Surgery) -> None:
    """Same correlation ids and device ordinals in both processes."""
    whole = document(trace_path(name))
    pids = "(SELECT DISTINCT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY 1)"
    ranked = (
        "UPDATE {t} SET correlationId = (SELECT n FROM ranks WHERE ranks.pid = ({p}) AND "
        "ranks.old = correlationId)"
    )
    statements = [
        "CREATE TABLE ranks AS SELECT globalTid / 16777216 * 16777216 AS pid, correlationId AS"
        " old, dense_rank() OVER (PARTITION BY globalTid / 16777216 ORDER BY correlationId) AS n"
        f" FROM {RUNTIME} WHERE globalTid / 16777216 * 16777216 IN {pids}",
        "CREATE INDEX by_old ON ranks (pid, old)",
        ranked.format(t=RUNTIME, p="globalTid / 16777216 * 16777216"),
    ]
    for kind in ("KERNEL", "MEMCPY", "MEMSET"):
        statements.append(ranked.format(t=f"CUPTI_ACTIVITY_KIND_{kind}", p="globalPid"))
    doc = document(surgery(name, *statements))
    assert [p.model_dump() for p in doc.phases] == [p.model_dump() for p in whole.phases]
    assert doc.steps == whole.steps
    assert doc.ranks == whole.ranks


def test_launches_on_another_thread_than_their_range_belong_to_none(
    surgery: Surgery, k1: AttributionDocument
) -> None:
    doc = document(surgery("k1", "UPDATE NVTX_EVENTS SET globalTid = globalTid + 1"))
    assert totals(doc) == totals(k1)
    assert all(p.evidence != "nvtx" for p in doc.phases if p.kernels)
    assert all(r.kernels == 0 for r in doc.ranges)


# -- ranges ----------------------------------------------------------------------------------------


def test_names_in_the_string_table_or_in_the_row_are_the_same(
    surgery: Surgery, k1: AttributionDocument
) -> None:
    doc = document(
        surgery(
            "k1",
            "CREATE TABLE texts AS SELECT DISTINCT text FROM NVTX_EVENTS WHERE text IS NOT NULL",
            "INSERT INTO StringIds (id, value) SELECT 10000000 + rowid, text FROM texts",
            "UPDATE NVTX_EVENTS SET textId = (SELECT 10000000 + rowid FROM texts WHERE "
            "texts.text = NVTX_EVENTS.text), text = NULL WHERE text IS NOT NULL",
        )
    )
    assert [p.model_dump() for p in doc.phases] == [p.model_dump() for p in k1.phases]
    assert doc.ranges == k1.ranges


def test_start_end_ranges_count_on_one_thread_and_are_reported_across(
    surgery: Surgery, k1: AttributionDocument
) -> None:
    same = document(
        surgery("k1", "UPDATE NVTX_EVENTS SET eventType = 60, endGlobalTid = globalTid")
    )
    assert [p.model_dump() for p in same.phases] == [p.model_dump() for p in k1.phases]
    across = document(
        surgery("k1", "UPDATE NVTX_EVENTS SET eventType = 60, endGlobalTid = globalTid + 1")
    )
    warning = next(w for w in across.warnings if w.code == "ranges-cross-threads")
    assert warning.message.startswith("376 ")
    assert totals(across) == totals(k1)


def test_open_ranges_and_marks_are_not_used(surgery: Surgery, k1: AttributionDocument) -> None:
    columns = "start, end, eventType, text, globalTid"
    doc = document(
        surgery(
            "k1",
            f"INSERT INTO NVTX_EVENTS ({columns}) SELECT start, NULL, 59, 'prefill', globalTid"
            " FROM NVTX_EVENTS WHERE text = 'spec_verify' LIMIT 3",
            *(
                f"INSERT INTO NVTX_EVENTS ({columns}) SELECT start, NULL, {kind}, 'prefill',"
                " globalTid FROM NVTX_EVENTS LIMIT 1"
                for kind in (34, 39, 75, 76)
            ),
        )
    )
    assert [p.model_dump() for p in doc.phases] == [p.model_dump() for p in k1.phases]
    warning = next(w for w in doc.warnings if w.code == "ranges-open")
    assert warning.message.startswith("3 ")


def test_work_launched_inside_and_run_after_belongs_to_its_range(
    surgery: Surgery, k1: AttributionDocument
) -> None:
    """Every verify range ends right after its last launch, long before its kernels do."""
    path = surgery(
        "k1",
        "CREATE TABLE last AS SELECT n.rowid AS r, max(a.end) AS e FROM NVTX_EVENTS AS n"
        f" JOIN {RUNTIME} AS a ON a.globalTid = n.globalTid AND a.start >= n.start"
        f" AND a.end <= n.end JOIN (SELECT DISTINCT correlationId AS c FROM {KERNEL}) ON c ="
        " a.correlationId WHERE n.text = 'spec_verify' GROUP BY n.rowid",
        "UPDATE NVTX_EVENTS SET end = (SELECT e FROM last WHERE r = NVTX_EVENTS.rowid)"
        " WHERE text = 'spec_verify'",
    )
    doc = document(path)
    assert [p.model_dump() for p in doc.phases] == [p.model_dump() for p in k1.phases]


# -- graphs ----------------------------------------------------------------------------------------


def test_both_levels_of_a_graph_count_once(surgery: Surgery, k1: AttributionDocument) -> None:
    blocks = (
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE AS SELECT min(start) AS start, max(end) AS"
        " end, deviceId, contextId, streamId, correlationId, globalPid, 1 AS graphId,"
        f" min(graphNodeId) AS graphExecId FROM {KERNEL} WHERE graphNodeId > 0"
        " GROUP BY correlationId"
    )
    doc = document(surgery("k1", blocks))
    assert doc.coverage.graph_blocks == 0
    assert [p.model_dump() for p in doc.phases] == [p.model_dump() for p in k1.phases]
    assert doc.buckets == k1.buckets


@pytest.mark.parametrize(
    "spelling", ["cuGraphLaunch", "cudaGraphLaunch_v10000_ptsz", "cuGraphLaunch_ptsz"]
)
def test_api_names_in_any_spelling(
    spelling: str, surgery: Surgery, k1: AttributionDocument
) -> None:
    doc = document(
        surgery(
            "k1",
            f"UPDATE StringIds SET value = '{spelling}' WHERE value LIKE 'cudaGraphLaunch%'",
        )
    )
    assert doc.launches is not None
    assert k1.launches is not None
    assert doc.launches.graph_launches_per_step == k1.launches.graph_launches_per_step == 3.0
    assert doc.launches.kernels_per_graph_launch == k1.launches.kernels_per_graph_launch


def test_one_graph_launch_holds_all_its_kernels(k1: AttributionDocument) -> None:
    truth = load_json("k1", "truth")["args"]
    assert k1.launches is not None
    # two verify graphs of 20 kernels a layer and one more, and a draft whose kernels are no step's
    per_step = 20 * truth["layers"] + 1
    assert k1.launches.kernels_per_graph_launch == pytest.approx(per_step / 3)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["shortName", "demangledName", "mangledName"])
def test_buckets_are_the_same_from_any_form_of_the_names(
    form: str, surgery: Surgery, k1: AttributionDocument
) -> None:
    others = {"shortName", "demangledName", "mangledName"} - {form}
    doc = document(
        surgery("k1", *(f"ALTER TABLE {KERNEL} DROP COLUMN {c}" for c in sorted(others)))
    )
    assert [(b.bucket, b.sum_ns) for b in doc.buckets] == [(b.bucket, b.sum_ns) for b in k1.buckets]


#: A column that may hold NULL in place of one that may not.
_LOOSE = (
    "ALTER TABLE {k} RENAME COLUMN {c} TO was_{c}",
    "ALTER TABLE {k} ADD COLUMN {c} INTEGER",
    "UPDATE {k} SET {c} = CASE WHEN {kept} THEN was_{c} END",
)


@pytest.mark.parametrize(
    ("gaps", "lost", "kept"),
    [
        pytest.param(True, (), "", id="gaps in the row ids"),
        pytest.param(False, ("demangledName",), "rowid % 5 <> 1", id="a form missing"),
        pytest.param(False, ("shortName", "mangledName"), "false", id="one form left"),
    ],
)
def test_names_are_right_whatever_rows_are_left(
    gaps: bool, lost: tuple[str, ...], kept: str, surgery: Surgery
) -> None:
    """The forms of a name are read once a name, from the row that is met first."""
    cut = [f"DELETE FROM {KERNEL} WHERE rowid % 7 = 3"] if gaps else []
    cut += [sql.format(k=KERNEL, c=column, kept=kept) for column in lost for sql in _LOOSE]
    path = surgery("k1", *cut)
    with sqlite3.connect(path) as con:
        told = con.execute(
            f"SELECT s.value, count(*) FROM {KERNEL} AS k"
            " JOIN StringIds AS s ON s.id = coalesce(k.demangledName, k.shortName) GROUP BY 1"
        ).fetchall()
    with lanescope.attribute(path) as result:
        rows = result.analysis.rows(
            "SELECT n.demangled, n.short, count(*) AS n FROM kernels JOIN names AS n USING (name)"
            " GROUP BY ALL"
        )
    found: dict[str, int] = {}
    for row in rows:
        name = row["demangled"] or row["short"]
        found[name] = found.get(name, 0) + row["n"]
    assert found == dict(told)


# -- arithmetic --------------------------------------------------------------------------------


def test_busy_counts_overlap_once_and_a_sum_counts_it_twice(surgery: Surgery) -> None:
    """Every kernel of the measured steps runs twice at the same time, on two streams."""
    columns = [r[1] for r in sqlite3.connect(surgery("k1")).execute(f"PRAGMA table_info({KERNEL})")]
    chosen = ", ".join("999" if c == "streamId" else f'"{c}"' for c in columns)
    doc = document(surgery("k1", f"INSERT INTO {KERNEL} SELECT {chosen} FROM {KERNEL}"))
    whole = document(trace_path("k1"))
    assert doc.coverage.kernel_sum_ns == 2 * whole.coverage.kernel_sum_ns
    assert doc.coverage.kernel_busy_ns == whole.coverage.kernel_busy_ns
    assert doc.steps is not None
    assert whole.steps is not None
    assert doc.steps.gpu_busy_ns == whole.steps.gpu_busy_ns
    assert sum(b.exclusive_ns for b in doc.buckets) == doc.steps.gpu_busy_ns.total


# -- the last step -----------------------------------------------------------------------------


def test_what_a_process_waits_for_after_its_last_step_is_not_the_steps(surgery: Surgery) -> None:
    """A synchronise of a minute, a minute after the last call: the engine's shutdown."""
    minute = 60_000_000_000
    path = surgery(
        "k1",
        "CREATE TABLE final AS SELECT max(end) AS t FROM " + RUNTIME,
        f"INSERT INTO {RUNTIME} SELECT t + {minute}, t + {2 * minute}, eventClass, globalTid,"
        f" 99999999, nameId, returnValue, callchainId FROM {RUNTIME}, final WHERE nameId IN"
        " (SELECT id FROM StringIds WHERE value LIKE '%StreamSynchronize%') LIMIT 1",
    )
    with lanescope.attribute(trace_path("k1")) as whole, lanescope.attribute(path) as result:
        before, after = whole.analysis.steps, result.analysis.steps
        assert (after.wait_ns == before.wait_ns).all()
        assert (after.stop_ns == before.stop_ns).all()
        middle = after.wait_ns[10:-1]
        assert middle.min() <= after.wait_ns[-1] <= middle.max()  # its own waits are kept
