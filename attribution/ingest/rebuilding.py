"""Launches for a trace without API calls: from the correlation ids that device rows share.

All kernels of one graph launch carry its correlation id, so the launches can be told apart without
their host calls. What is lost is the host: the call's name, thread and times. A rebuilt launch is
given the start of its first device row, and no thread, so that no range can claim it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lanescope.attribution.ingest.reader import Reader
from lanescope.schemas.nsight import table_specs

#: Device tables whose rows name the call that caused them.
_TABLES = ("kernels", "memcpy", "memset", "graph_runs")


def rebuilt_launches(reader: Reader) -> pa.Table:
    """The columns of the staged table `api`, one row a (process, correlation id) seen on devices.

    Ids that mean nothing (0, -1, NULL) give no launch.
    """
    first = _Firsts()
    for name in _TABLES:
        for piece in reader.pieces(table_specs()[name], by_start=False):
            first.add(piece.table)
    rows = first.rows()
    return pa.table(
        {
            "start_ns": pa.array(rows["start"]),
            "end_ns": pa.array(rows["start"]),
            "global_tid": pa.array(rows["pid"]),
            "correlation_id": pa.array(rows["correlation"]),
            "name_id": pa.nulls(len(rows), pa.int64()),
        }
    )


_ROW = np.dtype(
    [("pid", np.int64), ("no_pid", np.bool_), ("correlation", np.int64), ("start", np.int64)]
)


class _Firsts:
    """The earliest start of each (process, correlation id); 25 bytes a launch."""

    def __init__(self) -> None:
        self._kept = np.empty(0, dtype=_ROW)
        self._new: list[np.ndarray] = []
        self._waiting = 0

    def add(self, piece: pa.Table) -> None:
        valid = piece.filter(
            pc.and_kleene(
                pc.greater(piece.column("correlation_id"), 0),
                pc.greater(piece.column("start_ns"), 0),
            )
        )
        if valid.num_rows == 0:
            return
        rows = np.empty(valid.num_rows, dtype=_ROW)
        pid = valid.column("global_pid")
        rows["pid"] = pc.fill_null(pc.cast(pid, pa.int64()), 0).to_numpy()
        rows["no_pid"] = pc.is_null(pid).to_numpy()
        rows["correlation"] = valid.column("correlation_id").to_numpy()
        rows["start"] = valid.column("start_ns").to_numpy()
        self._new.append(_earliest(rows))
        self._waiting += len(self._new[-1])
        if self._waiting > max(len(self._kept), 1 << 20):  # so that merging stays linear
            self._merge()

    def rows(self) -> np.ndarray:
        """In order of start, process (unknown ones as 0) and correlation id."""
        self._merge()
        order = np.lexsort((self._kept["correlation"], self._kept["pid"], self._kept["start"]))
        return self._kept[order]

    def _merge(self) -> None:
        self._kept = _earliest(np.concatenate([self._kept, *self._new]))
        self._new, self._waiting = [], 0


def _earliest(rows: np.ndarray) -> np.ndarray:
    """One row a (process, correlation id): the one that starts first."""
    keys = ("pid", "no_pid", "correlation")
    rows = rows[np.lexsort((rows["start"], *(rows[k] for k in keys)))]
    new = np.ones(len(rows), dtype=np.bool_)
    if len(rows):
        new[1:] = np.logical_or.reduce([rows[k][1:] != rows[k][:-1] for k in keys])
    return rows[new]
