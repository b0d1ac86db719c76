"""kernels.parquet: one row a kernel execution, in order of start.

Columns (times in ns): `process` (operating-system id), `device` (physical GPU), `stream, start_ns,
end_ns, name, phase, part`, `step, layer` (NULL outside steps, and where no layer is known),
`bucket`, `graph_node` (NULL if eager), `grid_x, grid_y, grid_z`.

The same rows as the view `kernels_out`, written without a join: each column is the staged one, or
looked up by launch, segment or name in a short array. One thread looks up while another writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lanescope.attribution.ingest import encoding
from lanescope.attribution.ingest.ids import Ints

if TYPE_CHECKING:
    from lanescope.attribution.attribute import Analysis

_STAGED = (
    *("process", "device", "stream", "start_ns", "end_ns", "launch", "name", "graph_node"),
    *("grid_x", "grid_y", "grid_z"),
)
_WORD = pa.dictionary(pa.int32(), pa.string())
_TYPES = {
    "process": pa.int64(),
    "device": pa.int32(),
    "stream": pa.int64(),
    "start_ns": pa.int64(),
    "end_ns": pa.int64(),
    "name": _WORD,
    "phase": _WORD,
    "part": _WORD,
    "step": pa.int64(),
    "layer": pa.int64(),
    "bucket": _WORD,
    "graph_node": pa.int64(),
    "grid_x": pa.int64(),
    "grid_y": pa.int64(),
    "grid_z": pa.int64(),
}
_NULLABLE = frozenset({"process", "step", "layer", "graph_node"})
SCHEMA = pa.schema([pa.field(n, t, n in _NULLABLE) for n, t in _TYPES.items()])


class Writer:
    """Writes all kernels, a row group at a time; the tables it needs are read on construction."""

    def __init__(self, analysis: Analysis) -> None:
        """Read what is looked up; from then on DuckDB is not touched."""
        self._pieces = pieces(analysis)

    def write(self, path: Path) -> None:
        """Write `path`; a row group is looked up while the one before it is written."""
        with encoding.writer(path, SCHEMA) as out, ThreadPoolExecutor(1) as pool:
            pending: Future[None] | None = None
            for piece in self._pieces:
                if pending is not None:
                    pending.result()
                pending = pool.submit(out.write_table, piece)
            if pending is not None:
                pending.result()


def pieces(analysis: Analysis) -> Iterator[pa.Table]:
    """All kernels, a table a staged row group."""
    return _pieces(_LookUp(analysis), analysis.staged.folder)


def _pieces(look_up: _LookUp, folder: Path) -> Iterator[pa.Table]:
    with pq.ParquetFile(folder / "kernels.parquet") as staged:
        for group in range(staged.num_row_groups):
            yield look_up.rows(staged.read_row_group(group, columns=list(_STAGED)))


class _Words:
    """Texts by number, as an Arrow dictionary: equal texts share an entry."""

    def __init__(self, texts: list[str]) -> None:
        self._values, index = np.unique(np.array(texts, dtype=object), return_inverse=True)
        self._index = index.astype(np.int32)

    def at(self, numbers: Ints) -> pa.DictionaryArray:
        """The text of each number."""
        return pa.DictionaryArray.from_arrays(
            pa.array(self._index[numbers]), pa.array(self._values, pa.string())
        )


class _LookUp:
    """What the attribution says, in arrays by launch, segment, name and process."""

    def __init__(self, analysis: Analysis) -> None:
        assignment, host = analysis.phased.assignment, analysis.host
        segments = assignment.segments
        calls = len(host.api.start_ns)
        self._outside = len(analysis.staged.info.processes)  # its last segment: process unknown
        self._segment = np.full(calls + 1, -1, dtype=np.int32)  # the last entry is launch -1
        self._segment[host.launches.api] = assignment.segment
        self._layer = np.full(calls + 1, -1, dtype=np.int32)
        self._layer[host.launches.api] = assignment.layer
        self._step = np.array([s.step for s in segments], dtype=np.int64)
        self._phase = _Words([s.phase for s in segments])
        self._part = _Words([s.part for s in segments])
        rows = analysis.rows("SELECT name, function, bucket FROM buckets_of_names ORDER BY name")
        self._names = np.array([r["name"] for r in rows], dtype=np.int64)
        self._function = _Words([r["function"] for r in rows])
        self._bucket = _Words([r["bucket"] for r in rows])
        self._pid = np.array([p["pid"] for p in analysis.staged.info.processes] + [0], np.int64)
        self._nodes = _NodeLayers(analysis.phased.node_layers)

    def rows(self, staged: pa.Table) -> pa.Table:
        """The rows of one staged piece."""
        column = {n: staged.column(n).combine_chunks() for n in _STAGED}
        launch = column["launch"].to_numpy()
        process = column["process"].to_numpy()
        segment = self._segment[launch]
        lost = segment < 0
        if lost.any():
            segment = np.where(lost, np.where(process >= 0, process, self._outside), segment)
        name = _positions(self._names, column["name"].to_numpy())
        node = column["graph_node"].to_numpy()
        layer = self._nodes.fill(self._layer[launch].astype(np.int64), process, node)
        step = self._step[segment]
        out = {
            "process": pa.array(self._pid[process], mask=process < 0),
            "name": self._function.at(name),
            "phase": self._phase.at(segment),
            "part": self._part.at(segment),
            "step": pa.array(step, mask=step < 0),
            "layer": pa.array(layer, mask=layer < 0),
            "bucket": self._bucket.at(name),
            "graph_node": pa.array(node, mask=node == 0),
        }
        return pa.table([out.get(f.name, column.get(f.name)) for f in SCHEMA], schema=SCHEMA)


def _positions(names: Ints, wanted: Ints) -> Ints:
    """Where each name lies in `names` (sorted, all present); string ids are small numbers."""
    low = int(names[0])
    if int(names[-1]) - low > 1 << 24:
        return np.searchsorted(names, wanted)
    at = np.zeros(int(names[-1]) - low + 1, dtype=np.int64)
    at[names - low] = np.arange(len(names))
    out: Ints = at[wanted - low]
    return out


class _NodeLayers:
    """Layers of graph nodes, by process."""

    def __init__(self, node_layers: pa.Table) -> None:
        self._of: dict[int, tuple[pa.Array, Ints]] = {}
        for process in pc.unique(node_layers.column("process")).to_pylist():
            mine = node_layers.filter(pc.equal(node_layers.column("process"), process))
            self._of[process] = (
                mine.column("graph_node").combine_chunks(),
                np.append(mine.column("layer").to_numpy(), -1),
            )

    def fill(self, layer: Ints, process: Ints, node: Ints) -> Ints:
        """`layer`, and where it is -1 the layer of the row's node."""
        for of_process, (nodes, layers) in self._of.items():
            found = pc.index_in(pa.array(node), value_set=nodes).fill_null(len(nodes)).to_numpy()
            layer = np.where((layer < 0) & (process == of_process), layers[found], layer)
        return layer
