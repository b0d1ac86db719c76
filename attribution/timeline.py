"""The whole trace as slices on tracks: what timeline exports write. Nothing on a track overlaps.

One `Track` is one row of a timeline viewer. Work of one stream (or calls of one thread, or nested
ranges) that overlaps is laid on as many tracks as it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lanescope.attribution import engine
from lanescope.attribution.attribute import Analysis
from lanescope.attribution.ingest.ids import Ints, tid
from lanescope.attribution.tracks import depths


@dataclass(frozen=True)
class Track:
    """Slices in order of start, one element a slice; `name` and `group` index the lists.

    device: physical GPU, or -1 for the host side; process: operating-system process id.
    group: bucket of a kernel, kind of an API call; layer: -1 where none is known.
    """

    device: int
    process: int
    kind: str
    label: str
    start_ns: Ints
    end_ns: Ints
    name: Ints
    group: Ints
    layer: Ints
    names: list[str]
    groups: list[str]


def tracks(analysis: Analysis) -> Iterator[Track]:
    """Every track: per device phases, steps, streams and copies; per process ranges and calls."""
    devices = analysis.rows("SELECT DISTINCT device FROM facts ORDER BY device")
    for device in (row["device"] for row in devices):
        yield from _segments(analysis, device)
        yield from _kernels(analysis, device)
        yield from _ops(analysis, device)
    for number, process in enumerate(analysis.staged.info.processes):
        yield from _ranges(analysis, number, process["pid"])
        yield from _calls(analysis, number, process["pid"])


def _laid_out(
    device: int,
    process: int,
    kind: str,
    label: str,
    start: Ints,
    end: Ints,
    name: Ints,
    group: Ints,
    layer: Ints | None,
    names: list[str],
    groups: list[str],
) -> Iterator[Track]:
    """Slices in order of start as tracks on which nothing overlaps."""
    depth = depths(start, end)
    layer = np.full(len(start), -1, dtype=np.int64) if layer is None else layer
    for d in range(int(depth.max(initial=-1)) + 1):
        rows = np.flatnonzero(depth == d)
        yield Track(
            device,
            process,
            kind,
            label if d == 0 else f"{label} ({d + 1})",
            start[rows],
            end[rows],
            name[rows],
            group[rows],
            layer[rows],
            names,
            groups,
        )


def _columns(analysis: Analysis, module: str, device: int) -> dict[str, np.ndarray]:
    found = analysis.con.execute(engine.sql(f"timeline/{module}"), {"device": device}).fetchnumpy()
    return {name: np.asarray(column) for name, column in found.items()}


def _pids(analysis: Analysis) -> dict[int, int]:
    return {p["process"]: p["pid"] for p in analysis.staged.info.processes}


def _index(values: list[str]) -> tuple[Ints, list[str]]:
    distinct = {v: i for i, v in enumerate(dict.fromkeys(values))}
    return np.array([distinct[v] for v in values], dtype=np.int64), list(distinct)


def _segments(analysis: Analysis, device: int) -> Iterator[Track]:
    found = _columns(analysis, "segment_slices", device)
    pids = _pids(analysis)
    names, groups = [], []
    for step, request, phase, part, warmup in zip(
        *(found[c].tolist() for c in ("step", "request", "phase", "part", "warmup")), strict=True
    ):
        of = f" of request {request}" if request >= 0 else ""
        told = f"step {step}" if step >= 0 else f"{phase} {part}".strip() + of
        names.append(f"{told} (warm-up)" if warmup else told)
        groups.append(f"{phase} {part}".strip())
    name, distinct = _index(names)
    group, kinds = _index(groups)
    step = found["step"].astype(np.int64)
    for process in np.unique(found["process"]):
        for kind, label, mask in (
            ("steps", "verification steps", step >= 0),
            ("phases", "other phases", step < 0),
        ):
            rows = np.flatnonzero((found["process"] == process) & mask)
            if len(rows):
                yield from _laid_out(
                    device,
                    pids.get(int(process), -1),
                    kind,
                    label,
                    found["start_ns"][rows],
                    found["end_ns"][rows],
                    name[rows],
                    group[rows],
                    None,
                    distinct,
                    kinds,
                )


def _kernels(analysis: Analysis, device: int) -> Iterator[Track]:
    found = _columns(analysis, "kernel_slices", device)
    pids = _pids(analysis)
    named = analysis.con.execute("SELECT name, function, bucket FROM buckets_of_names").fetchall()
    names = [function for _, function, _ in named]
    group_of, groups = _index([bucket for _, _, bucket in named])
    order = np.argsort(np.array([n for n, _, _ in named], dtype=np.int64))
    ids = np.array([n for n, _, _ in named], dtype=np.int64)[order]
    at = order[np.searchsorted(ids, found["name"])]
    for process, block, stream, rows in _parts(found, ("process", "is_block", "stream")):
        yield from _laid_out(
            device,
            pids.get(process, -1),
            "graphs" if block else "kernels",
            f"{'graphs of stream' if block else 'stream'} {stream}",
            found["start_ns"][rows],
            found["end_ns"][rows],
            at[rows],
            group_of[at[rows]],
            found["layer"][rows].astype(np.int64),
            names,
            groups,
        )


def _parts(
    found: dict[str, np.ndarray], keys: tuple[str, ...]
) -> Iterator[tuple[int, int, int, slice]]:
    """Runs of rows with equal keys, in the order of the rows."""
    columns = [found[k] for k in keys]
    rows = len(columns[0])
    if rows == 0:
        return
    changed = np.zeros(rows, dtype=bool)
    changed[0] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(changed).tolist()
    for low, high in zip(starts, [*starts[1:], rows], strict=True):
        first = [int(column[low]) for column in columns]
        yield first[0], first[1] if len(first) > 2 else 0, first[-1], slice(low, high)


def _ops(analysis: Analysis, device: int) -> Iterator[Track]:
    found = _columns(analysis, "op_slices", device)
    pids = _pids(analysis)
    kinds = analysis.staged.info.enums.get("copy_kind", {})
    names = [
        "memset" if kind == "memset" else kinds.get(str(number), f"copy kind {number}")
        for kind, number in zip(found["kind"].tolist(), found["copy_kind"].tolist(), strict=True)
    ]
    name, distinct = _index(names)
    for process, _, stream, rows in _parts(found, ("process", "stream")):
        yield from _laid_out(
            device,
            pids.get(process, -1),
            "copies",
            f"copies of stream {stream}",
            found["start_ns"][rows],
            found["end_ns"][rows],
            name[rows],
            np.zeros(rows.stop - rows.start, dtype=np.int64),
            None,
            distinct,
            ["copy"],
        )


def _ranges(analysis: Analysis, number: int, pid: int) -> Iterator[Track]:
    ranges = analysis.host.ranges
    for thread in np.unique(ranges.thread[ranges.process == number]):
        rows = np.flatnonzero((ranges.process == number) & (ranges.thread == thread))
        rows = rows[np.lexsort((-ranges.end_ns[rows], ranges.start_ns[rows]))]
        yield from _laid_out(
            -1,
            pid,
            "ranges",
            f"ranges of thread {tid(int(thread))}",
            ranges.start_ns[rows],
            ranges.end_ns[rows],
            ranges.name[rows],
            np.zeros(len(rows), dtype=np.int64),
            None,
            ranges.names,
            ["range"],
        )


def _calls(analysis: Analysis, number: int, pid: int) -> Iterator[Track]:
    api = analysis.host.api
    rows = np.flatnonzero(api.process == number)
    if len(rows):
        yield from _laid_out(
            -1,
            pid,
            "api",
            "API calls",
            api.start_ns[rows],
            api.end_ns[rows],
            api.name[rows].astype(np.int64),
            api.kind[rows].astype(np.int64),
            None,
            api.names,
            api.kinds,
        )
