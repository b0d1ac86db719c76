"""Two ranks planted by surgery: a process and its copy on another GPU, later by a known time.

Both have the same correlation ids and device ordinals; what must come out is a formula.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import lanescope
from lanescope.attribution.closeup import Drawing
from lanescope.schemas.documents.attribution import AttributionDocument
from tests.conftest import trace_path

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
NAME = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
SENT = "ncclDevKernel_Broadcast_RING_LL"  # of two ranks one may be done before the other begins
STANDS_IN = "splitKreduce_kernel"
ONE_PID = 1 << 24  # a process id within globalPid and globalTid
SLOWER = 12_345  # by which the later rank ends one step later still
COPIED = (
    KERNEL,
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "NVTX_EVENTS",
    "CUDA_GRAPH_NODE_EVENTS",
)


@pytest.fixture(scope="module")
def alone() -> tuple[AttributionDocument, list[tuple[int, int]]]:
    """The trace of one rank, and (start, end) of its measured steps."""
    with lanescope.attribute(trace_path("k1")) as result:
        steps = result.steps[result.steps.measured]
        return result.document, list(
            zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)
        )


def plant(path: Path, later: int, *statements: str, name: str = NAME) -> Path:
    """Add the second rank, `later` ns behind the first, to the export at `path`."""
    con = sqlite3.connect(path)
    pid = con.execute(f"SELECT max(globalPid) / {ONE_PID} % {ONE_PID} FROM {KERNEL}").fetchone()[0]
    for table in COPIED:
        columns = [r[1] for r in con.execute(f"PRAGMA table_info({table})")]
        change = {
            "start": f"start + {later}",
            "end": f'"end" + {later}',
            "globalPid": f"globalPid + {ONE_PID}",
            "globalTid": f"globalTid + {ONE_PID}",
            "endGlobalTid": f"endGlobalTid + {ONE_PID}",
        }
        picked = ", ".join(change.get(c, f'"{c}"') for c in columns)
        con.execute(f"INSERT INTO {table} SELECT {picked} FROM {table}")
    gpu = [r[1] for r in con.execute("PRAGMA table_info(TARGET_INFO_GPU)")]
    picked = ", ".join({"id": "id + 1", "uuid": "uuid || '-1'"}.get(c, f'"{c}"') for c in gpu)
    con.execute(f"INSERT INTO TARGET_INFO_GPU SELECT {picked} FROM TARGET_INFO_GPU")
    con.execute(f"INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, {pid + 1})")
    con.execute(f"UPDATE StringIds SET value = '{name}' WHERE value LIKE '%{STANDS_IN}%'")
    for statement in statements:
        con.execute(statement.format(second=f"globalPid / {ONE_PID} % {ONE_PID} = {pid + 1}"))
    con.commit()
    con.close()
    return path


def document(path: Path) -> AttributionDocument:
    with lanescope.attribute(path) as result:
        return result.document


@pytest.mark.parametrize(("later", "name"), [(500, NAME), (500, SENT), (50_000_000, SENT)])
def test_skew_and_waits_are_those_planted(
    later: int,
    name: str,
    surgery: Callable[..., Path],
    alone: tuple[AttributionDocument, list[tuple[int, int]]],
) -> None:
    doc, spans = alone
    end = spans[5][1]
    longer = f'UPDATE {KERNEL} SET "end" = "end" + {SLOWER} WHERE {{second}} AND "end" = '
    found = document(plant(surgery("k1"), later, longer + str(end + later), name=name))
    kernel = next(k for k in doc.kernels if k.name == STANDS_IN)
    ranks, count = found.ranks, round(kernel.launches_per_step * len(spans))
    assert ranks is not None
    assert found.coverage.kernels == 2 * doc.coverage.kernels
    assert found.coverage.kernel_sum_ns == 2 * doc.coverage.kernel_sum_ns + SLOWER
    assert [s.start_skew_ns for s in ranks.steps] == [later] * len(spans)
    ends = [later] * len(spans)
    ends[5] += SLOWER
    assert [s.end_skew_ns for s in ranks.steps] == ends
    first, second = ranks.ranks
    assert doc.steps is not None
    of_first, of_second = ({b.bucket: b.sum_ns for b in r.buckets} for r in (first, second))
    assert sum(of_first.values()) == doc.steps.gpu_sum_ns.total
    more = {b: ns - of_first[b] for b, ns in of_second.items()}
    assert [ns for ns in more.values() if ns] == [SLOWER]
    assert (first.device, second.device) == (0, 1)
    assert (first.slowest, second.slowest) == (0, 1)  # elsewhere both are equally slow
    # every stand-in lasts longer than 500 ns, and shorter than 50 ms
    wait = min(later * count, kernel.sum_ns)
    assert (first.wait_ns, first.transfer_ns) == (wait, kernel.sum_ns - wait)
    assert (second.wait_ns, second.transfer_ns) == (0, kernel.sum_ns)
    (collective,) = ranks.collectives
    early = count if later > 1_000_000 else 0
    assert (collective.name, collective.count, collective.ended_early) == (name, count, early)
    bucket = next(b for b in found.buckets if b.bucket == "communication")
    assert bucket.sum_ns == collective.wait_ns + collective.transfer_ns
    rows = 2 * len(spans)
    assert bucket.wait_ms_per_step == wait / rows / 1e6
    assert bucket.transfer_ms_per_step == collective.transfer_ns / rows / 1e6
    assert all(b.wait_ms_per_step is None for b in found.buckets if b is not bucket)
    assert first.wait_ms_per_step == wait / len(spans) / 1e6


def test_a_line_says_how_far_a_rank_is_behind(
    surgery: Callable[..., Path], alone: tuple[AttributionDocument, list[tuple[int, int]]]
) -> None:
    spans = alone[1]
    longer = f'UPDATE {KERNEL} SET "end" = "end" + {SLOWER} WHERE {{second}} AND "end" = '
    path = plant(surgery("k1"), 700, longer + str(spans[5][1] + 700))
    with lanescope.attribute(path) as result:
        first, second = Drawing(result.analysis).closeup(None).lags
    assert first.start_ns == first.end_ns == [0] * len(spans)
    assert second.start_ns == [700] * len(spans)
    assert second.end_ns == [700] * 5 + [700 + SLOWER] + [700] * (len(spans) - 6)


def test_no_rank_ends_an_all_reduce_before_the_last_one_begins_it(
    surgery: Callable[..., Path],
) -> None:
    doc = document(plant(surgery("k1"), 50_000_000))
    assert doc.ranks is not None
    assert doc.ranks.steps
    assert doc.ranks.collectives == []
    (why,) = [a.why for a in doc.abstained if a.what == "collective_wait"]
    assert "before the last rank begins it" in why


def test_a_collective_without_its_match_is_not_guessed_at(
    surgery: Callable[..., Path], alone: tuple[AttributionDocument, list[tuple[int, int]]]
) -> None:
    start, end = alone[1][3]
    gone = (
        f"DELETE FROM {KERNEL} WHERE rowid = (SELECT min(k.rowid) FROM {KERNEL} AS k JOIN StringIds"
        f" ON id = shortName WHERE value = '{NAME}' AND {{second}} AND start BETWEEN {start + 500}"
        f" AND {end + 500})"
    )
    doc = document(plant(surgery("k1"), 500, gone))
    assert doc.ranks is not None
    assert doc.ranks.collectives == []
    assert doc.ranks.ranks[0].wait_ns is None
    assert all(b.wait_ms_per_step is None for b in doc.buckets)
    assert any(a.what == "collective_wait" and "on 1 of 2 ranks" in a.why for a in doc.abstained)


def test_steps_that_do_not_match_have_no_skew(
    surgery: Callable[..., Path], alone: tuple[AttributionDocument, list[tuple[int, int]]]
) -> None:
    last = alone[1][-1][0]
    doc = document(
        plant(
            surgery("k1"), 500, f"DELETE FROM {KERNEL} WHERE {{second}} AND start >= {last + 500}"
        )
    )
    assert doc.ranks is not None
    assert [r.steps for r in doc.ranks.ranks] == [len(alone[1]), len(alone[1]) - 1]
    assert doc.ranks.steps == []
    assert doc.ranks.start_skew_ns is None
    assert {"rank_skew", "collective_wait"} <= {a.what for a in doc.abstained}


def test_one_rank_has_no_such_section(
    alone: tuple[AttributionDocument, list[tuple[int, int]]],
) -> None:
    assert alone[0].ranks is None


@pytest.mark.parametrize(("name", "gpus"), [("twoproc", [0, 0]), ("gpus_index", [0, 1])])
def test_two_processes_are_two_ranks(name: str, gpus: list[int]) -> None:
    with lanescope.attribute(trace_path(name)) as result:
        ranks, steps = result.document.ranks, result.steps[result.steps.measured]
        kernels = result.kernels.merge(steps[["process", "device", "step"]])
    assert ranks is not None
    assert [r.device for r in ranks.ranks] == gpus
    kernels["sum_ns"] = kernels.end_ns - kernels.start_ns
    for rank, walls in zip(ranks.ranks, steps.groupby(["process", "device"]).wall_ns, strict=True):
        assert walls[0] == (rank.process, rank.device)
        assert sum(b.exclusive_ns for b in rank.buckets) == walls[1].sum()
        assert rank.buckets[-1].bucket == "idle"
        mine = kernels[(kernels.process == rank.process) & (kernels.device == rank.device)]
        told = {b.bucket: b.sum_ns for b in rank.buckets[:-1]}
        assert told == mine.groupby("bucket").sum_ns.sum().to_dict()
    spread = steps.groupby("step").start_ns.agg(lambda s: int(s.max() - s.min())).tolist()
    assert [s.start_skew_ns for s in ranks.steps] == spread
    slowest = steps.loc[steps.groupby("step").wall_ns.idxmax()].process
    assert [r.slowest for r in ranks.ranks] == [(slowest == r.process).sum() for r in ranks.ranks]
