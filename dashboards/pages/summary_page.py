"""`report.html` of a kernel summary: no timeline, so tables alone."""

from __future__ import annotations

from lanescope.dashboards.pages.rendering import render
from lanescope.dashboards.summary_text import verdict_lines
from lanescope.schemas.documents.attribution import AttributionDocument


def summary_page(doc: AttributionDocument) -> str:
    """The page as text: the same bytes for the same values."""
    return render("summary.html", doc=doc, verdict=verdict_lines(doc), with_plots=False)
