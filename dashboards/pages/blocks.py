"""Pages that are a title, tiles and a list of blocks: words, figures, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lanescope.dashboards.pages.rendering import Plot, render
from lanescope.dashboards.tables import Table

#: Rows of a table that a page holds.
MOST_ROWS = 1000


#: what is to be said, what to do about it; True: withheld or said for completeness, no alarm
Notice = tuple[str, str] | tuple[str, str, bool]


@dataclass(frozen=True)
class Tile:
    """A figure that a reader looks for first."""

    name: str
    value: str
    unit: str = ""
    note: str = ""


@dataclass
class Block:
    """One section. `id` is its anchor; one without stands in no navigation."""

    id: str
    title: str
    words: str = ""
    plots: list[Plot] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def page(
    title: str,
    lead: str,
    blocks: Sequence[Block],
    notices: Sequence[Notice] = (),
    tiles: Sequence[Tile] = (),
    card: Sequence[tuple[str, str]] = (),
) -> str:
    """The page as text. Sections with nothing in them are left out."""
    shown = []
    for block in blocks:
        block.tables = [t.first(MOST_ROWS) for t in block.tables if t.rows]
        if block.tables or block.plots or block.words:
            shown.append(block)
    return render(
        "blocks.html",
        with_plots=any(b.plots for b in shown),
        title=title,
        lead=lead,
        blocks=shown,
        notices=notices,
        tiles=tiles,
        card=card,
    )
