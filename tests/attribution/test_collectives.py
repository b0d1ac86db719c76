"""Collectives planted with their identity: matched right, or withheld, never wrong."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.attribution import collectives, engine

REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
GATHER = "ncclDevKernel_AllGather_RING_LL"
SEND = "ncclDevKernel_SendRecv"


@dataclass(frozen=True)
class Call:
    """One kernel of a collective on a rank; `identity` is what a matching must not mix up."""

    rank: int
    step: int
    stream: int
    function: str
    start_ns: int
    end_ns: int
    identity: tuple[int, int, int]


def matched(calls: list[Call], ranks: int) -> tuple[list[set[tuple[int, int, int]]], str]:
    """The identities in every matched collective; or why nothing is."""
    con = duckdb.connect()
    columns = list(zip(*[(*astuple(c)[:6], i) for i, c in enumerate(calls)], strict=True))
    names = ["rank", "step", "stream", "function", "start_ns", "end_ns", "kernel"]
    con.register("rank_calls", pa.table([pa.array(c) for c in columns], names))
    why = collectives.match(con, [f"rank {r}" for r in range(ranks)])
    if why:
        return [], why
    groups: dict[tuple[int, int, int], set[tuple[int, int, int]]] = {}
    rows = engine.rows(con, "SELECT * FROM rank_collectives")
    assert len(rows) == len(calls)
    for row in rows:
        call = calls[row["kernel"]]
        groups.setdefault((row["step"], row["lane"], row["number"]), set()).add(call.identity)
        last = max(c.start_ns for c in calls if c.identity == call.identity)
        assert row["wait_ns"] == min(call.end_ns, last) - call.start_ns
        assert row["wait_ns"] + row["transfer_ns"] == call.end_ns - call.start_ns
    return list(groups.values()), ""


@st.composite
def runs(draw: st.DrawFn, same_streams: bool = False) -> tuple[list[Call], int]:
    """A run that can happen: every communicator on one stream of each rank, its collectives in one
    order everywhere, communicators in any order against each other, no all-reduce that ends before
    its last rank begins."""
    ranks, comms = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    names = draw(st.sampled_from([[REDUCE], [REDUCE, GATHER], [REDUCE, SEND]]))
    numbers = [7, 13, 20]
    streams = [
        numbers
        if same_streams
        else [n + draw(st.sampled_from([0, 100 * r])) for n in draw(st.permutations(numbers))]
        for r in range(ranks)
    ]
    scale = draw(st.sampled_from([1, 100, 10_000]))  # below and above what clocks may err
    calls, zero = [], 0
    for step in range(draw(st.integers(1, 2))):
        for comm in range(comms):
            free = [zero] * ranks
            for i in range(draw(st.integers(1, 3))):
                function = draw(st.sampled_from(names))
                began = [f + scale * draw(st.integers(0, 6)) for f in free]
                for rank in range(ranks):
                    last = max(began) if function != SEND else began[rank]
                    free[rank] = last + scale * draw(st.integers(1, 3))
                    calls.append(
                        Call(
                            rank,
                            step,
                            streams[rank][comm],
                            function,
                            began[rank],
                            free[rank],
                            (step, comm, i),
                        )
                    )
        zero = max(c.end_ns for c in calls) + scale
    return sorted(calls, key=lambda c: c.start_ns), ranks


@settings(max_examples=250)
@given(runs())
def test_what_can_happen_is_matched_right_or_withheld(run: tuple[list[Call], int]) -> None:
    groups, why = matched(*run)
    assert why or all(len(g) == 1 for g in groups)


@settings(max_examples=250)
@given(runs(same_streams=True), st.data())
def test_swapped_kernels_are_matched_right_or_withheld(
    run: tuple[list[Call], int], data: st.DataObject
) -> None:
    """Two kernels of equal name on two streams of one rank change places: no run does that."""
    calls, ranks = run
    for _ in range(data.draw(st.integers(1, 2))):
        one = data.draw(st.sampled_from(calls))
        others = [
            c
            for c in calls
            if (c.rank, c.step, c.function) == (one.rank, one.step, one.function)
            and c.stream != one.stream
        ]
        if not others:
            return
        two = data.draw(st.sampled_from(others))
        swapped = {
            one: replace(one, start_ns=two.start_ns, end_ns=two.end_ns),
            two: replace(two, start_ns=one.start_ns, end_ns=one.end_ns),
        }
        calls = [swapped.get(c, c) for c in calls]
    by_stream: dict[tuple[int, int, int], list[Call]] = {}
    for c in calls:
        by_stream.setdefault((c.rank, c.step, c.stream), []).append(c)
    for own in by_stream.values():  # a stream still runs in order
        order = sorted(own, key=lambda c: c.start_ns)
        if [c.identity for c in order] != sorted(c.identity for c in own):
            return
    groups, why = matched(calls, ranks)
    assert why or all(len(g) == 1 for g in groups)


@settings(max_examples=50)
@given(runs(same_streams=True))
def test_one_stream_is_enough(run: tuple[list[Call], int]) -> None:
    calls, ranks = run
    alone = [c for c in calls if c.stream == 7 and c.function != SEND]
    if not all(any(c.rank == r for c in alone) for r in range(ranks)):
        return
    groups, why = matched(alone, ranks)
    assert why == ""
    assert all(len(g) == 1 for g in groups)


def _two_streams(
    swapped: bool, apart: bool, names: tuple[str, str] = (REDUCE, REDUCE)
) -> list[Call]:
    """Two ranks, two streams, 100 us each; the second rank begins the other stream first."""
    us = 1_000
    other = 500 * us if apart else 10 * us
    calls = []
    for rank in range(2):
        first, second = (13, 7) if swapped and rank else (7, 13)
        for stream, start in ((first, 0), (second, other)):
            which = 0 if stream == 7 else 1
            calls.append(
                Call(rank, 0, stream, names[which], start, start + 100 * us, (0, which, 0))
            )
    return calls


@pytest.mark.parametrize(
    ("swapped", "apart", "names", "why"),
    [
        (False, True, (REDUCE, REDUCE), ""),
        (False, False, (REDUCE, REDUCE), "nothing tells collectives of streams 7, 13 apart"),
        (True, False, (REDUCE, REDUCE), "nothing tells collectives of streams 7, 13 apart"),
        (True, True, (REDUCE, REDUCE), "do not fit"),
        (True, False, (REDUCE, GATHER), ""),  # the functions tell them apart
    ],
)
def test_two_streams(swapped: bool, apart: bool, names: tuple[str, str], why: str) -> None:
    groups, said = matched(_two_streams(swapped, apart, names), 2)
    assert (why in said) if why else said == ""
    assert all(len(g) == 1 for g in groups)
    assert len(groups) == (0 if why else 2)


def test_pairs_among_more_ranks_are_no_collective_of_all() -> None:
    calls = [
        Call(rank, 0, 7, SEND, 1_000_000 * (rank // 2), 1_000_000 * (rank // 2) + 50_000, (0, 0, 0))
        for rank in range(4)
    ]
    assert "not one of all ranks" in matched(calls, 4)[1]
