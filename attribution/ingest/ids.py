"""Ids as Nsight Systems packs them, and the interval sweep: integers only.

A `globalTid` holds machine, process and thread in 64 bits: process id in bits 24 to 47, thread id
in bits 0 to 23; the top bit may be set, so that the signed value is negative. A trip through a
float would merge neighbouring threads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_THREAD_BITS = 24
_THREAD_MASK = np.int64((1 << _THREAD_BITS) - 1)


def process_key(global_id: Ints) -> Ints:
    """The process part of a packed id, thread bits cleared: equal for all threads of a process."""
    out: Ints = global_id & ~_THREAD_MASK
    return out


def pid(global_id: int) -> int:
    """The operating system's process id in a packed id."""
    return (int(global_id) >> _THREAD_BITS) & 0xFFFFFF


def tid(global_id: int) -> int:
    """The thread id in a packed id (its low 24 bits)."""
    return int(global_id) & 0xFFFFFF


def overlapping(start: Ints, end: Ints, reach_before: int) -> tuple[NDArray[np.bool_], int]:
    """Which rows, sorted by start, begin before an earlier row of the same timeline has ended.

    `reach_before` is the furthest end of all earlier rows. Returns one flag a row and the furthest
    end after the last row. Rows that only touch do not overlap.
    """
    if len(start) == 0:
        return np.zeros(0, dtype=bool), reach_before
    reach = np.maximum.accumulate(end)
    before = np.empty_like(reach)
    before[0] = reach_before
    np.maximum(reach[:-1], reach_before, out=before[1:])
    return start < before, max(int(reach[-1]), reach_before)


def union_ns(start: Ints, end: Ints) -> int:
    """Total length of the union of half-open intervals [start, end), in any order."""
    if len(start) == 0:
        return 0
    order = np.argsort(start, kind="stable")
    s, e = start[order], end[order]
    reach = np.maximum.accumulate(e)
    gaps = np.maximum(0, s[1:] - reach[:-1]).sum()
    return int(reach[-1] - s[0] - gaps)
