"""Rows for intervals that overlap: no two intervals of one row share a nanosecond."""

from __future__ import annotations

import heapq

import numpy as np

from lanescope.attribution.ingest.ids import Ints


def depths(start: Ints, end: Ints) -> Ints:
    """For intervals in order of start, the lowest free row of each when it begins (0, 1, ...).

    An interval may begin where another ends. Greedy, so the number of rows is the least possible.
    """
    out = np.zeros(len(start), dtype=np.int64)
    if len(start) < 2:
        return out
    reach = np.maximum.accumulate(end)
    # only intervals of a cluster that overlaps need a row other than 0
    begins = np.concatenate([[True], start[1:] >= reach[:-1]])
    cluster = np.cumsum(begins) - 1
    crowded = np.flatnonzero(np.bincount(cluster)[cluster] > 1)
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    rows = 0
    now = -1
    for i in crowded.tolist():
        if cluster[i] != now:
            now, rows, free, busy = int(cluster[i]), 0, [], []
        while busy and busy[0][0] <= start[i]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, rows = rows, rows + 1
        out[i] = row
        heapq.heappush(busy, (int(end[i]), row))
    return out
