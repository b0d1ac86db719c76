"""What else used the host link or the GPU while a copy ran."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lanescope.attribution.copies.mixture import Floats

#: a memory operation of fewer bytes is over before it can slow a copy
LARGE_BYTES = 65_536


def overlap(
    start: np.ndarray, stop: np.ndarray, other_start: np.ndarray, other_stop: np.ndarray
) -> Floats:
    """Share (0..1) of each interval [start, stop) covered by the union of the other intervals."""
    if len(other_start) == 0 or len(start) == 0:
        return np.zeros(len(start))
    order = np.argsort(other_start, kind="stable")
    begin, end = other_start[order], np.maximum.accumulate(other_stop[order])
    # a new piece of the union begins where nothing before reaches
    fresh = np.concatenate([[True], begin[1:] > end[:-1]])
    heads = begin[fresh]
    tails = end[np.concatenate([np.flatnonzero(fresh)[1:] - 1, [len(end) - 1]])]
    before = np.concatenate([[0], np.cumsum(tails - heads)])

    def covered(at: np.ndarray) -> np.ndarray:
        i = np.searchsorted(heads, at, side="right") - 1
        inside = np.minimum(at, tails[np.maximum(i, 0)]) - heads[np.maximum(i, 0)]
        return np.asarray(np.where(i >= 0, before[np.maximum(i, 0)] + inside, 0))

    length = np.maximum(stop - start, 1)
    return np.asarray((covered(stop) - covered(start)) / length, dtype=np.float64)


def link_share(copies: pd.DataFrame, memory: pd.DataFrame) -> Floats:
    """Share of each copy's time in which a large host copy ran on the same device.

    `memory`: one row a memory operation; device, start_ns, end_ns, bytes, kind ('h2d', 'd2h', …).
    """
    share = np.zeros(len(copies))
    host = memory[memory.kind.isin(("h2d", "d2h")) & (memory.bytes >= LARGE_BYTES)]
    for device, some in copies.groupby("device", sort=False):
        other = host[host.device == device]
        at = copies.index.get_indexer(some.index)
        start, stop = some.start_ns.to_numpy(), (some.start_ns + some.duration_ns).to_numpy()
        share[at] = overlap(start, stop, other.start_ns.to_numpy(), other.end_ns.to_numpy())
    return share


def busy_share(copies: pd.DataFrame, kernels: pd.DataFrame) -> Floats:
    """Share of each copy's time in which kernels of other streams or processes ran on its device.

    `kernels`: one row a kernel that may run beside the copies; process, stream, device, start_ns,
    end_ns. Kernels of the copy's own stream cannot run beside it and are left out.
    """
    share = np.zeros(len(copies))
    for (device, process, stream), some in copies.groupby(["device", "process", "stream"]):
        own = (kernels.process == process) & (kernels.stream == stream)
        other = kernels[(kernels.device == device) & ~own]
        at = copies.index.get_indexer(some.index)
        start, stop = some.start_ns.to_numpy(), (some.start_ns + some.duration_ns).to_numpy()
        share[at] = overlap(start, stop, other.start_ns.to_numpy(), other.end_ns.to_numpy())
    return share


def plain_copy_rate(memory: pd.DataFrame) -> tuple[float, str] | None:
    """Best rate (decimal GB/s) of a plain pinned host-to-device copy in the capture, and its words.

    Only copies of at least 16 MiB count: smaller ones are mostly latency.
    """
    large = memory[(memory.kind == "h2d") & (memory.bytes >= 16 << 20)]
    if "pinned" in memory:
        large = large[large.pinned]
    if large.empty:
        return None
    size = large["bytes"].to_numpy()
    rate = size / np.maximum((large.end_ns - large.start_ns).to_numpy(), 1)
    best = int(rate.argmax())
    return float(rate[best]), f"a pinned copy of {int(size[best]):,} bytes in the capture"
