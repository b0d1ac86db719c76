"""Tables as data: one model, written by every view (page, terminal, Markdown, CSV, Parquet).

Values stay raw (integers of nanoseconds where the document has them); a column knows its unit, its
scale and how many decimals a reader wants. Nothing is computed here but the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Value = str | int | float | bool | None


@dataclass(frozen=True)
class Col:
    """A column. `key` names it in CSV and Parquet (unit included), `heading` in views."""

    key: str
    heading: str
    #: decimals of a number; None: text
    decimals: int | None = None
    #: a value is divided by this when shown: 1e6 turns ns into ms
    scale: float = 1
    percent: bool = False
    hint: str = ""

    @property
    def numeric(self) -> bool:
        """Whether the column holds numbers."""
        return self.decimals is not None

    def text(self, value: Value) -> str:
        """A value as a reader sees it; `-` where there is none."""
        if value is None:
            return "-"
        if self.decimals is None or isinstance(value, str):
            return str(value)
        if self.percent:
            return _no_minus_zero(f"{value:.{self.decimals}%}")
        return _no_minus_zero(f"{value / self.scale:,.{self.decimals}f}")


def _no_minus_zero(text: str) -> str:
    """What rounds to nothing has no sign."""
    return text.lstrip("-") if not text.strip("-0.,%") else text


@dataclass(frozen=True)
class Table:
    """A table; `id` is stable and names its file when exported."""

    id: str
    title: str
    cols: Sequence[Col]
    rows: Sequence[Sequence[Value]]
    note: str = ""
    #: rows at the end that are sums of the others: they stay last when sorted
    foot: int = 0
    #: rows that exist, where not all are in `rows`
    total: int | None = None
    swatches: dict[str, str] = field(default_factory=dict)
    #: rows that were taken back: shown struck through
    struck: frozenset[int] = frozenset()

    def first(self, most: int) -> Table:
        """The table cut to its first rows, saying so."""
        if len(self.rows) <= most:
            return self
        note = f"{self.note} The first {most:,} of {len(self.rows):,} rows; all are in the export."
        return Table(
            self.id,
            self.title,
            self.cols,
            self.rows[:most],
            note.strip(),
            0,
            len(self.rows),
            self.swatches,
            self.struck,
        )
