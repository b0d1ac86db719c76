"""Stage a source once: typed Parquet tables that every later step reads.

Staged tables (all times integer ns on the capture's clock):

kernels      one row a kernel execution, ordered by start: `kernel, process, device, stream,
             start_ns, end_ns, launch, name, grid_x, grid_y, grid_z, graph_node, crowded`.
             `launch` is a row number of `api` or -1; a row that is not `crowded` overlaps no other
             row of its device in time (a few rows are crowded and yet alone).
ops          one row a memcpy, memset or graph execution traced as one block
api          one row a CUDA API call, ordered by start
ranges       one row an NVTX range or mark
graph_nodes  one row a CUDA graph node record
names        one row a kernel name: short, demangled and mangled form
work         one row a launch that caused device work (see sql/stage/work.sql)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from duckdb import DuckDBPyConnection
from numpy.typing import NDArray

from lanescope.attribution import engine
from lanescope.attribution.ingest import encoding, ids
from lanescope.attribution.ingest.devices import DeviceMap, device_map
from lanescope.attribution.ingest.ids import Ints
from lanescope.attribution.ingest.info import StageInfo
from lanescope.attribution.ingest.launches import LaunchIndex
from lanescope.attribution.ingest.reader import Piece, Reader
from lanescope.attribution.ingest.rebuilding import rebuilt_launches
from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.nsight import TableSpec, table_specs

#: A launch may begin this much after its kernel before the row is called broken: host and device
#: clocks are aligned by the profiler to about a microsecond.
CLOCK_SLACK_NS = 2_000
#: Above this share, kernels before their launch mean skewed clocks, not broken rows.
SKEW_SHARE = 0.05

#: Capture options that change what tracing costs or what the trace holds; two lanes must agree.
_OPTIONS = {
    "COLLECT_CUDA_TRACE",
    "COLLECT_NVTX_TRACE",
    "COLLECT_CPU_TRACE",
    "COLLECT_GPU_CTX_SW_TRACE",
    "COLLECT_GPU_MEMORY_USAGE",
    "COLLECT_THREAD_STATE_TRACE",
    "COLLECT_UVM_CPU_PAGE_FAULTS",
    "CUDA_SKIP_SOME_API_CALLS",
    "RATE_HZ",
    "SHOW_BACKTRACE",
    "TRACE_ALL_TASKS",
}

#: A kernel that runs for a day is a broken record.
LONGEST_KERNEL_NS = 86_400 * 10**9

#: Forms of a kernel's name that are needed once a name.
_LATE = ("short_id", "mangled_id")

_REASONS = ("no_time", "end_before_start", "before_launch", "impossible_duration")


class _Unsorted(Exception):
    """The export's kernels are not in order of start."""


class Processes:
    """Numbers processes in order of appearance; the key is the packed id without thread bits."""

    def __init__(self) -> None:
        self.keys: list[int] = []
        self._index: dict[int, int] = {}

    def number(self, global_id: pa.ChunkedArray | pa.Array) -> Ints:
        """The process index of each row; -1 where the id is NULL."""
        raw = pc.fill_null(global_id, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        null = pc.is_null(global_id).to_numpy(zero_copy_only=False)
        key = ids.process_key(raw)
        out = np.full(len(key), -1, dtype=np.int64)
        for value in _distinct(key[~null] if null.any() else key):
            index = self._index.setdefault(value, len(self.keys))
            if index == len(self.keys):
                self.keys.append(value)
            out[key == value] = index
        out[null] = -1
        return out


def stage(reader: Reader, folder: Path, info: StageInfo, say: Callable[[str], None]) -> None:
    """Write every staged table of `reader` into `folder`, and note in `info` what the stamp says.

    Raises `UnusableInput` when there is no kernel table to speak of or a column that nothing can
    replace is missing.
    """
    specs = table_specs()
    _read_meta(reader, info)
    info.session_start_unix_ns = _session_start(reader)
    for name, spec in specs.items():
        missing = reader.missing_columns(spec)
        if missing is None:
            info.absent.append(name)
        elif missing:
            info.absent_columns[name] = missing
    _require_device_activity(reader, info)

    say("reading API calls")
    processes = Processes()
    string_table = reader.table(specs["strings"])
    info.rows["strings"] = string_table.num_rows if string_table is not None else 0
    strings = _Strings(string_table)
    with _Ahead(reader.pieces(specs["kernels"], False, _late_forms(info))) as kernels:
        launches = _stage_api(reader, specs["api"], folder, info, processes)
        devices = device_map(reader.table(specs["gpus"]), reader.table(specs["cuda_devices"]))
        say("reading kernels")
        with ThreadPoolExecutor(1) as pool:  # the tables that come next
            read = pool.submit(lambda: [reader.table(specs[n]) for n in _AFTER_KERNELS])
            used = _stage_kernels(reader, kernels, folder, info, processes, launches, devices)
            read.result()
    with contextlib.ExitStack() as undo, ThreadPoolExecutor(1) as pool:
        summed = pool.submit(_sum_kernels, undo, folder)
        _stage_ops(reader, folder, info, processes, launches, devices)
        say("reading ranges and graph nodes")
        _stage_ranges(reader, folder, info, strings, processes)
        _stage_graph_nodes(reader, folder, info, processes)
        _stage_names(folder, used, strings)
        _read_enums(reader, info)
        _stage_work(summed.result(), folder, info)
    _finish(reader, info, processes, devices)


def _read_meta(reader: Reader, info: StageInfo) -> None:
    meta = reader.meta()
    info.nsys_version = meta.get("EXPORT_PRODUCT_VERSION", "")
    info.schema_version = meta.get("EXPORT_SCHEMA_VERSION", "")
    for key, value in sorted(meta.items()):
        option = key.rpartition(":")[2] if key.startswith("PROCESS_") else key
        if key.endswith("CUDA_GRAPH_TRACE_OPTIONS:MODE"):
            info.options["graph_trace"] = value.lower()
        elif option in _OPTIONS:
            info.options[option.lower()] = value.lower()


def _session_start(reader: Reader) -> int | None:
    """Exports of other tools, and old ones, lack the table or the column.

    `nsys export --ts-shift` and `--ts-normalize` move every time, but not the recorded start.
    """
    table = reader.table(table_specs()["session"])
    if table is None or "start_unix_ns" not in table.column_names or not table.num_rows:
        return None
    found = table.column("start_unix_ns")[0].as_py()
    try:
        moved = int(reader.meta().get("EXPORT_CONFIG_TIME_SHIFT") or 0)
    except ValueError:
        return None
    return int(found) - moved if found else None


def _require_device_activity(reader: Reader, info: StageInfo) -> None:
    if "kernels" not in info.absent:
        return
    if {"api", "graph_runs", "memcpy", "memset"} <= set(info.absent):
        raise UnusableInput(
            f"{reader.shown}: no table CUPTI_ACTIVITY_KIND_KERNEL, nor any other CUDA table",
            "record with nsys profile --trace=cuda,nvtx",
        )


class _Strings:
    """The export's string table; only what is asked for ever reaches the cache."""

    def __init__(self, table: pa.Table | None) -> None:
        self._by_id: dict[int, str] = {}
        if table is not None:
            self._by_id = dict(
                zip(table.column("id").to_pylist(), table.column("value").to_pylist(), strict=True)
            )

    def get(self, string_id: int | None) -> str | None:
        """The text of an id, None when the table has no such row."""
        return None if string_id is None else self._by_id.get(string_id)


def _in_order(table: pa.Table, *keys: str) -> pa.Table:
    """Sorted by the keys; most tables are already, and looking is cheaper than sorting."""
    tied = np.ones(max(table.num_rows - 1, 0), dtype=bool)
    for key in keys:
        column = table.column(key)
        values = column.to_numpy()
        if column.null_count or (tied & (values[1:] < values[:-1])).any():
            return table.sort_by([(k, "ascending") for k in keys])
        tied &= values[1:] == values[:-1]
    return table


def _stage_api(
    reader: Reader, spec: TableSpec, folder: Path, info: StageInfo, processes: Processes
) -> LaunchIndex:
    table = reader.table(spec)
    info.rows["api"] = table.num_rows if table is not None else 0
    if table is None or table.num_rows == 0:
        table = rebuilt_launches(reader)
        info.launches_rebuilt = True
        info.processes_mixed = reader.shared_ids
    strings = reader.table(table_specs()["strings"])
    table = _in_order(table, "start_ns")
    process = processes.number(table.column("global_tid"))
    start = encoding.ints(table, "start_ns", 0)
    end = np.maximum(encoding.ints(table, "end_ns", 0), start)
    name = _name_column(table.column("name_id"), strings)
    correlation = encoding.ints(table, "correlation_id", -1)
    encoding.write(
        pa.table(
            {
                "api": pa.array(np.arange(len(start), dtype=np.int64)),
                "process": pa.array(process.astype(np.int32)),
                "thread": pc.fill_null(table.column("global_tid"), 0),
                "start_ns": pa.array(start),
                "end_ns": pa.array(end),
                "correlation": pa.array(correlation),
                "name": name,
            }
        ),
        folder / "api.parquet",
    )
    index = LaunchIndex(process, correlation, start)
    info.shared_correlation_ids = index.shared_ids
    return index


def _name_column(name_id: pa.ChunkedArray, strings: pa.Table | None) -> pa.Array:
    """API names by id, dictionary-encoded; an unknown id is shown as `#id`."""
    wanted = name_id.combine_chunks()
    unique = pc.unique(wanted)
    known: dict[int, str] = {}
    if strings is not None:
        kept = strings.filter(pc.is_in(strings.column("id"), value_set=unique))
        known = dict(
            zip(kept.column("id").to_pylist(), kept.column("value").to_pylist(), strict=True)
        )
    values = [(known.get(i) or f"#{i}") if i is not None else "" for i in unique.to_pylist()]
    index = pc.index_in(wanted, value_set=unique)
    return pa.DictionaryArray.from_arrays(index, pa.array(values, pa.string()))


@dataclass
class _Used:
    """Kernel names seen while streaming: name id -> (short, demangled, mangled) string ids."""

    by_name: dict[int, tuple[int, int, int]] = field(default_factory=dict)


_KERNEL_TYPES = {
    "kernel": pa.int64(),
    "process": pa.int32(),
    "device": pa.int32(),
    "stream": pa.int64(),
    "start_ns": pa.int64(),
    "end_ns": pa.int64(),
    "launch": pa.int64(),
    "name": pa.int64(),
    "grid_x": pa.int64(),
    "grid_y": pa.int64(),
    "grid_z": pa.int64(),
    "graph_node": pa.int64(),
    "crowded": pa.bool_(),
}
_KERNEL_SCHEMA = pa.schema([pa.field(n, t, nullable=False) for n, t in _KERNEL_TYPES.items()])


class _Ahead:
    """Pieces that are being read from now on, although nobody asks for them yet."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces
        self._pool = ThreadPoolExecutor(1)
        self._first = self._pool.submit(next, pieces, None)

    def __iter__(self) -> Iterator[Piece]:
        first = self._first.result()
        if first is not None:
            yield first
            yield from self._pieces

    def __enter__(self) -> _Ahead:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._pool.shutdown()
        if isinstance(self._pieces, Generator):
            self._pieces.close()  # its threads end with it


def _late_forms(info: StageInfo) -> Sequence[str]:
    """Forms of names to look up once a name; where a form is missing, all of every row."""
    absent = info.absent_columns.get("kernels", [])
    return () if {"demangled_id", *_LATE} & set(absent) else _LATE


def _stage_kernels(
    reader: Reader,
    kernels: Iterable[Piece],
    folder: Path,
    info: StageInfo,
    processes: Processes,
    launches: LaunchIndex,
    devices: DeviceMap,
) -> _Used:
    """Stream the kernels into Parquet; sorted exports (all that we know) need one pass."""
    try:
        return _stream_kernels(kernels, folder, info, processes, launches, devices)
    except _Unsorted:
        in_order = reader.pieces(table_specs()["kernels"], True)
        return _stream_kernels(in_order, folder, info, processes, launches, devices)


def _stream_kernels(
    kernels: Iterable[Piece],
    folder: Path,
    info: StageInfo,
    processes: Processes,
    launches: LaunchIndex,
    devices: DeviceMap,
) -> _Used:
    used = _Used()
    sweep = _Sweep()
    excluded = dict.fromkeys(_REASONS, 0)
    skewed = rows = 0
    writer = encoding.writer(folder / "kernels.parquet", _KERNEL_SCHEMA)
    with writer as out, ThreadPoolExecutor(1) as pool:  # one piece is written beside the next
        written: Future[Any] = pool.submit(int)
        for piece in kernels:
            columns, dropped, early = _kernel_columns(piece, processes, launches, devices, used)
            for reason, n in dropped.items():
                excluded[reason] += n
            skewed += early
            if not sweep.in_order(columns["start_ns"]):
                raise _Unsorted
            n = len(columns["start_ns"])
            columns["kernel"] = np.arange(rows, rows + n, dtype=np.int64)
            rows += n
            crowded = sweep.crowded(columns["device"], columns["start_ns"], columns["end_ns"])
            arrays = [pa.array(columns.get(f.name, crowded), f.type) for f in _KERNEL_SCHEMA]
            written.result()
            written = pool.submit(out.write_table, pa.table(arrays, schema=_KERNEL_SCHEMA))
        written.result()
    info.rows["kernels"] = rows
    info.excluded = {k: v for k, v in excluded.items() if v}
    info.clock_skew_kernels = skewed
    return used


def _kernel_columns(
    piece: Piece,
    processes: Processes,
    launches: LaunchIndex,
    devices: DeviceMap,
    used: _Used,
) -> tuple[dict[str, Ints], dict[str, int], int]:
    """The staged columns of one piece without its broken rows, the reasons, and skewed rows."""
    table = piece.table
    start, end = encoding.ints(table, "start_ns", 0), encoding.ints(table, "end_ns", 0)
    process = _process_of(table, processes)
    launch = launches.find(process, encoding.ints(table, "correlation_id", -1))
    no_time = (start <= 0) & (end <= 0)
    backwards = (end < start) & ~no_time
    endless = ~backwards & (end - start > LONGEST_KERNEL_NS)
    lead = np.zeros(len(start), dtype=bool)
    if len(launches.start):
        began = launches.start[np.maximum(launch, 0)]
        lead = (launch >= 0) & (start + CLOCK_SLACK_NS < began) & ~no_time & ~backwards
    skewed = 0
    if len(start) and lead.mean() > SKEW_SHARE:  # not broken rows: clocks that disagree
        skewed, lead = int(lead.sum()), np.zeros(len(start), dtype=bool)
    keep = ~(no_time | backwards | lead | endless)
    columns = {
        "process": process,
        "device": _physical(process, encoding.ints(table, "device_id", 0), processes, devices),
        "stream": encoding.ints(table, "stream_id", -1),
        "start_ns": start,
        "end_ns": end,
        "launch": launch,
        "name": _names_of(piece, used),
        "grid_x": encoding.ints(table, "grid_x", 0),
        "grid_y": encoding.ints(table, "grid_y", 0),
        "grid_z": encoding.ints(table, "grid_z", 0),
        "graph_node": np.maximum(encoding.ints(table, "graph_node", 0), 0),
    }
    dropped = dict(
        zip(_REASONS, (int(m.sum()) for m in (no_time, backwards, lead, endless)), strict=True)
    )
    if not keep.all():
        columns = {k: v[keep] for k, v in columns.items()}
    return columns, dropped, skewed


def _process_of(piece: pa.Table, processes: Processes) -> Ints:
    """The process of each device row; the only one there is, where the export does not tell."""
    column = piece.column("global_pid")
    if column.null_count == len(column) and len(processes.keys) == 1:
        return np.zeros(len(column), dtype=np.int64)
    return processes.number(column)


def _physical(process: Ints, cuda: Ints, processes: Processes, devices: DeviceMap) -> Ints:
    if not devices.known:
        return cuda
    out = cuda.copy()
    for p in _distinct(process):
        if p < 0:
            continue
        of_process = process == p
        for d in _distinct(cuda[of_process]):
            physical = devices.physical(processes.keys[p], d)
            if physical != d:
                out[of_process & (cuda == d)] = physical
    return out


def _distinct(values: Ints) -> list[int]:
    """The few distinct values of a long column, in order; one value is told without sorting."""
    if len(values) == 0:
        return []
    if values[0] == values[-1] and (values == values[0]).all():
        return [int(values[0])]
    return sorted(int(v) for v in pc.unique(pa.array(values)).to_pylist())


def _names_of(piece: Piece, used: _Used) -> Ints:
    """The name id of each row: the demangled name's, or another form's where there is none.

    The other forms are looked up once a name, from the first row that carries it.
    """
    name = encoding.ints(piece.table, "demangled_id", -1)
    lacking = np.flatnonzero(name < 0)
    if len(lacking):
        others = piece.at(_LATE, lacking)
        short, mangled = (
            encoding.ints(others, "short_id", -1),
            encoding.ints(others, "mangled_id", -1),
        )
        name = name.copy()
        name[lacking] = np.where(short >= 0, short, mangled)
    first = np.full(int(name.max(initial=-1)) + 2, -1, dtype=np.int64)
    first[name[::-1] + 1] = np.arange(len(name))[::-1]
    held = np.flatnonzero(first >= 0)
    rows = np.sort(first[[i for i in held if int(i) - 1 not in used.by_name]])
    if len(rows):
        others = piece.at(_LATE, rows)
        demangled = encoding.ints(piece.table, "demangled_id", -1)[rows]
        forms = (
            encoding.ints(others, "short_id", -1),
            demangled,
            encoding.ints(others, "mangled_id", -1),
        )
        for key, *ids_ in zip(name[rows].tolist(), *(f.tolist() for f in forms), strict=True):
            used.by_name[key] = (ids_[0], ids_[1], ids_[2])
    return name


class _Sweep:
    """Carries the furthest end of every device over the pieces of a sorted stream."""

    def __init__(self) -> None:
        self._reach: dict[int, int] = {}
        self._last_start = np.iinfo(np.int64).min

    def in_order(self, start: Ints) -> bool:
        """Whether the stream is still sorted by start after this piece."""
        if len(start) == 0:
            return True
        ok = bool(start[0] >= self._last_start and (start[1:] >= start[:-1]).all())
        self._last_start = start[-1]
        return ok

    def crowded(self, device: Ints, start: Ints, end: Ints) -> NDArray[np.bool_]:
        """Which rows overlap another row of their device in time, or may do so.

        The last row of a device in a piece counts as crowded: its successor is not known yet.
        """
        out = np.empty(len(start), dtype=bool)
        for dev in _distinct(device):
            rows = slice(None) if (device == dev).all() else device == dev
            over, self._reach[dev] = ids.overlapping(
                start[rows], end[rows], self._reach.get(dev, np.iinfo(np.int64).min)
            )
            over[:-1] |= over[1:]
            over[-1] = True
            out[rows] = over
        return out


#: Tables that are read after the kernels.
_AFTER_KERNELS = ("memcpy", "memset", "graph_runs", "ranges", "graph_nodes")
_OP_COLUMNS = ("bytes", "copy_kind", "src_kind", "dst_kind", "graph_node", "graph_exec")


def _stage_ops(
    reader: Reader,
    folder: Path,
    info: StageInfo,
    processes: Processes,
    launches: LaunchIndex,
    devices: DeviceMap,
) -> None:
    tables = []
    for name in ("memcpy", "memset", "graph_runs"):
        table = reader.table(table_specs()[name])
        info.rows[name] = table.num_rows if table is not None else 0
        if table is None or table.num_rows == 0:
            continue
        start, end = encoding.ints(table, "start_ns", 0), encoding.ints(table, "end_ns", 0)
        process = _process_of(table, processes)
        device = _physical(process, encoding.ints(table, "device_id", 0), processes, devices)
        keep = (end >= start) & ((start > 0) | (end > 0))
        columns = {
            "kind": pa.repeat(name.removesuffix("_runs"), table.num_rows),
            "process": pa.array(process.astype(np.int32)),
            "device": pa.array(device.astype(np.int32)),
            "stream": pa.array(encoding.ints(table, "stream_id", -1)),
            "start_ns": pa.array(start),
            "end_ns": pa.array(end),
            "launch": pa.array(launches.find(process, encoding.ints(table, "correlation_id", -1))),
        }
        for col in _OP_COLUMNS:
            columns[col] = (
                table.column(col).combine_chunks()
                if col in table.column_names
                else pa.nulls(table.num_rows, pa.int64())
            )
        tables.append(pa.table(columns).filter(pa.array(keep)))
    whole = pa.concat_tables(tables) if tables else _no_ops()
    whole = _in_order(whole, "start_ns", "end_ns")
    whole = whole.add_column(0, "op", pa.array(np.arange(whole.num_rows, dtype=np.int64)))
    encoding.write(whole, folder / "ops.parquet")


def _no_ops() -> pa.Table:
    kinds = {"kind": pa.string(), "process": pa.int32(), "device": pa.int32()}
    names = ("kind", "process", "device", "stream", "start_ns", "end_ns", "launch", *_OP_COLUMNS)
    return pa.table({n: pa.nulls(0, kinds.get(n, pa.int64())) for n in names})


def _stage_ranges(
    reader: Reader, folder: Path, info: StageInfo, strings: _Strings, processes: Processes
) -> None:
    table = reader.table(table_specs()["ranges"])
    if table is None:
        table = pa.table(
            {
                c.name: pa.nulls(0, pa.string() if c.text else pa.int64())
                for c in table_specs()["ranges"].columns
            }
        )
    text_id = table.column("text_id").to_pylist()
    text = [
        t if t is not None else strings.get(i)
        for t, i in zip(table.column("text").to_pylist(), text_id, strict=True)
    ]
    table = table.drop_columns(["text", "text_id"]).append_column(
        "name", pa.array(text, pa.string())
    )
    table = table.sort_by("start_ns")
    table = table.add_column(0, "range", pa.array(np.arange(table.num_rows, dtype=np.int64)))
    table = _with_process(table, processes)
    pq.write_table(table, folder / "ranges.parquet", compression="zstd")
    info.rows["ranges"] = table.num_rows


def _stage_graph_nodes(reader: Reader, folder: Path, info: StageInfo, processes: Processes) -> None:
    spec = table_specs()["graph_nodes"]
    table = reader.table(spec)
    if table is None:
        table = pa.table({c.name: pa.nulls(0, pa.int64()) for c in spec.columns})
    table = _with_process(table, processes)
    pq.write_table(table, folder / "graph_nodes.parquet", compression="zstd")
    info.rows["graph_nodes"] = table.num_rows


def _with_process(table: pa.Table, processes: Processes) -> pa.Table:
    number = processes.number(table.column("global_tid"))
    return table.append_column("process", pa.array(number.astype(np.int32)))


def _stage_names(folder: Path, used: _Used, strings: _Strings) -> None:
    rows = []
    for name, (short, demangled, mangled) in sorted(used.by_name.items()):
        texts = [strings.get(i) if i >= 0 else None for i in (short, demangled, mangled)]
        rows.append((name, *texts))
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    pq.write_table(
        pa.table(
            {
                "name": pa.array(columns[0], pa.int64()),
                "short": pa.array(columns[1], pa.string()),
                "demangled": pa.array(columns[2], pa.string()),
                "mangled": pa.array(columns[3], pa.string()),
            }
        ),
        folder / "names.parquet",
    )


def _finish(reader: Reader, info: StageInfo, processes: Processes, devices: DeviceMap) -> None:
    names = {}
    table = reader.table(table_specs()["processes"])
    if table is not None:
        names = dict(
            zip(
                table.column("global_pid").to_pylist(),
                table.column("name").to_pylist(),
                strict=True,
            )
        )
    info.processes = [
        {"process": i, "pid": ids.pid(key), "name": names.get(key) or ""}
        for i, key in enumerate(processes.keys)
    ]
    info.gpus = devices.gpus
    info.devices_known = devices.known
    info.bad_cells = [
        {"table": t, "column": c, "cells": n} for (t, c), n in sorted(reader.bad_cells.items())
    ]


def _read_enums(reader: Reader, info: StageInfo) -> None:
    for name in ("enum_copy_kind", "enum_memory_kind", "enum_event_type", "enum_sync_type"):
        enum = reader.table(table_specs()[name])
        if enum is not None:
            info.enums[name.removeprefix("enum_")] = {
                str(i): str(n)
                for i, n in zip(
                    enum.column("id").to_pylist(), enum.column("name").to_pylist(), strict=True
                )
            }


def _sum_kernels(undo: contextlib.ExitStack, folder: Path) -> DuckDBPyConnection:
    """Sum up the kernels of every launch, which need not wait for the other tables.

    Returns the connection that holds the sums; `undo` closes it.
    """
    con = undo.enter_context(engine.connect(folder))
    con.read_parquet(str(folder / "kernels.parquet")).create_view("kernels")
    engine.run(con, "stage/kernel_work")
    return con


def _stage_work(con: DuckDBPyConnection, folder: Path, info: StageInfo) -> None:
    """Sum up the device work of every launch; it depends on no profile."""
    kinds = {name: int(number) for number, name in info.enums.get("copy_kind", {}).items()}
    con.read_parquet(str(folder / "ops.parquet")).create_view("ops")
    engine.set_variable(con, "host_to_device", kinds.get("CUDA_MEMCPY_KIND_HTOD", 1))
    engine.run(con, "stage/work")
    encoding.write(con.table("work").to_arrow_table(), folder / "work.parquet")
