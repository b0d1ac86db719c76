"""The one renderer of tables in the terminal.

Values arrive computed; this file only writes them. Colour appears on a terminal alone
(`NO_COLOR` and `--plain` are obeyed); piped output keeps the columns and loses the frame.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading (with the unit in it) and whether it holds numbers."""

    heading: str
    numeric: bool = True
    #: of several columns that do not fit, the ones with the higher number go first
    drop_order: int = 0


def console(file: IO[str] | None = None, plain: bool = False) -> Console:
    """A console for reports: at least 80 columns when piped, no markup in names from traces."""
    out = file or sys.stdout
    tty = out.isatty()
    return Console(
        file=out,
        markup=False,
        highlight=False,
        emoji=False,
        no_color=plain or None,
        width=None if tty else 100,
        legacy_windows=False,
    )


def table(
    title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]], con: Console
) -> None:
    """Print a table. Cells are text; a cell never wraps a number."""
    grid = Table(
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD if con.is_terminal else box.SIMPLE,
        pad_edge=False,
    )
    for col in columns:
        grid.add_column(
            col.heading,
            justify="right" if col.numeric else "left",
            no_wrap=col.numeric,
            overflow="ellipsis" if not col.numeric else "fold",
        )
    for row in rows:
        grid.add_row(*[Text(cell) for cell in row])
    con.print(grid)
