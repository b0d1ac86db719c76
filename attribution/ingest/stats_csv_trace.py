"""A `cuda_gpu_trace` CSV as an export to stage: a timeline of the device, without the host.

Kernels, copies and memsets are all there, with their correlation ids; API calls, ranges, processes
and graph nodes are not. What stands in for them:

- a process is a (device, context) pair: the CSV names no process
- rows of one correlation id are one launch (see `rebuilding`); a launch of several kernels is a
  graph replay, and graphs are told apart by what they hold, the names and grids of their kernels,
  and by their place among equal ones since the device last paused (engines replay the same piece
  once a layer)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from lanescope.attribution.ingest import stats_csv
from lanescope.attribution.ingest.ids import Ints
from lanescope.attribution.ingest.pauses import pause_before
from lanescope.attribution.ingest.reader import Piece, Reader
from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.nsight import TableSpec

_NUMBER = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"
_DEVICE = re.compile(r"\((\d+)\)\s*$")
_COPY, _SET, _OTHER = "[CUDA memcpy", "[CUDA memset", "[CUDA"
#: The exporter's numbers of copy kinds, by the words of the CSV.
_COPY_KINDS = {"host-to-device": 1, "device-to-host": 2, "htod": 1, "dtoh": 2}
_PROCESS_SHIFT = 24
_GRID = ("grid_x", "grid_y", "grid_z")
#: Correlation ids are shared by processes when more launches than this are torn apart on a stream.
_TORN_SHARE = 0.01


class StatsCsvReader(Reader):
    """The first `cuda_gpu_trace` report of a file."""

    def __init__(self, path: Path) -> None:
        self.shown = path
        self.bad_cells = {}
        self._names: list[str] = []
        self.gpus: dict[int, str] = {}
        heading, text = stats_csv.timeline(path)
        self._tables = self._read(heading, text)

    # -- Reader ------------------------------------------------------------------------------

    def meta(self) -> dict[str, str]:
        """A CSV says nothing of where it comes from."""
        return {}

    def missing_columns(self, spec: TableSpec) -> list[str] | None:
        """See `Reader`."""
        return [] if spec.name in self._tables else None

    def table(self, spec: TableSpec) -> pa.Table | None:
        """See `Reader`."""
        return self._tables.get(spec.name)

    def pieces(self, spec: TableSpec, by_start: bool, late: Sequence[str] = ()) -> Iterator[Piece]:
        """See `Reader`."""
        table = self._tables.get(spec.name)
        if table is not None:
            yield Piece(table.sort_by("start_ns") if by_start else table)

    # -- reading -----------------------------------------------------------------------------

    def _read(self, heading: stats_csv.Table, text: bytes) -> dict[str, pa.Table]:
        raw = self._parsed(heading, text)
        start = self._ns(heading, raw, "start")
        length = self._ns(heading, raw, "duration")
        good = pc.and_(pc.is_valid(start), pc.is_valid(length))
        keep = good.to_numpy(zero_copy_only=False)
        self._bad("Start or Duration", int((~keep).sum()))
        begin = pc.fill_null(start, 0).to_numpy(zero_copy_only=False)
        columns = {
            "start_ns": begin,
            "end_ns": begin + pc.fill_null(length, 0).to_numpy(zero_copy_only=False),
            "device_id": self._devices(raw),
            **{n: self._ints(raw, n) for n in ("stream", "corr", "context", *_GRID)},
        }
        names = raw.column("name").combine_chunks().dictionary_encode()
        self._names = [str(n) for n in names.dictionary.to_pylist()]
        name = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        columns["name"] = name
        columns = {k: v[keep] for k, v in columns.items()}
        columns["pid"] = _processes(columns["device_id"], columns["context"])
        return self._split(columns)

    def _parsed(self, heading: stats_csv.Table, text: bytes) -> pa.Table:
        if not text.strip():
            return pa.table({n: pa.array([], pa.string()) for n in _unique(heading.names)})
        broken = 0

        def skip(_row: pacsv.InvalidRow) -> str:
            nonlocal broken
            broken += 1
            return "skip"

        try:
            table = pacsv.read_csv(
                pa.BufferReader(text),
                read_options=pacsv.ReadOptions(column_names=_unique(heading.names)),
                parse_options=pacsv.ParseOptions(
                    delimiter=heading.delimiter, invalid_row_handler=skip, newlines_in_values=True
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types=dict.fromkeys(_unique(heading.names), pa.string()),
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as exc:
            raise UnusableInput(
                f"{self.shown}: damaged CSV ({str(exc).splitlines()[0]})", "write it again"
            ) from exc
        self._bad("rows", broken)
        return table

    def _bad(self, column: str, cells: int) -> None:
        if cells:
            self.bad_cells[(stats_csv.TIMELINE, column)] = cells

    def _ns(self, heading: stats_csv.Table, raw: pa.Table, name: str) -> pa.ChunkedArray:
        """A column of times in ns; null where a cell holds no number."""
        cells = _clean(raw.column(name))
        fits = pc.match_substring_regex(cells, _NUMBER)
        cells = pc.if_else(fits, cells, None)
        scale = heading.scale(name)
        if scale == 1 and not pc.any(pc.match_substring(cells, ".")).as_py():
            return pc.cast(cells, pa.int64())
        return pc.cast(
            pc.round(pc.multiply(pc.cast(cells, pa.float64()), float(scale))), pa.int64()
        )

    def _ints(self, raw: pa.Table, name: str) -> Ints:
        """A column of whole numbers; 0 where the report lacks it or a cell holds none."""
        if name not in raw.column_names:
            return np.zeros(raw.num_rows, dtype=np.int64)
        cells = _clean(raw.column(name))
        fits = pc.match_substring_regex(cells, r"^\d{1,18}$")
        self._bad(name, int(pc.sum(pc.and_(pc.invert(fits), pc.not_equal(cells, ""))).as_py() or 0))
        whole = pc.fill_null(pc.cast(pc.if_else(fits, cells, None), pa.int64()), 0)
        out: Ints = whole.to_numpy(zero_copy_only=False).astype(np.int64)
        return out

    def _devices(self, raw: pa.Table) -> Ints:
        """The number in `NVIDIA H200 (0)`; 0 where the report names no device."""
        if "device" not in raw.column_names:
            return np.zeros(raw.num_rows, dtype=np.int64)
        words = raw.column("device").combine_chunks().dictionary_encode()
        numbers = []
        for word in words.dictionary.to_pylist():
            match = _DEVICE.search(word)
            number = int(match[1]) if match else int(word) if word.strip().isdigit() else 0
            numbers.append(number)
            if match:
                self.gpus[number] = word[: match.start()].strip()
        index = words.indices.to_numpy(zero_copy_only=False)
        out: Ints = np.array(numbers or [0], dtype=np.int64)[index]
        return out

    # -- tables ------------------------------------------------------------------------------

    def _split(self, c: dict[str, Ints]) -> dict[str, pa.Table]:
        is_copy = np.array([n.startswith(_COPY) for n in self._names], dtype=bool)
        is_set = np.array([n.startswith(_SET) for n in self._names], dtype=bool)
        is_other = np.array([n.startswith(_OTHER) for n in self._names], dtype=bool)
        kind = c["name"]
        out = {
            "strings": pa.table(
                {
                    "id": pa.array(range(len(self._names)), pa.int64()),
                    "value": pa.array(self._names, pa.string()),
                }
            )
        }
        kernels = {k: v[~is_other[kind]] for k, v in c.items()}
        torn = _torn_share(kernels)
        self.shared_ids = torn > _TORN_SHARE
        if self.shared_ids:
            kernels["corr"] = np.zeros(len(kernels["corr"]), dtype=np.int64)
        out["kernels"] = _rows(kernels) | {
            "short_id": pa.nulls(len(kernels["name"]), pa.int64()),
            "demangled_id": pa.array(kernels["name"]),
            "mangled_id": pa.nulls(len(kernels["name"]), pa.int64()),
            **{n: pa.array(kernels[n]) for n in _GRID},
            "graph_node": pa.array(_graphs(kernels)),
        }
        for table, mask in (("memcpy", is_copy), ("memset", is_set)):
            rows = {k: v[mask[kind]] for k, v in c.items()}
            if len(rows["name"]) == 0:
                continue
            extra = dict.fromkeys(("bytes", "graph_node"), pa.nulls(len(rows["name"]), pa.int64()))
            if table == "memcpy":
                kinds = np.array([_copy_kind(n) for n in self._names], dtype=np.int64)
                extra["copy_kind"] = pa.array(kinds[rows["name"]])
                extra |= dict.fromkeys(("src_kind", "dst_kind"), extra["bytes"])
            out[table] = _rows(rows) | extra
        if self.gpus:
            out["gpus"] = self._gpu_table()
        return {k: v if isinstance(v, pa.Table) else pa.table(v) for k, v in out.items()}

    def _gpu_table(self) -> pa.Table:
        numbers = sorted(self.gpus)
        empty = pa.nulls(len(numbers), pa.int64())
        return pa.table(
            {
                "gpu": pa.array(numbers, pa.int64()),
                "cuda_device": pa.array(numbers, pa.int64()),
                **dict.fromkeys(("memory_bytes", "sm_count", "memory_bandwidth"), empty),
                "name": pa.array([self.gpus[n] for n in numbers]),
                **dict.fromkeys(("uuid", "bus"), pa.nulls(len(numbers), pa.string())),
            }
        )


def _unique(names: list[str]) -> list[str]:
    """Column names, each once: two headings we do not know may read alike."""
    return [n if n not in names[:i] else f"{n}#{i}" for i, n in enumerate(names)]


def _clean(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells without blanks and thousands separators."""
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(cells), r"[,_\s]", "")


def _processes(device: Ints, context: Ints) -> Ints:
    """A number for each (device, context), in order of device and context, as a packed id."""
    pairs = device * (int(context.max(initial=0)) + 1) + context
    _, number = np.unique(pairs, return_inverse=True)
    out: Ints = number.astype(np.int64) << _PROCESS_SHIFT
    return out


def _copy_kind(name: str) -> int:
    words = name.lower()
    return next((k for word, k in _COPY_KINDS.items() if word in words), 0)


def _rows(c: dict[str, Ints]) -> dict[str, pa.Array]:
    return {
        "start_ns": pa.array(c["start_ns"]),
        "end_ns": pa.array(c["end_ns"]),
        "device_id": pa.array(c["device_id"]),
        "stream_id": pa.array(c["stream"]),
        "correlation_id": pa.array(c["corr"]),
        "global_pid": pa.array(c["pid"]),
    }


def _torn_share(c: dict[str, Ints]) -> float:
    """The share of launches whose kernels do not follow one another on a stream.

    A stream runs one launch after the other; where two processes use the same ids, their kernels
    with one id lie between others.
    """
    if len(c["corr"]) == 0:
        return 0.0
    order = np.lexsort((c["start_ns"], c["stream"], c["pid"]))
    pid, stream, corr = (c[k][order] for k in ("pid", "stream", "corr"))
    new = np.ones(len(corr), dtype=bool)
    new[1:] = (corr[1:] != corr[:-1]) | (stream[1:] != stream[:-1]) | (pid[1:] != pid[:-1])
    new &= corr > 0
    runs = np.stack([pid[new], stream[new], corr[new]])
    launches = len(np.unique(runs, axis=1).T)
    return 1 - launches / runs.shape[1] if runs.shape[1] else 0.0


def _graphs(c: dict[str, Ints]) -> Ints:
    """A number for each graph on the rows of its replays; 0 for kernels launched one by one."""
    out = np.zeros(len(c["corr"]), dtype=np.int64)
    known = np.flatnonzero(c["corr"] > 0)
    if len(known) == 0:
        return out
    key = np.stack([c["pid"][known], c["corr"][known]])
    _, launch = np.unique(key, axis=1, return_inverse=True)
    launch = launch.reshape(-1)
    size = np.bincount(launch)
    first = np.full(len(size), np.iinfo(np.int64).max)
    last = np.zeros(len(size), dtype=np.int64)
    np.minimum.at(first, launch, c["start_ns"][known])
    np.maximum.at(last, launch, c["end_ns"][known])
    process = np.zeros(len(size), dtype=np.int64)
    process[launch] = c["pid"][known]
    held = _fingerprints(c, known, launch, len(size))
    number: dict[tuple[int, int, int], int] = {}
    graph = np.zeros(len(size), dtype=np.int64)
    for p in np.unique(process):
        mine = np.flatnonzero(process == p)
        mine = mine[np.argsort(first[mine], kind="stable")]
        paused = pause_before(first[mine], last[mine], size[mine] == 1)
        seen: dict[int, int] = {}
        for i, stops in zip(mine.tolist(), paused.tolist(), strict=True):
            if stops:
                seen = {}
            if size[i] > 1:
                nth = seen[int(held[i])] = seen.get(int(held[i]), 0) + 1
                graph[i] = number.setdefault((int(p), int(held[i]), nth), len(number) + 1)
    out[known] = graph[launch]
    return out


def _fingerprints(c: dict[str, Ints], known: Ints, launch: Ints, launches: int) -> Ints:
    """For each launch, a sum over its kernels of a hash of name and grid."""
    with np.errstate(over="ignore"):  # hashes wrap around on purpose
        mixed = c["name"][known] + 1
        for n in _GRID:
            mixed = mixed * np.int64(1_000_003) + c[n][known]
            mixed ^= mixed >> np.int64(29)
            mixed *= np.int64(-4658895280553007687)
        total = np.zeros(launches, dtype=np.int64)
        np.add.at(total, launch, mixed)
    return total
