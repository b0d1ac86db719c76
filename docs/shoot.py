"""Make the pictures in `docs/screenshots`: `make screenshots`. Needs chromium and playwright."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import lanescope
from lanescope.attribution.lanes import ladder as ladders
from lanescope.attribution.lanes.compare import compare
from lanescope.attribution.window import read_window
from lanescope.dashboards.pages import attribution_page
from lanescope.dashboards.pages.comparison_page import comparison_page
from lanescope.dashboards.pages.ladder_page import ladder_page
from lanescope.dashboards.pages.window_page import window_page
from lanescope.schemas.catalogue import Rung, open_catalogue
from lanescope.schemas.documents.ladder import LadderDocument

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "captures" / "samples"
RECEIPTS = HERE.parent / "captures" / "receipts"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
#: name, page, width, scheme, selector to bring to the top, height of the picture
SHOTS = (
    ("report", "report.html", 1280, "light", "", 1400),
    ("report-dark", "report.html", 1280, "dark", "", 1400),
    ("report-narrow", "report.html", 390, "light", "", 1500),
    ("report-narrow-dark", "report.html", 390, "dark", "", 1500),
    ("timeline", "report.html", 1280, "light", "#timeline", 660),
    ("copies", "report.html", 1280, "light", "#copies", 1000),
    ("compare", "compare.html", 1280, "light", "", 1500),
    ("compare-narrow", "compare.html", 390, "light", "", 1500),
    ("window", "window.html", 1280, "light", "", 1000),
    ("window-failed-narrow", "window-failed.html", 390, "dark", "", 1500),
    ("ladder", "ladder.html", 1280, "light", "", 1000),
)


def pages(folder: Path) -> None:
    """Write the pages that are photographed, from the bundled samples."""
    with lanescope.attribute(SAMPLES / "k1.sqlite.xz") as result:
        attribution_page.write(result, folder)
    found = compare(str(SAMPLES / "slots20.sqlite.xz"), str(SAMPLES / "k1.sqlite.xz"))
    (folder / "compare.html").write_text(comparison_page(found), encoding="utf-8")
    for name, window in (("window", "h200-slots44"), ("window-failed", "h200-nsys-killed")):
        text = window_page(read_window(RECEIPTS / window))
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    (folder / "ladder.html").write_text(ladder_page(_ladder(folder)), encoding="utf-8")


def _ladder(folder: Path) -> LadderDocument:
    """An example ladder: the mean steps of the bundled samples, as they were attributed."""
    walls = {}
    for name in ("slots20", "k1", "slots44", "k2"):
        with lanescope.attribute(SAMPLES / f"{name}.sqlite.xz") as result:
            wall = result.document.steps.wall_ms
            walls[name] = {"median": wall.p50, "min": wall.min, "max": wall.max, "better": "lower"}
    store = open_catalogue(str(folder / "catalogue.sqlite"))
    with store.write() as session:
        for name, change, status in (
            ("slots20", "20 slots a layer", "kept"),
            ("k1", "32 slots a layer", "kept"),
            ("slots44", "44 slots a layer", "kept"),
            ("k2", "two tokens verified a step", "reverted"),
        ):
            measured = {"step ms": walls[name]}
            rung = Rung(ladder="samples", name=name, change=change, status=status,
                        metrics=measured, difference={}, links=[], note="", because="")  # fmt: skip
            ladders.add(session, rung)
        document = ladders.read(session, "samples")
    store.close()
    return document


def shoot(browser: Any, folder: Path, shot: tuple[str, str, int, str, str, int]) -> None:
    """One picture."""
    name, file, width, scheme, selector, height = shot
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto((folder / file).as_uri())
    page.wait_for_function(
        "[...document.querySelectorAll('.plot')].every(d => !d.offsetParent || d.matches('.drawn'))"
    )
    if selector:
        page.evaluate(f"document.querySelector('{selector}').scrollIntoView()")
    page.wait_for_timeout(300)
    page.screenshot(path=HERE / "screenshots" / f"{name}.png")
    page.close()


def main() -> None:
    """All pictures."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("needs chromium (apt-get install chromium)")
    (HERE / "screenshots").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        pages(Path(folder))
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        for shot in SHOTS:
            shoot(browser, Path(folder), shot)
        browser.close()


if __name__ == "__main__":
    main()
