"""What else used the host link or the GPU while a copy ran."""

from __future__ import annotations

from collections.abc import Iterator

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
    start = copies.start_ns.to_numpy()
    stop = start + copies.duration_ns.to_numpy()
    for (device,), at in places(copies, ["device"]):
        other = host[host.device == device]
        share[at] = overlap(start[at], stop[at], other.start_ns.to_numpy(), other.end_ns.to_numpy())
    return share


def busy_share(copies: pd.DataFrame, kernels: pd.DataFrame) -> Floats:
    """Share of each copy's time in which kernels of other streams or processes ran on its device.

    `kernels`: one row a kernel that may run beside the copies; own_process, stream, device,
    start_ns, end_ns. Kernels of the copy's own stream cannot run beside it and are left out.
    """
    share = np.zeros(len(copies))
    start = copies.start_ns.to_numpy()
    stop = start + copies.duration_ns.to_numpy()
    for (device, process, stream), at in places(copies, ["device", "own_process", "stream"]):
        own = (kernels.own_process == process) & (kernels.stream == stream)
        other = kernels[(kernels.device == device) & ~own]
        share[at] = overlap(start[at], stop[at], other.start_ns.to_numpy(), other.end_ns.to_numpy())
    return share


def places(
    rows: pd.DataFrame, columns: list[str]
) -> Iterator[tuple[tuple[int, ...], np.ndarray | slice]]:
    """The places of every combination of values; all places at once where there is only one."""
    values = [rows[c].to_numpy() for c in columns]
    if len(rows) and all((v == v[0]).all() for v in values):
        yield tuple(int(v[0]) for v in values), slice(None)
        return
    keys, number = np.unique(np.column_stack(values), axis=0, return_inverse=True)
    for i, key in enumerate(keys):
        yield tuple(int(v) for v in key), np.flatnonzero(number.ravel() == i)


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
