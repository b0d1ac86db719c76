"""`ladder.html`: every rung, who was incumbent, what was taken back. Nothing leaves the record."""

from __future__ import annotations

from lanescope.dashboards import ladders
from lanescope.dashboards.figures import ladder as figures
from lanescope.dashboards.pages.blocks import Block, Tile, page
from lanescope.dashboards.pages.rendering import plot
from lanescope.dashboards.tables import Col, Table, Value
from lanescope.schemas.documents.ladder import LadderDocument
from lanescope.schemas.units import significant


def ladder_page(doc: LadderDocument) -> str:
    """The page as text: the same bytes for the same document."""
    drawn = figures.rungs(doc)
    told = "The primary metric of every rung"
    plots = [plot(drawn, "ladder-rungs", told)] if drawn else []
    return page(
        f"Ladder {doc.ladder}",
        f"Rule: {doc.rule}",
        [
            Block("rungs", "Rungs", "", plots, [_rungs(doc)]),
            Block("metrics", "Metrics", tables=[_metrics(doc)]),
            Block("record", "Record", tables=[_record(doc)]),
            Block("incumbents", "Incumbents", tables=[_incumbents(doc)]),
        ],
        tiles=_tiles(doc),
    )


def _tiles(doc: LadderDocument) -> list[Tile]:
    taken = sum(r.retracted for r in doc.rungs)
    kept = sum(r.status == "kept" and not r.retracted for r in doc.rungs)
    note = f"{kept} kept, {taken} retracted"
    out = [Tile("Rungs", str(len(doc.rungs)), "", note)]
    if doc.incumbents:
        last = doc.incumbents[-1]
        value = "-" if last.value is None else significant(last.value)
        out.append(Tile("Incumbent", value, "", last.name))
    if doc.total_gain_pct is not None:
        out.append(
            Tile(
                "Total gain",
                f"{doc.total_gain_pct:+.1f}",
                "%",
                f"in {doc.primary}, against {doc.incumbents[0].name}",
            )
        )
    return out


def _rungs(doc: LadderDocument) -> Table:
    """One row a rung."""
    names = ladders.names_of(doc)
    cols = [
        Col("number", "#", 0),
        Col("rung", "rung"),
        Col("change", "change"),
        *[Col(f"metric_{i}", name) for i, name in enumerate(names)],
        Col("verdict", "verdict"),
        Col("standing", "standing"),
    ]
    rows: list[list[Value]] = [
        [
            r.number,
            r.name,
            r.change,
            *[ladders.metric(r.metrics.get(n)) for n in names],
            ladders.verdict(r),
            r.standing,
        ]
        for r in doc.rungs
    ]
    struck = frozenset(i for i, r in enumerate(doc.rungs) if r.retracted)
    note = "Median (smallest to largest) of n repetitions. Retracted rungs stay, struck through."
    return Table("rungs", "Rungs", cols, rows, note, struck=struck)


def _metrics(doc: LadderDocument) -> Table:
    """One row a rung and metric, for sorting and copying."""
    cols = (
        Col("number", "#", 0),
        Col("rung", "rung"),
        Col("metric", "metric"),
        Col("median", "median", 3),
        Col("min", "smallest", 3),
        Col("max", "largest", 3),
        Col("n", "n", 0),
        Col("unit", "unit"),
        Col("better", "better"),
    )
    rows: list[list[Value]] = [
        [r.number, r.name, name, m.median, m.min, m.max, m.n, m.unit or None, m.better]
        for r in doc.rungs
        for name, m in r.metrics.items()
    ]
    return Table("metrics", "Metrics", cols, rows)


def _record(doc: LadderDocument) -> Table:
    """One row a thing that was said of a rung, in order."""
    cols = (Col("number", "#", 0), Col("rung", "rung"), Col("said", "record"))
    rows: list[list[Value]] = [
        [r.number, r.name, line] for r in doc.rungs for line in ladders.words(r)
    ]
    return Table("record", "Record", cols, rows)


def _incumbents(doc: LadderDocument) -> Table:
    """One row a reign."""
    cols = (Col("number", "#", 0), Col("name", "incumbent"), Col("value", doc.primary or "-", 4))
    rows: list[list[Value]] = [[i.number, i.name, i.value] for i in doc.incumbents]
    return Table("incumbents", "Incumbents", cols, rows)
