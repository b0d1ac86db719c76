"""Pauses of the device: where the host's waits are not in the trace, they stand for them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.ingest.ids import Ints

#: Without the host's calls, a pause of the device this long stands for a wait of the host ...
PAUSE_NS = 15_000
#: ... where it is also this much longer than the usual pause before a kernel launched alone.
PAUSE_FACTOR = 8


def pause_before(start: Ints, end: Ints, alone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether the device paused for long before each launch; launches are in order of start.

    start, end: first start and last end of a launch's work on the device [ns]. alone: whether the
    launch is of one kernel; a host that launches one by one may be slow, which is no wait.
    """
    out = np.zeros(len(start), dtype=bool)
    if len(start) < 2:
        return out
    pause = start[1:] - np.maximum.accumulate(end)[:-1]
    usual = np.maximum(pause, 0)[alone[1:]]
    limit = max(PAUSE_NS, PAUSE_FACTOR * int(np.median(usual)) if len(usual) else 0)
    out[1:] = pause > limit
    return out
