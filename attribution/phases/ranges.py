"""NVTX ranges on the host, and which launches they hold.

A launch belongs to a range when its API call lies inside it (boundaries included) on the same
thread; of several ranges that hold it, the innermost one wins (latest start; of equal starts the
one that ends first). A launch on another thread belongs to no range: never to the nearest.

Start/end ranges (not push/pop) may overlap and cross threads. They are used like push/pop ranges
when they start and end on one thread; the others are counted, and not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.ingest.ids import Ints


@dataclass(frozen=True)
class Launches:
    """API calls that caused device work, one element a call, in order of start."""

    api: Ints
    process: Ints
    thread: Ints
    start_ns: Ints
    end_ns: Ints


@dataclass(frozen=True)
class Ranges:
    """Closed ranges, one element a range, in order of start. `name` indexes `names`."""

    range: Ints
    process: Ints
    thread: Ints
    start_ns: Ints
    end_ns: Ints
    name: Ints
    domain: Ints
    names: list[str]

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, rows: NDArray[np.bool_] | Ints) -> Ranges:
        """The ranges at `rows` (mask or indices)."""
        return Ranges(
            self.range[rows],
            self.process[rows],
            self.thread[rows],
            self.start_ns[rows],
            self.end_ns[rows],
            self.name[rows],
            self.domain[rows],
            self.names,
        )


def innermost(ranges: Ranges, thread: Ints, start: Ints, end: Ints) -> Ints:
    """The index of the innermost range that holds each interval [start, end]; -1 where none does.

    All arrays have one element an interval; `ranges` may nest, overlap and lie on many threads.
    """
    out = np.full(len(start), -1, dtype=np.int64)
    for t in np.unique(thread):
        of_thread = np.flatnonzero(ranges.thread == t)
        if len(of_thread) == 0:
            continue
        # by start; of equal starts the outer (later end) first, so that the inner one is found
        order = of_thread[np.lexsort((-ranges.end_ns[of_thread], ranges.start_ns[of_thread]))]
        starts, ends = ranges.start_ns[order], ranges.end_ns[order]
        parent = _parents(starts, ends)
        rows = np.flatnonzero(thread == t)
        found = np.searchsorted(starts, start[rows], side="right") - 1
        while True:  # climb while the candidate ends too early; as deep as the ranges nest
            early = (found >= 0) & (ends[np.maximum(found, 0)] < end[rows])
            if not early.any():
                break
            found[early] = parent[found[early]]
        out[rows] = np.where(found >= 0, order[np.maximum(found, 0)], -1)
    return out


def _parents(starts: Ints, ends: Ints) -> Ints:
    """For ranges sorted by start: the latest earlier one that ends no sooner; -1 for none.

    Ranges that end sooner than a later one cannot hold what the later one fails to hold.
    """
    parent = np.full(len(starts), -1, dtype=np.int64)
    if len(starts) < 2 or bool((starts[1:] > ends[:-1]).all()):
        return parent
    stack: list[int] = []
    end_list = ends.tolist()
    for i, end in enumerate(end_list):
        while stack and end_list[stack[-1]] < end:
            stack.pop()
        parent[i] = stack[-1] if stack else -1
        stack.append(i)
    return parent


def held(ranges: Ranges, launches: Launches, weight: Ints) -> Ints:
    """The sum of `weight` over the launches inside each range, by thread and containment."""
    total = np.zeros(len(ranges), dtype=np.int64)
    for t in np.unique(ranges.thread):
        rows = np.flatnonzero(ranges.thread == t)
        on = np.flatnonzero(launches.thread == t)
        if len(on) == 0:
            continue
        starts = launches.start_ns[on]
        ends = np.maximum.accumulate(launches.end_ns[on])
        sums = np.concatenate([[0], np.cumsum(weight[on])])
        first = np.searchsorted(starts, ranges.start_ns[rows], side="left")
        last = np.searchsorted(ends, ranges.end_ns[rows], side="right")
        total[rows] = sums[np.maximum(last, first)] - sums[first]
    return total
