"""The section on ranks of an attribution's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lanescope.dashboards import ranks_tables
from lanescope.dashboards.figures import ranks as figures
from lanescope.dashboards.pages.rendering import plot
from lanescope.dashboards.tables import Table
from lanescope.schemas.documents.attribution import Ranks
from lanescope.schemas.documents.closeup import RankLag


def section(
    found: Ranks | None, lags: Sequence[RankLag], tables: Mapping[str, Table]
) -> dict[str, Any] | None:
    """What the section shows: a figure or none, what it says, tables. None for one rank.

    tables: those of the page, by id.
    """
    if found is None:
        return None
    words = ""
    if lags:
        words = (
            "How far each rank is behind the first one of a step: its first kernel's start (solid) "
            "and its last kernel's end (dotted)."
        )
        each = max(lag.steps_per_bin for lag in lags)
        if each > 1:
            words += f" Each point is the mean of {each} neighbouring steps."
        if found.count > len(lags):
            words += f" {len(lags)} of {found.count} ranks are drawn."
    label = "Start and end of every rank behind the first one, by step"
    return {
        "words": words,
        "plot": plot(figures.lags(lags), "rank-lags", label) if lags else None,
        "tables": [tables[i] for i in ranks_tables.IDS if i in tables and tables[i].rows],
    }
