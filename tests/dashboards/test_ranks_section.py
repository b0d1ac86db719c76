"""The section on ranks in a real browser: the document's figures, one line a rank, quiet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lanescope.dashboards import ranks_tables
from tests.dashboards.conftest import Opened, Report

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_ranks_are_shown_as_they_are(
    reports: Callable[[str], Report], open_page: Callable[..., Opened], width: int, scheme: str
) -> None:
    report = reports("gpus_index")
    ranks = report.document.ranks
    assert ranks is not None
    opened = open_page(report.file, width, scheme)
    page = opened.page
    page.evaluate("document.querySelector('#ranks').scrollIntoView()")
    page.wait_for_selector("#rank-lags .main-svg")
    opened.quiet()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for table in ranks_tables.tables(ranks):
        if not table.rows:
            continue
        shown = page.evaluate(
            f"[...document.querySelectorAll('#t-{table.id} tr:has(td)')]"
            ".map(r => [...r.cells].map(c => c.dataset.v ?? c.innerText.trim()))"
        )
        assert shown == [["" if v is None else str(v) for v in row] for row in table.rows]


def test_lines_are_each_rank_behind_the_first(
    reports: Callable[[str], Report], open_page: Callable[..., Opened]
) -> None:
    report = reports("gpus_index")
    ranks = report.document.ranks
    assert ranks is not None
    page = open_page(report.file).page
    page.evaluate("document.querySelector('#ranks').scrollIntoView()")
    page.wait_for_selector("#rank-lags .main-svg")
    lines = page.evaluate("document.getElementById('rank-lags').data.map(t => [t.name, t.y])")
    assert len(lines) == 2 * ranks.count
    for what, skews in (
        ("start", [s.start_skew_ns for s in ranks.steps]),
        ("end", [s.end_skew_ns for s in ranks.steps]),
    ):
        each = zip(*(y for name, y in lines if name.endswith(what)), strict=True)
        # one rank is the first, the other behind it by the skew
        assert [sorted(pair) for pair in each] == [[0, round(s / 1e6, 6)] for s in skews]


def test_one_rank_has_no_section(reports: Callable[[str], Report]) -> None:
    text = reports("k1").file.read_text(encoding="utf-8")
    assert 'id="ranks"' not in text
    assert 'href="#ranks"' not in text
