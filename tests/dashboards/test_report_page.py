"""The attribution report in a real browser: quiet, true to the document, and it works."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lanescope.attribution.attribute import Attribution
from lanescope.dashboards.pages import attribution_page
from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.units import significant
from tests.conftest import trace_path
from tests.dashboards.conftest import HOSTILE, Hostile, Opened, Report, make_report

pytestmark = pytest.mark.browser

_SHOW_ALL = """async () => {
  for (const d of document.querySelectorAll('details')) d.open = true;
  for (const div of document.querySelectorAll('.plot')) {
    div.scrollIntoView();
    await new Promise(requestAnimationFrame);
  }
}"""


def show_all(opened: Opened) -> None:
    """Scroll through the page so that every visible figure is drawn."""
    opened.page.evaluate(_SHOW_ALL)
    opened.page.wait_for_function(
        "[...document.querySelectorAll('.plot')]"
        ".every(d => !d.offsetParent || d.querySelector('.main-svg'))"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_page_is_quiet_and_fits(
    reports: Callable[[str], Report], open_page: Callable[..., Opened], width: int, scheme: str
) -> None:
    opened = open_page(reports("k1").file, width, scheme)
    show_all(opened)
    opened.quiet()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = opened.page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        ".map(c => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0))"
    )
    assert (ink > paper) == (scheme == "dark")
    drawn = opened.page.evaluate("document.getElementById('step-bars').layout.font.color")
    assert drawn == opened.page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()"
    )


@pytest.mark.parametrize(
    "name", ["eager", "mixed", "fieldlike", "graphlevel", "twoproc", "gpus_index"]
)
def test_page_of_other_traces_is_quiet(
    reports: Callable[[str], Report], open_page: Callable[..., Opened], name: str
) -> None:
    opened = open_page(reports(name).file)
    show_all(opened)
    opened.quiet()


def test_figures_carry_the_document(
    reports: Callable[[str], Report], open_page: Callable[..., Opened]
) -> None:
    report = reports("k1")
    doc = report.document
    assert doc.steps is not None
    page = open_page(report.file).page
    page.wait_for_selector("#step-bars .main-svg")
    bars = page.evaluate("document.getElementById('step-bars').data.map(t => [t.name, t.x])")
    shown = dict(bars)
    for bucket in doc.buckets:
        assert shown[bucket.bucket][0] == round(bucket.exclusive_ms_per_step, 6)
    # over the bars of a step, buckets and idle are the wall
    walls = [
        doc.steps.wall_ms.mean,
        doc.steps.wall_ms.p50,
        doc.steps.wall_ms.p95,
        doc.steps.wall_ms.max,
    ]
    for i, wall in enumerate(walls):
        assert sum(values[i] for _, values in bars) == pytest.approx(wall, abs=1e-4)
    show_all(Opened(page))
    points = page.evaluate(
        "document.getElementById('steps-over-time').data"
        ".filter(t => t.name && t.name.startsWith('wall'))"
        ".reduce((n, t) => n + t.x.length, 0)"
    )
    assert points == doc.steps.count
    cells = page.evaluate(
        "[...document.querySelectorAll('#t-buckets tbody tr')]"
        ".map(r => [r.cells[0].textContent.trim(), Number(r.cells[1].dataset.v)])"
    )
    assert dict(cells) == {b.bucket: b.exclusive_ms_per_step for b in doc.buckets}
    assert significant(doc.steps.wall_ms.mean) in page.inner_text("h1")


def test_timeline_holds_the_step(
    reports: Callable[[str], Report], open_page: Callable[..., Opened]
) -> None:
    report = reports("k1")
    opened = open_page(report.file)
    page = opened.page
    for close in report.closeup.closeups:
        page.check(f"input[value=close-{close.pick}]", force=True)
        assert page.is_visible(f"#close-{close.pick}")
        page.wait_for_selector(f"#timeline-{close.pick} .main-svg")
        hidden = [c.pick for c in report.closeup.closeups if c.pick != close.pick]
        assert not any(page.is_visible(f"#close-{pick}") for pick in hidden)
        total = page.evaluate(
            f"document.getElementById('timeline-{close.pick}').data"
            ".filter(t => t.showlegend && !t.name.startsWith('not this step'))"
            ".reduce((n, t) => n + [...t.x].reduce((a, b) => a + b, 0), 0)"
        )
        exact = sum(p.sum_ns for p in close.step.parts)
        assert total == pytest.approx(exact / 1e6, rel=1e-9)
    before = page.evaluate("[...document.getElementById('timeline-slowest').layout.xaxis.range]")
    page.focus("#close-slowest .plot")
    page.keyboard.press("+")
    after = page.evaluate("[...document.getElementById('timeline-slowest').layout.xaxis.range]")
    assert after[1] - after[0] == pytest.approx((before[1] - before[0]) / 2)
    opened.quiet()


def test_sort_search_copy(
    reports: Callable[[str], Report], open_page: Callable[..., Opened]
) -> None:
    report = reports("k1")
    opened = open_page(report.file)
    page = opened.page

    def column(table: str, index: int) -> list[str]:
        found: list[str] = page.evaluate(
            f"[...document.querySelectorAll('#t-{table} tbody tr:not([hidden])')]"
            f".map(r => r.cells[{index}].dataset.v ?? r.cells[{index}].innerText.trim())"
        )
        return found

    page.click("#t-buckets th[data-key=launches_per_step] button")
    launches = [float(v) for v in column("buckets", 6)]
    assert launches == sorted(launches, reverse=True)
    page.focus("#t-buckets th[data-key=bucket] button")
    page.keyboard.press("Enter")
    assert column("buckets", 0) == sorted(b.bucket for b in report.document.buckets)
    assert page.get_attribute("#t-buckets th[data-key=bucket]", "aria-sort") == "ascending"

    page.fill("input[aria-controls=t-kernels]", "row_copy")
    assert set(column("kernels", 1)) == {"masked_row_copy"}

    page.evaluate("navigator.clipboard.writeText = async (t) => { window.copied = t; }")
    page.click("button.copy[aria-controls=t-buckets]")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("window.copied"))))
    assert [r["bucket"] for r in rows][-2:] == ["idle", "wall"]
    told = {r["bucket"]: float(r["exclusive_ms_per_step"]) for r in rows[:-2]}
    assert told == {b.bucket: b.exclusive_ms_per_step for b in report.document.buckets}
    opened.quiet()


def test_an_odd_step_opens_from_the_figure(
    reports: Callable[[str], Report], open_page: Callable[..., Opened]
) -> None:
    report = reports("k1")
    assert report.closeup.odd
    opened = open_page(report.file)
    show_all(opened)
    page = opened.page
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = false; })")
    page.evaluate("document.getElementById('steps-over-time').scrollIntoView({block: 'center'})")
    page.evaluate(
        "document.getElementById('steps-over-time')"
        ".emit('plotly_click', {points: [{customdata: 'odd-0'}]})"
    )
    assert page.is_visible("#odd-0 .in")
    change = page.evaluate("document.getElementById('odd-bar-0').data[0].x[0]")
    assert change == round(report.closeup.odd[0].changes[0].change_ns / 1e6, 6)
    opened.quiet()


def test_hostile_names_are_text(hostile: Hostile, open_page: Callable[..., Opened]) -> None:
    opened = open_page(hostile.report.file)
    show_all(opened)
    page = opened.page
    assert page.evaluate("window.hacked") is None
    text = page.inner_text("#kernels")
    assert HOSTILE["script"] in text
    assert "abc<U+202E>gnp.exe" in text
    assert "bell␇line␊break␉tab" in text  # the reader has already replaced the NUL
    assert "(20,010 characters)" in text
    assert (
        page.evaluate("document.querySelectorAll('main script:not([type]), main img').length") == 0
    )
    # what a reader hovers over in the timeline is the name, not what markup would make of it
    page.evaluate("document.querySelector('#close-median').scrollIntoView()")
    shown = page.evaluate(
        "document.getElementById('timeline-median').data.flatMap(t => [...new Set(t.text)])"
    )
    assert any("&lt;script&gt;window.hacked=1" in t for t in shown)
    assert not any("<" in t for t in shown)
    opened.quiet()


def test_printing_is_light_and_loses_no_column(
    reports: Callable[[str], Report], open_page: Callable[..., Opened]
) -> None:
    """On the width of a sheet nothing is cut off, whatever the reader's theme."""
    opened = open_page(reports("k1").file, 740, "dark")
    show_all(opened)
    page = opened.page
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    wide = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(d => d.offsetParent)"
        ".filter(d => d.scrollWidth > d.clientWidth + 1).map(d => d.getAttribute('aria-label'))"
    )
    assert wide == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    drawn = page.evaluate("document.getElementById('step-bars').layout.font.color")
    assert drawn == "#1b2026"
    assert not page.is_visible(".bar")
    opened.quiet()


def test_a_scorecard_where_the_truth_lies_beside_the_trace(
    attributed: Callable[[str], Attribution], tmp_path: Path
) -> None:
    result = attributed("k1")
    attribution_page.write(result, tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    card = result.score(trace_path("k1").with_name("k1.truth.json"))
    exact = text.split('id="t-scorecard"')[1].split("counts told exactly")[1]
    assert f'data-v="{card.exact}"' in exact.split("</tr>")[0]
    with pytest.raises(UnusableInput):
        attribution_page.write(result, tmp_path, trace_path("eager").with_name("nothing.json"))


def test_same_bytes_again(reports: Callable[[str], Report], tmp_path: Path) -> None:
    report = reports("k1")
    again = make_report(Path(report.document.trace.path), tmp_path)
    assert again.file.read_bytes() == report.file.read_bytes()


def test_figures_are_valid_json(reports: Callable[[str], Report]) -> None:
    text = reports("k1").file.read_text(encoding="utf-8")
    parts = text.split('<script type="application/json">')[1:]
    assert len(parts) >= 5
    for part in parts:
        json.loads(part.split("</script>")[0])
