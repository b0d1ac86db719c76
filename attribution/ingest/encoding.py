"""How staged and written Parquet tables are encoded: what is quick to write, read and keep small.

Times and row numbers hardly differ from row to row: as differences (DELTA_BINARY_PACKED) they take
a fraction of the time and space of plain integers. Words and names are written as a dictionary with
short indices. The other numbers repeat so much that compressing them plain costs least. A column
that is declared free of NULLs is written and read without a mark a row.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lanescope.attribution.ingest.ids import Ints

ROWS_A_GROUP = 262_144
#: Integer columns that grow from row to row, or nearly so.
_RUNNING = frozenset({"kernel", "api", "op", "start_ns", "end_ns", "launch", "correlation"})
#: Integer columns of few values that queries filter by.
_REPEATING = frozenset({"name"})


def writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A Parquet writer with an encoding chosen by column."""
    running = [f.name for f in schema if f.name in _RUNNING and pa.types.is_integer(f.type)]
    return pq.ParquetWriter(
        path,
        schema,
        compression="lz4",
        write_statistics=[n for n in ("start_ns", "end_ns", "step") if n in schema.names],
        use_dictionary=[f.name for f in schema if f.name in _REPEATING or not _number(f.type)],
        column_encoding=dict.fromkeys(running, "DELTA_BINARY_PACKED"),
    )


def _number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def write(table: pa.Table, path: Path) -> None:
    """Write a whole table; columns without a NULL are declared free of them."""
    fields = [
        f.with_nullable(c.null_count > 0) for f, c in zip(table.schema, table.columns, strict=True)
    ]
    table = pa.table(table.columns, schema=pa.schema(fields))
    with writer(path, table.schema) as out:
        out.write_table(table, row_group_size=ROWS_A_GROUP)


def read(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a table, or some columns. (`pq.read_table` would import pandas on the way.)"""
    with pq.ParquetFile(path) as staged:
        return staged.read(columns)


def ints(table: pa.Table, column: str, null: int = -1) -> Ints:
    """A column of integers; `null` stands where it has none."""
    cells = table.column(column)
    filled = pc.fill_null(cells, null) if cells.null_count else cells
    out: Ints = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return out
