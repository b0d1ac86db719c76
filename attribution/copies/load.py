"""The row copies of an analysed trace, and what ran beside them, as frames."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from lanescope.attribution import engine
from lanescope.attribution.copies import traffic
from lanescope.attribution.copies.estimate import Stated
from lanescope.attribution.copies.mixture import Floats

if TYPE_CHECKING:
    from lanescope.attribution.attribute import Analysis

#: the exporter's words for the direction of a copy, and for page-locked memory
_KINDS = {"HTOD": "h2d", "DTOH": "d2h", "HTOA": "h2d", "ATOH": "d2h"}
_COPY_FALLBACK = {1: "h2d", 2: "d2h"}
_PINNED = re.compile("PINNED", re.IGNORECASE)
_PINNED_FALLBACK = 1
_BATCH = 1 << 20
#: A table whose columns lie in pieces.
Parts = dict[str, list[np.ndarray]]


@dataclass
class CopyTables:
    """`launches`: one row a copy of a verification step; `memory`: one row a host copy; `busy`:

    share of each copy's time in which other kernels ran.
    """

    launches: pd.DataFrame
    memory: pd.DataFrame
    busy: Floats

    def take_launches(self) -> pd.DataFrame:
        """Hand the launches over, so that they can be freed when they have been read."""
        launches, self.launches = self.launches, pd.DataFrame()
        return launches

    def take_busy(self) -> Floats:
        """Hand the shares over."""
        busy, self.busy = self.busy, np.zeros(0)
        return busy


def stated(analysis: Analysis) -> Stated:
    """What the profile says of the row copies."""
    rules = analysis.profile.row_copies
    return Stated(
        tensors=tuple(rules.tensors) or None,
        row_bytes=dict(rules.row_bytes) or None,
        layers=rules.layers,
        routed_rows=rules.routed_rows,
    )


def load(analysis: Analysis) -> Callable[[], CopyTables] | None:
    """Fetch the tables of an analysis; None when no verification step holds a row copy.

    They need the modules `attribute.PLACED` alone. What is returned puts them together, once, and
    needs DuckDB no more.
    """
    con = analysis.con
    pattern = re.compile(analysis.profile.row_copies.pattern)
    names = con.execute("SELECT name, function FROM buckets_of_names").fetchall()
    copies = [n for n, function in names if pattern.search(function)]
    con.register("copy_names", pa.table({"name": pa.array(copies, pa.int64())}))
    if not copies:
        return None
    _register_kinds(analysis)
    for module in ("launches", "between", "beside", "memory"):
        engine.run(con, f"copies/{module}")
    launches = _fetch(con.table("copy_launches"))
    if not any(map(len, launches["kernel"])):
        return None
    between = None
    if any(np.isnan(part).any() for part in launches["layer"]):
        # else the layers tell the structure, and this costs a sort
        between = _fetch(con.table("copy_between"))
    beside, memory = _fetch(con.table("copy_beside")), _fetch(con.table("copy_memory"))
    return partial(_assemble, launches, between, beside, memory)


def _assemble(launches: Parts, between: Parts | None, beside: Parts, memory: Parts) -> CopyTables:
    table = _frame(launches, order="kernel")
    if between is not None:
        table = table.merge(_frame(between), on="kernel", how="left", validate="one_to_one")
    busy = traffic.busy_share(table, _frame(beside))
    table = table.drop(columns=["own_process", "stream", "segment", "kernel"])
    return CopyTables(table, _frame(memory), busy)


def elsewhere(analysis: Analysis) -> dict[str, int]:
    """Row copies outside the verification steps, by phase; after `load`."""
    engine.run(analysis.con, "copies/elsewhere")
    found = analysis.con.execute("SELECT phase, launches FROM copy_elsewhere").fetchall()
    return {str(phase): int(count) for phase, count in found}


def _fetch(rows: duckdb.DuckDBPyRelation) -> Parts:
    """A relation, each column in pieces."""
    parts: Parts = {name: [] for name in rows.columns}
    for batch in rows.to_arrow_reader(_BATCH):
        for name, column in zip(parts, batch.columns, strict=True):
            parts[name].append(np.array(column.to_numpy(zero_copy_only=False)))
    return parts


def _frame(parts: Parts, order: str = "") -> pd.DataFrame:
    """The pieces as a frame, sorted by the column `order`, whose columns stay where they are.

    Column by column, and the pieces go: neither a sort of whole rows nor pandas' copy into one
    block.
    """
    columns: dict[str, np.ndarray] = dict.fromkeys(parts, np.zeros(0))
    place = None
    for name in sorted(parts, key=lambda n: n != order):
        some = parts.pop(name)
        column = np.concatenate(some) if some else np.zeros(0)
        if name == order and (column[1:] < column[:-1]).any():
            place = np.argsort(column, kind="stable")
        columns[name] = column if place is None else column[place]
    return pd.DataFrame(columns, copy=False)


def _register_kinds(analysis: Analysis) -> None:
    enums = analysis.staged.info.enums
    kinds = {
        int(i): _KINDS[word]
        for i, name in enums.get("copy_kind", {}).items()
        if (word := name.rsplit("_", 1)[-1].upper()) in _KINDS and "UVM" not in name
    } or _COPY_FALLBACK
    pinned = [int(i) for i, n in enums.get("memory_kind", {}).items() if _PINNED.search(n)]
    analysis.con.register(
        "copy_kinds",
        pa.table({"id": pa.array(list(kinds), pa.int64()), "kind": pa.array(list(kinds.values()))}),
    )
    analysis.con.register(
        "pinned_kinds", pa.table({"id": pa.array(pinned or [_PINNED_FALLBACK], pa.int64())})
    )
