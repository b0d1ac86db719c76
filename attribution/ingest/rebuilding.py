"""Launches for a trace without API calls: from the correlation ids that device rows share.

All kernels of one graph launch carry its correlation id, so the launches can be told apart without
their host calls. What is lost is the host: the call's name, thread and times. A rebuilt launch is
given the start of its first device row, and no thread, so that no range can claim it.
"""

from __future__ import annotations

from typing import Any

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
    first: dict[tuple[Any, int], int] = {}
    for name in _TABLES:
        for piece in reader.pieces(table_specs()[name], by_start=False):
            _collect(piece, first)
    rows = sorted((start, pid, correlation) for (pid, correlation), start in first.items())
    return pa.table(
        {
            "start_ns": pa.array([r[0] for r in rows], pa.int64()),
            "end_ns": pa.array([r[0] for r in rows], pa.int64()),
            "global_tid": pa.array([r[1] or 0 for r in rows], pa.int64()),
            "correlation_id": pa.array([r[2] for r in rows], pa.int64()),
            "name_id": pa.nulls(len(rows), pa.int64()),
        }
    )


def _collect(piece: pa.Table, first: dict[tuple[Any, int], int]) -> None:
    valid = piece.filter(
        pc.and_kleene(
            pc.greater(piece.column("correlation_id"), 0), pc.greater(piece.column("start_ns"), 0)
        )
    )
    if valid.num_rows == 0:
        return
    grouped = valid.group_by(["global_pid", "correlation_id"]).aggregate([("start_ns", "min")])
    columns = (
        grouped.column(n).to_pylist() for n in ("global_pid", "correlation_id", "start_ns_min")
    )
    for pid, correlation, start in zip(*columns, strict=True):
        key = (pid, correlation)
        first[key] = min(first.get(key, np.iinfo(np.int64).max), start)
