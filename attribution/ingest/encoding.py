"""How staged and written Parquet tables are encoded: what is quick to write, read and keep small.

Times and row numbers hardly differ from row to row: as differences (DELTA_BINARY_PACKED) they take
a fraction of the time and space of plain integers. Columns of few values (names, grids, streams)
are written as a dictionary with short indices.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_A_GROUP = 262_144
#: Integer columns that grow from row to row, or nearly so.
_RUNNING = frozenset({"kernel", "api", "op", "start_ns", "end_ns", "launch", "correlation"})


def writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A Parquet writer with an encoding chosen by column."""
    running = [f.name for f in schema if f.name in _RUNNING and pa.types.is_integer(f.type)]
    return pq.ParquetWriter(
        path,
        schema,
        compression="lz4",
        write_statistics=[n for n in ("start_ns", "end_ns", "step") if n in schema.names],
        use_dictionary=[f.name for f in schema if f.name not in running],
        column_encoding=dict.fromkeys(running, "DELTA_BINARY_PACKED"),
    )


def write(table: pa.Table, path: Path) -> None:
    """Write a whole table."""
    with writer(path, table.schema) as out:
        out.write_table(table, row_group_size=ROWS_A_GROUP)


def read(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a table, or some columns. (`pq.read_table` would import pandas on the way.)"""
    with pq.ParquetFile(path) as staged:
        return staged.read(columns)
