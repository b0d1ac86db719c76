"""Interval arithmetic, id packing, launch joins and containment against plain definitions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lanescope.attribution.ingest import ids
from lanescope.attribution.ingest.launches import LaunchIndex
from lanescope.attribution.phases.ranges import Launches, Ranges, held, innermost

intervals = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 40)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=30,
)


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(intervals)
def test_union_is_the_number_of_covered_instants(spans: list[tuple[int, int]]) -> None:
    covered = {t for a, b in spans for t in range(a, b)}
    assert ids.union_ns(ints([a for a, _ in spans]), ints([b for _, b in spans])) == len(covered)


@given(intervals)
def test_rows_that_overlap_nothing_earlier_add_their_whole_length(
    spans: list[tuple[int, int]],
) -> None:
    spans = sorted(spans)
    over, reach = ids.overlapping(
        ints([a for a, _ in spans]), ints([b for _, b in spans]), np.iinfo(np.int64).min
    )
    for i, (a, _) in enumerate(spans):
        assert over[i] == any(b > a for _, b in spans[:i])
    assert not spans or reach == max(b for _, b in spans)


@given(st.integers(0, 2**16 - 1), st.integers(0, 2**24 - 1), st.integers(0, 2**24 - 1))
def test_packed_ids_come_apart_exactly(machine: int, process: int, thread: int) -> None:
    packed = ints([np.uint64((machine << 48) | (process << 24) | thread).astype(np.int64)])
    assert ids.pid(int(packed[0])) == process
    assert ids.tid(int(packed[0])) == thread
    neighbour = packed ^ 1  # another thread of the process
    assert ids.process_key(packed)[0] == ids.process_key(neighbour)[0]
    assert ids.tid(int(ids.process_key(packed)[0])) == 0


rows = st.lists(st.tuples(st.integers(-1, 2), st.integers(-2, 12)), max_size=40)


@given(rows, rows)
def test_the_launch_join_keeps_every_row_and_takes_the_earliest_owner(
    calls: list[tuple[int, int]], kernels: list[tuple[int, int]]
) -> None:
    start = ints(list(range(len(calls))))
    index = LaunchIndex(ints([p for p, _ in calls]), ints([c for _, c in calls]), start)
    found = index.find(ints([p for p, _ in kernels]), ints([c for _, c in kernels]))
    assert len(found) == len(kernels)
    for (process, correlation), row in zip(kernels, found, strict=True):
        owners = [
            i
            for i, call in enumerate(calls)
            if call == (process, correlation) and correlation > 0 and process >= 0
        ]
        assert row == (owners[0] if owners else -1)


def make_ranges(spans: list[tuple[int, int]], thread: list[int]) -> Ranges:
    n = len(spans)
    zeros = ints([0] * n)
    return Ranges(
        ints(list(range(n))), zeros, ints(thread), ints([a for a, _ in spans]),
        ints([b for _, b in spans]), zeros, zeros, ["r"],
    )  # fmt: skip


@given(intervals, intervals, st.randoms(use_true_random=False))
def test_the_innermost_range_is_the_latest_start_that_holds_the_call(
    spans: list[tuple[int, int]], calls: list[tuple[int, int]], random: object
) -> None:
    thread = [random.randint(0, 1) for _ in spans]  # type: ignore[attr-defined]
    on = [random.randint(0, 1) for _ in calls]  # type: ignore[attr-defined]
    ranges = make_ranges(spans, thread)
    found = innermost(ranges, ints(on), ints([a for a, _ in calls]), ints([b for _, b in calls]))
    for (a, b), t, row in zip(calls, on, found, strict=True):
        holding = [i for i, (s, e) in enumerate(spans) if thread[i] == t and s <= a and b <= e]
        if not holding:
            assert row == -1
        else:
            best = max((spans[i][0], -spans[i][1]) for i in holding)
            assert (spans[row][0], -spans[row][1]) == best
            assert row in holding


@given(intervals, st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_a_range_holds_the_calls_inside_it(spans: list[tuple[int, int]], gaps: list[int]) -> None:
    # calls of one thread come one after another
    starts = np.cumsum(ints(gaps)) * 3
    ends = starts + 2
    n = len(starts)
    launches = Launches(ints(list(range(n))), ints([0] * n), ints([0] * n), starts, ends)
    ranges = make_ranges(spans, [0] * len(spans))
    found = held(ranges, launches, ints([1] * n))
    order = np.argsort(starts, kind="stable")
    distinct = len(set(starts.tolist())) == n
    if not distinct:  # calls at the same instant cannot be: one thread makes one at a time
        return
    for (a, b), total in zip(spans, found, strict=True):
        assert total == sum(1 for i in order if a <= starts[i] and ends[i] <= b)
