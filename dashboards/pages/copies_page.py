"""The section on row copies of an attribution's page."""

from __future__ import annotations

from typing import Any

from lanescope.dashboards import copies_tables
from lanescope.dashboards.figures import copies as figures
from lanescope.dashboards.pages.rendering import plot
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.documents.closeup import Closeup
from lanescope.schemas.documents.misses import ScoreRow


def note(doc: AttributionDocument) -> str:
    """How well the counts are known, in a sentence."""
    if doc.misses is None:
        return ""
    told = {
        "exact": "The counts of missed rows can be told from the copies' durations",
        "partly": "Some counts of missed rows can be told from the copies' durations",
        "not": "The counts of missed rows cannot be told from the copies' durations",
    }[doc.misses.identifiability.verdict]
    return f"{told}: {doc.misses.identifiability.reason}"


def blocks(
    doc: AttributionDocument, close: Closeup, card: ScoreRow | None = None
) -> list[dict[str, Any]]:
    """What the section shows, in order. card: the misses against exact counts."""
    out: list[dict[str, Any]] = []

    def add(title: str, words: str, figure: Any = None, table: Any = None) -> None:
        out.append({"title": title, "words": words, "plot": figure, "table": table})

    if doc.misses and close.histogram:
        figure = plot(
            figures.levels(close.histogram, doc.misses),
            "copy-levels",
            "Histogram of copy durations with the fitted level of every count of missed rows",
        )
        words = (
            "Each line is the fitted duration of a count of missed rows; dotted ones were not seen."
        )
        add("Levels", words, figure)
    for i, found in enumerate(close.heat):
        where = f" Process {found.process}, GPU {found.device}." if len(close.heat) > 1 else ""
        bins = f" A column is {found.steps_per_bin} steps." if found.steps_per_bin > 1 else ""
        figure = plot(figures.heat(found), f"miss-heat-{i}", "Missed rows by layer and step")
        add("Misses by layer and step", f"Missed rows per layer-step.{where}{bins}", figure)
    if card is not None:
        add("", "", table=copies_tables.scorecard(card))
    for table in copies_tables.tables(doc):
        if table.rows:
            add("", "", table=table.first(500))
    return out
