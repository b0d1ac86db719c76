"""`report.html` of an attribution: one file that opens offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lanescope.dashboards.attribution_text import verdict_lines
from lanescope.dashboards.figures import attribution as figures
from lanescope.dashboards.pages.rendering import figure_html, render

if TYPE_CHECKING:
    from lanescope.attribution.attribute import Attribution

REPORT = "report.html"


def write(result: Attribution, folder: Path) -> None:
    """Write the page into `folder`."""
    doc = result.document
    parts = []
    if doc.steps:
        parts = [
            figure_html(figures.step_bar(doc), "step-bar"),
            figure_html(figures.steps_over_time(result.steps), "steps-over-time"),
        ]
    page = render(
        "attribution.html",
        doc=doc,
        verdict=verdict_lines(doc),
        figures=parts,
        with_plots=bool(parts),
    )
    (folder / REPORT).write_text(page, encoding="utf-8")
