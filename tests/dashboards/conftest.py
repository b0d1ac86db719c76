"""A real browser for the pages, and the traces they are made of."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

import lanescope
from lanescope.attribution.attribute import Attribution
from lanescope.attribution.closeup import Drawing
from lanescope.dashboards.figures.plain import Figure
from lanescope.dashboards.pages import attribution_page
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.documents.closeup import Closeup
from tests.conftest import trace_path

CHROMIUM = next((p for n in ("chromium", "chromium-browser") if (p := shutil.which(n))), None)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

#: Names that a careless view would run, break on or hide behind.
HOSTILE = {
    "script": "<script>window.hacked=1</script><img src=x onerror=window.hacked=2>",
    "quotes": "\"'`--></script><svg/onload=window.hacked=3>{{7*7}}%{y}$x$|a|",
    "long": "very_long_" + "x" * 20_000,
    "rtl": "abc\u202egnp.exe",
    "control": "nul\x00bell\x07line\nbreak\ttab",
    "formula": '=HYPERLINK("http://example.invalid";"x")',
}


@dataclass
class Opened:
    """A page in the browser, with everything it complained about or asked for."""

    page: Any
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def quiet(self) -> None:
        """Fail if the page logged anything, threw, or asked for anything."""
        assert self.console == []
        assert self.requests == []


@pytest.fixture(autouse=True, scope="session")
def plotly_checks_figures() -> Iterator[None]:
    """Every figure that a page or the dashboard draws is one that plotly's own objects accept."""
    spec = Figure.spec

    def checked(figure: Figure) -> dict[str, Any]:
        plain = spec(figure)
        go.Figure(plain)
        return plain

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "spec", checked)
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium, or a visible skip."""
    api = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")
    if CHROMIUM is None:
        pytest.skip("needs chromium (apt-get install chromium)")
    with api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Opened]]:
    """`open_page(file, width=1280, scheme="light")`: the file, with its first figures drawn."""
    pages = []

    def visit(file: Path, width: int = 1280, scheme: str = "light") -> Opened:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        pages.append(page)
        found = Opened(page)
        page.on("console", lambda m: found.console.append(m.text))
        page.on("pageerror", lambda e: found.console.append(str(e)))
        page.on(
            "request",
            lambda r: (
                None
                if r.url == file.as_uri() or r.url.startswith(("data:", "blob:"))
                else found.requests.append(r.url)
            ),
        )
        page.goto(file.as_uri())
        page.wait_for_selector("html.ready")
        return found

    yield visit
    for page in pages:
        page.close()


@dataclass
class Report:
    """A report page and the values it was made of."""

    file: Path
    document: AttributionDocument
    closeup: Closeup


def report_of(result: Attribution, folder: Path) -> Report:
    """Write the page of an attribution."""
    close = Drawing(result.analysis).closeup(result.layer_steps)
    file = folder / "report.html"
    file.write_text(attribution_page.attribution_page(result.document, close), encoding="utf-8")
    return Report(file, result.document, close)


def make_report(trace: Path, folder: Path) -> Report:
    """Attribute a trace and write its page."""
    with lanescope.attribute(trace) as result:
        return report_of(result, folder)


@pytest.fixture(scope="session")
def attributed() -> Iterator[Callable[[str], Attribution]]:
    """`attributed("k1")`: a bundled trace, attributed once for all tests. Read only."""
    with ExitStack() as stack:
        made: dict[str, Attribution] = {}

        def get(name: str) -> Attribution:
            if name not in made:
                made[name] = stack.enter_context(lanescope.attribute(trace_path(name)))
            return made[name]

        yield get


@pytest.fixture(scope="session")
def reports(
    tmp_path_factory: pytest.TempPathFactory, attributed: Callable[[str], Attribution]
) -> Callable[[str], Report]:
    """`reports("k1")`: the page of a bundled trace, made once."""
    made: dict[str, Report] = {}

    def get(name: str) -> Report:
        if name not in made:
            made[name] = report_of(attributed(name), tmp_path_factory.mktemp(name))
        return made[name]

    return get


@dataclass
class Hostile:
    """A trace with hostile names, attributed, and its page."""

    result: Attribution
    report: Report


@pytest.fixture(scope="session")
def hostile(hostile_trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    """The hostile trace, attributed once."""
    with lanescope.attribute(hostile_trace) as result:
        yield Hostile(result, report_of(result, tmp_path_factory.mktemp("hostile-page")))


@pytest.fixture(scope="session")
def hostile_trace(
    unpacked: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """`k1` whose kernels, ranges, processes and file bear hostile names."""
    folder = tmp_path_factory.mktemp("hostile")
    target = folder / "<b onmouseover=alert(1)>&'.sqlite"
    shutil.copy(unpacked("k1"), target)
    con = sqlite3.connect(target)
    ids = [
        row[0]
        for row in con.execute(
            "SELECT shortName FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1 ORDER BY count(*) DESC"
        )
    ]
    for text, string in zip(HOSTILE.values(), ids[2:], strict=False):
        con.execute("UPDATE StringIds SET value = ? WHERE id = ?", (text, string))
    for text, name in zip(
        HOSTILE.values(),
        ("request_0", "request_1", "request_2", "request_3", "layer_0"),
        strict=False,
    ):
        con.execute("UPDATE NVTX_EVENTS SET text = ? WHERE text = ?", (text, name))
        con.execute("UPDATE StringIds SET value = ? WHERE value = ?", (text, name))
    con.execute("UPDATE TARGET_INFO_GPU SET name = ?", (HOSTILE["script"],))
    con.commit()
    con.close()
    return target
