"""Every table of an attribution as CSV, Parquet or Markdown.

Parquet keeps names as they are; CSV and Markdown show them as text (see `names`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from lanescope.dashboards import attribution_tables
from lanescope.dashboards.names import for_markdown, for_spreadsheet, shown
from lanescope.dashboards.tables import Col, Table

if TYPE_CHECKING:
    from lanescope.attribution.attribute import Attribution

#: A spreadsheet cell holds no more characters than about this.
_MOST_IN_CELL = 32_000
_ROWS_AT_ONCE = 200_000
#: One row a kernel: too long for a document, there in the other formats.
EXECUTIONS = "kernel_executions"


def write_folder(result: Attribution, folder: Path, form: str) -> list[str]:
    """Write every table into `folder`, one file each, as `csv` or `parquet`; their names."""
    writer = {"csv": _write_csv, "parquet": _write_parquet}[form]
    written = []
    for name, schema, pieces in _sources(result):
        writer(folder / f"{name}.{form}", schema, pieces)
        written.append(name)
    return written


def write_markdown(result: Attribution, out: TextIO) -> None:
    """Every table but that of single kernels, under its title."""
    for table in [*attribution_tables.tables(result.document), *_step_tables(result)]:
        out.write(markdown(table))
    out.write("One row a kernel is left out here: export as csv or parquet.\n")


def markdown(table: Table) -> str:
    """A table as GitHub-flavoured Markdown, under its title."""
    lines = [f"## {table.title}", ""]
    if table.note:
        lines += [table.note, ""]
    lines.append("| " + " | ".join(for_markdown(c.heading) for c in table.cols) + " |")
    lines.append("| " + " | ".join("---:" if c.numeric else "---" for c in table.cols) + " |")
    for row in table.rows:
        cells = [for_markdown(c.text(v)) for c, v in zip(table.cols, row, strict=True)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n"


def _sources(
    result: Attribution,
) -> Iterator[tuple[str, pa.Schema, Iterator[pa.RecordBatch]]]:
    for table in attribution_tables.tables(result.document):
        arrow = as_arrow(table)
        yield table.id, arrow.schema, iter(arrow.to_batches())
    for name, arrow in _step_frames(result):
        yield name, arrow.schema, iter(arrow.to_batches())
    reader = result.analysis.con.sql("SELECT * FROM kernels_out").to_arrow_reader(_ROWS_AT_ONCE)
    yield EXECUTIONS, reader.schema, iter(reader)


def _step_frames(result: Attribution) -> list[tuple[str, pa.Table]]:
    from lanescope.attribution.frames import steps_table

    by_bucket = result.analysis.con.table("step_buckets").to_arrow_table()
    return [("steps", steps_table(result.analysis)), ("step_buckets", by_bucket)]


def _step_tables(result: Attribution) -> Iterator[Table]:
    for name, arrow in _step_frames(result):
        cols = [
            Col(f.name, f.name, None if pa.types.is_string(f.type) else 0) for f in arrow.schema
        ]
        rows = [list(r.values()) for r in arrow.to_pylist()]
        yield Table(name, name.replace("_", " ").capitalize(), cols, rows)


def as_arrow(table: Table) -> pa.Table:
    """The table's raw values; a column of whole numbers stays one."""
    columns = {}
    for i, col in enumerate(table.cols):
        values = [row[i] for row in table.rows]
        if not col.numeric:
            columns[col.key] = pa.array(
                [None if v is None else str(v) for v in values], pa.string()
            )
        elif all(v is None or (isinstance(v, int) and not isinstance(v, bool)) for v in values):
            columns[col.key] = pa.array(values, pa.int64())
        else:
            columns[col.key] = pa.array(
                [None if v is None else float(v) for v in values], pa.float64()
            )
    return pa.table(columns)


def _write_parquet(path: Path, schema: pa.Schema, pieces: Iterator[pa.RecordBatch]) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as out:
        for piece in pieces:
            out.write_batch(piece)


def _write_csv(path: Path, schema: pa.Schema, pieces: Iterator[pa.RecordBatch]) -> None:
    plain = pa.schema([(f.name, pa.string() if _is_text(f.type) else f.type) for f in schema])
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    with pyarrow.csv.CSVWriter(path, plain, write_options=options) as out:
        for piece in pieces:
            columns = [
                _each_name(piece.column(i), for_spreadsheet)
                if _is_text(f.type)
                else piece.column(i)
                for i, f in enumerate(schema)
            ]
            out.write_batch(pa.record_batch(columns, schema=plain))


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    )


def _each_name(column: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """The column with `change` applied to every distinct text once."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = [
        None if t is None else change(shown(t, _MOST_IN_CELL))
        for t in encoded.dictionary.to_pylist()
    ]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string())).cast(
        pa.string()
    )
