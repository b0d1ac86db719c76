"""The one renderer of the terminal: tables and sentences, whatever the width.

Values arrive computed; this file only writes them. Colour appears on a terminal alone
(`NO_COLOR` and `--plain` are obeyed); piped output keeps the columns and loses the frame.
Nothing is wider than the terminal, or than `COLUMNS` (80 where neither says) when piped.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import IO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Whether the command line asked for plain output; the verbs' own `--plain` says it too.
PLAIN: ContextVar[bool] = ContextVar("plain", default=False)

_NARROWEST = 40
#: a column of text may be squeezed to this before a column of numbers has to go
_TEXT_LEAST = 14
_GAP = 2


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading (with the unit in it) and whether it holds numbers."""

    heading: str
    numeric: bool = True
    #: of several columns that do not fit, the ones with the higher number go first
    drop_order: int = 0


class ReportConsole(Console):
    """A console that knows whether it is to be plain: no colour, no lines."""

    plain = False


def console(file: IO[str] | None = None, plain: bool = False) -> ReportConsole:
    """A console for reports; no markup in names from traces."""
    out = file or sys.stdout
    plain = plain or PLAIN.get()
    found = ReportConsole(
        file=out,
        markup=False,
        highlight=False,
        emoji=False,
        no_color=plain or None,
        color_system=None if plain else "auto",
        width=None if out.isatty() else _piped_width(),
        legacy_windows=False,
    )
    found.plain = plain
    return found


def _piped_width() -> int:
    try:
        return max(_NARROWEST, int(os.environ.get("COLUMNS", "")))
    except ValueError:
        return 80


def sentence(con: Console, text: str | Text, style: str = "") -> None:
    """Print a sentence, broken between words; a path or a hash is never broken."""
    if isinstance(text, Text):
        style = style or str(text.style)
    for line in str(text).splitlines() or [""]:
        inside = line[: len(line) - len(line.lstrip())]
        wrapped = textwrap.wrap(
            line.strip(),
            con.width,
            initial_indent=inside,
            subsequent_indent=inside + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for part in wrapped or [""]:
            con.print(Text(part, style=style), soft_wrap=True)


def table(
    title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]], con: Console
) -> None:
    """Print a table. Cells are text; a cell never wraps a number.

    Where the columns do not fit, some are left out (see `Column.drop_order`) and named below.
    """
    kept, dropped = _fitting(columns, rows, con.width)
    plain = getattr(con, "plain", False)
    grid = Table(
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        box=None if plain else box.SIMPLE_HEAD,
        padding=(0, 1) if plain else (0, 0, 0, 1),
        pad_edge=False,
        show_edge=False,
    )
    for i in kept:
        col = columns[i]
        grid.add_column(
            col.heading,
            justify="right" if col.numeric else "left",
            no_wrap=col.numeric,
            overflow="fold" if col.numeric else "ellipsis",
        )
    for row in rows:
        grid.add_row(*[Text(row[i]) for i in kept])
    con.print()
    con.print(grid)
    if dropped:
        names = ", ".join(columns[i].heading for i in dropped)
        sentence(con, f"Not shown at this width: {names}.")
    con.print()


def _fitting(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> tuple[list[int], list[int]]:
    """Which columns fit side by side, and which have to go. The first one always stays."""
    least = [_least(col, [row[i] for row in rows]) for i, col in enumerate(columns)]
    kept = list(range(len(columns)))
    dropped: list[int] = []
    while len(kept) > 1 and sum(least[i] for i in kept) + _GAP * (len(kept) - 1) > width:
        goes = max(kept[1:], key=lambda i: (columns[i].drop_order, i))
        kept.remove(goes)
        dropped.append(goes)
    return kept, sorted(dropped)


def _least(col: Column, cells: Sequence[str]) -> int:
    """How narrow a column can be: numbers whole, text down to a few characters."""
    if col.numeric:
        return max(cell_len(text) for text in (col.heading, *cells))
    words = (word for text in (col.heading, *cells) for word in text.split())
    return min(_TEXT_LEAST, max((cell_len(word) for word in words), default=1))
