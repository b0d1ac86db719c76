"""Make the pictures in `docs/screenshots`: `make screenshots`. Needs chromium and playwright."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import lanescope
from lanescope.attribution.lanes.compare import compare
from lanescope.dashboards.pages import attribution_page
from lanescope.dashboards.pages.comparison_page import comparison_page

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "captures" / "samples"
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
)


def pages(folder: Path) -> None:
    """Write the pages that are photographed, from the bundled samples."""
    with lanescope.attribute(SAMPLES / "k1.sqlite.xz") as result:
        attribution_page.write(result, folder)
    found = compare(str(SAMPLES / "slots20.sqlite.xz"), str(SAMPLES / "k1.sqlite.xz"))
    (folder / "compare.html").write_text(comparison_page(found), encoding="utf-8")


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
