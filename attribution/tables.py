"""Staged tables in DuckDB and, where order on the host matters, as NumPy columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lanescope.attribution.ingest import encoding
from lanescope.attribution.ingest.ids import Ints
from lanescope.attribution.ingest.info import StageInfo
from lanescope.attribution.phases.ranges import Launches, Ranges
from lanescope.schemas.nsight import EVENT_TYPE_DEFAULTS, PUSH_POP, START_END

STAGED = ("kernels", "ops", "api", "work", "names", "graph_nodes")

#: Host calls by what they do. Names carry version and stream suffixes and come in runtime and
#: driver spellings: cudaLaunchKernel_v7000, cuLaunchKernelEx, cudaGraphLaunch_v10000_ptsz.
API_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("graph launch", re.compile(r"^cu(da)?GraphLaunch")),
    ("kernel launch", re.compile(r"^cu(da)?Launch(Cooperative)?(Kernel|Grid|Host)?")),
    ("wait", re.compile(r"^cu(da)?(Event|Stream|Device|Ctx|Thread)Synchronize")),
    ("blocking copy", re.compile(r"^cu(da)?Memcpy(?!.*Async)")),
    ("copy", re.compile(r"^cu(da)?Memcpy")),
    ("memset", re.compile(r"^cu(da)?Memset")),
    (
        "start-up",
        re.compile(r"^(cuInit|cu(da)?Graph\w*Instantiate|cu(da)?Stream(Begin|End)Capture)"),
    ),
    ("event", re.compile(r"^cu(da)?Event")),
    ("memory", re.compile(r"^cu(da)?(Malloc|Free|Mem|HostAlloc|MallocHost|FreeHost)")),
)
BLOCKING = ("wait", "blocking copy")


def api_kind(name: str) -> str:
    """What an API call does, whatever its spelling; `other` for the rest."""
    return next((kind for kind, pattern in API_KINDS if pattern.search(name)), "other")


def plain_api_name(name: str) -> str:
    """An API name without its version and per-thread-stream suffixes."""
    return re.sub(r"(_v\d+)?(_ptds|_ptsz)?$", "", name)


@dataclass(frozen=True)
class Api:
    """All API calls, in order of start. `kind` indexes `kinds`, `name` indexes `names`."""

    process: Ints
    start_ns: Ints
    end_ns: Ints
    name: NDArray[np.int32]
    names: list[str]
    kind: NDArray[np.int32]
    kinds: list[str]

    def of_kind(self, *kinds: str) -> np.ndarray:
        """Mask of the calls of these kinds."""
        wanted = [i for i, k in enumerate(self.kinds) if k in kinds]
        return np.isin(self.kind, wanted)


@dataclass(frozen=True)
class HostSide:
    """What the host did: launches with their device work, other calls, ranges, graph nodes."""

    launches: Launches
    work: dict[str, Ints]
    api: Api
    ranges: Ranges
    marks: int
    open_ranges: int
    crossing_ranges: int


def attach(con: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Views of the staged tables."""
    for name in STAGED:
        con.read_parquet(str(folder / f"{name}.parquet")).create_view(name)


def host_side(folder: Path, info: StageInfo) -> HostSide:
    """Load the host's side of the trace; it is small beside the kernels."""
    api_table = encoding.read(folder / "api.parquet")
    api = _api(api_table)
    work_table = encoding.read(folder / "work.parquet")
    work = {n: encoding.ints(work_table, n) for n in work_table.column_names}
    rows = work["launch"]
    thread = encoding.ints(api_table, "thread")
    launches = Launches(
        api=rows,
        process=api.process[rows],
        thread=thread[rows],
        start_ns=api.start_ns[rows],
        end_ns=api.end_ns[rows],
    )
    ranges, marks, still_open, crossing = _ranges(encoding.read(folder / "ranges.parquet"), info)
    return HostSide(launches, work, api, ranges, marks, still_open, crossing)


def _api(table: pa.Table) -> Api:
    name = table.column("name").combine_chunks()
    if not pa.types.is_dictionary(name.type):
        name = name.dictionary_encode()
    names = [str(n) for n in name.dictionary.to_pylist()]
    index = name.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
    kinds = sorted({api_kind(n) for n in names})
    kind_of = np.array([kinds.index(api_kind(n)) for n in names], dtype=np.int32)
    return Api(
        process=encoding.ints(table, "process"),
        start_ns=encoding.ints(table, "start_ns"),
        end_ns=encoding.ints(table, "end_ns"),
        name=index,
        names=names,
        kind=kind_of[index] if len(names) else index,
        kinds=kinds,
    )


def _event_types(info: StageInfo) -> dict[str, int]:
    found = {name: int(i) for i, name in info.enums.get("event_type", {}).items()}
    return {k: found.get(k, default) for k, default in EVENT_TYPE_DEFAULTS.items()}


def _ranges(table: pa.Table, info: StageInfo) -> tuple[Ranges, int, int, int]:
    """Closed ranges; counts of marks, of ranges never closed, of ranges that cross threads."""
    types = _event_types(info)
    kind = encoding.ints(table, "event_type")
    end_null = pc.is_null(table.column("end_ns")).to_numpy(zero_copy_only=False)
    end = encoding.ints(table, "end_ns")
    start = encoding.ints(table, "start_ns")
    thread = pc.fill_null(table.column("global_tid"), 0).to_numpy(zero_copy_only=False)
    end_thread = table.column("end_global_tid")
    crosses = pc.fill_null(pc.not_equal(end_thread, table.column("global_tid")), False)
    crosses = crosses.to_numpy(zero_copy_only=False) & (kind == types[START_END])
    # 0 stands for "no end thread" in exports that write defaults
    crosses &= pc.fill_null(end_thread, 0).to_numpy(zero_copy_only=False) != 0
    a_range = (kind == types[PUSH_POP]) | (kind == types[START_END])
    # An export that writes defaults gives an open range the end 0.
    still_open = a_range & (end_null | (end < start))
    named = pc.is_valid(table.column("name")).to_numpy(zero_copy_only=False)
    use = a_range & ~still_open & ~crosses & named
    name = table.column("name").combine_chunks().dictionary_encode()
    index = name.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    ranges = Ranges(
        range=encoding.ints(table, "range"),
        process=encoding.ints(table, "process"),
        thread=thread.astype(np.int64, copy=False),
        start_ns=start,
        end_ns=end,
        name=index,
        domain=encoding.ints(table, "domain_id"),
        names=[str(n) for n in name.dictionary.to_pylist()],
    )
    marks = int((~a_range).sum())
    return ranges.take(use), marks, int(still_open.sum()), int((crosses & ~still_open).sum())
