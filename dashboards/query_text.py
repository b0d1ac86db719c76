"""The rows of a query: in the terminal, as JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from typing import IO, Any

import pyarrow as pa
from rich.console import Console

from lanescope.dashboards.terminal import Column, sentence, table

#: Rows that the terminal shows; the other forms have all.
MOST_ROWS = 200


def views(known: Mapping[str, str], con: Console) -> None:
    """Print the views."""
    columns = [Column("view", numeric=False), Column("one row a", numeric=False)]
    table("", columns, [[name, what] for name, what in known.items()], con)


def show(rows: pa.Table, con: Console) -> None:
    """Print the first rows as a table."""
    numeric = [_is_number(f.type) for f in rows.schema]
    columns = [Column(n, numeric=k) for n, k in zip(rows.column_names, numeric, strict=True)]
    first = rows.slice(0, MOST_ROWS).to_pylist()
    cells = [[_cell(v) for v in row.values()] for row in first]
    table("", columns, cells, con)
    if rows.num_rows > MOST_ROWS:
        sentence(con, f"The first {MOST_ROWS} of {rows.num_rows:,} rows; --csv or --json has all.")


def write(rows: pa.Table, form: str, out: IO[str]) -> None:
    """Write all rows as `json`, `csv` or `markdown`."""
    names = rows.column_names
    if form == "json":
        out.write(json.dumps(rows.to_pylist(), indent=1, default=str) + "\n")
        return
    lines = ([_text(v) for v in row.values()] for row in rows.to_pylist())
    if form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(lines)
        return
    out.write("| " + " | ".join(names) + " |\n|" + " --- |" * len(names) + "\n")
    for line in lines:
        cells = (c.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for c in line)
        out.write("| " + " | ".join(cells) + " |\n")


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 100 else f"{value:,.1f}"
    return " ".join(str(value).split())
