"""Values over the time of a trace: misses, the host link, the GPU's own sensors.

What timeline exports draw beside the slices of `timeline`. A value holds until the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lanescope.attribution.ingest.ids import Ints
from lanescope.schemas.documents.windowrecord import GpuSeries

if TYPE_CHECKING:
    from lanescope.attribution.attribute import Attribution


@dataclass(frozen=True)
class Counter:
    """One element of `time_ns` and `value` a change, in order of time; times of the trace.

    process: operating-system id, -1 for a value of the whole device.
    """

    device: int
    process: int
    label: str
    unit: str
    time_ns: Ints
    value: np.ndarray[Any, Any]


def copy_counters(result: Attribution) -> Iterator[Counter]:
    """Of every process and GPU with row copies: missed rows of each layer-step, and the rate of
    its copies where the rows' bytes are known (decimal GB/s; 0 while no rows are copied).
    """
    rows: Any = result.layer_steps
    misses = result.document.misses
    if rows is None or misses is None or rows.empty:
        return
    tensors = {t.tensor: t.row_bytes for t in misses.tensors}
    known = bool(tensors) and all(size for size in tensors.values())
    known = known and all(f"copy_ns_{name}" in rows for name in tensors)
    for (process, device), part in rows.groupby(["process", "device"]):
        part = part.sort_values(["start_ns", "layer"], kind="stable")
        start = part.start_ns.to_numpy(dtype=np.int64)
        count = part.misses.to_numpy(dtype=np.int64)
        where = (int(device), int(process))
        yield Counter(*where, "misses of a layer-step", "rows", start, count)
        if known:
            took = sum(part[f"copy_ns_{n}"].fillna(0).to_numpy(dtype=np.int64) for n in tensors)
            moved = count * sum(size or 0 for size in tensors.values())
            yield Counter(*where, "host link", "GB/s", *_pulses(start, took, moved))


def _pulses(start: Ints, took: Any, moved: Ints) -> tuple[Ints, np.ndarray[Any, Any]]:
    """Bytes over nanoseconds (= decimal GB/s) from each start for as long as its copies took."""
    took = np.asarray(took, dtype=np.int64)
    rate = np.divide(moved, took, out=np.zeros(len(start)), where=took > 0)
    after = np.append(start[1:], np.iinfo(np.int64).max)
    ends = start + took
    gap = ends < after  # the next ones begin later: nothing is copied between
    time = np.concatenate([start, ends[gap]])
    value = np.concatenate([rate, np.zeros(int(gap.sum()))])
    order = np.argsort(time, kind="stable")
    return time[order], value[order]


def gpu_counters(result: Attribution, samples: list[GpuSeries]) -> tuple[list[Counter], int]:
    """NVML samples of the trace's GPUs on the trace's clock, raw, and how many samples were left
    out: taken before the trace's zero, or of a GPU that it does not name.

    Nothing where the export does not say when it began.
    """
    info = result.analysis.staged.info
    zero = info.session_start_unix_ns
    if zero is None:
        return [], sum(len(s.unix_ns) for s in samples)
    gpus = {_bare(str(g.get("uuid") or "")): int(g["gpu"]) for g in info.gpus}
    found: dict[tuple[int, str], list[tuple[int, int]]] = {}
    left_out = 0
    for series in samples:
        device = gpus.get(_bare(series.uuid))
        inside = [i for i, t in enumerate(series.unix_ns) if device is not None and t >= zero]
        left_out += len(series.unix_ns) - len(inside)
        for name, column in series.columns.items():
            pairs = [(series.unix_ns[i] - zero, column[i]) for i in inside]
            if device is not None:
                kept = found.setdefault((device, name), [])
                kept += [(t, v) for t, v in pairs if v is not None]
    counters = []
    for (device, name), values in found.items():
        if values:
            times, raw = (np.array(v, dtype=np.int64) for v in zip(*sorted(values), strict=True))
            counters.append(Counter(device, -1, f"NVML {name}", "", times, raw))
    return counters, left_out


def _bare(uuid: str) -> str:
    """NVML and the exporter write the same id with and without `GPU-`."""
    return uuid.lower().removeprefix("gpu-")
