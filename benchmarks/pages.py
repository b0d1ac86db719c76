"""A page's build time, size and first picture: `python -m benchmarks.pages TRACE [TRACE ...]`.

Each trace is attributed twice, so that the second run is from the cache; the page's own share and
the whole command are told apart. The first plot is timed in Debian's chromium, from navigation to
a drawn figure. Limits: built in 5 s from the cache, 6 MB, first plot in 2 s.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import lanescope
from lanescope.dashboards.pages import attribution_page

LIMIT_BUILD_S, LIMIT_BYTES, LIMIT_PLOT_S = 5.0, 6_000_000, 2.0
_DRAWN = "() => document.querySelector('#step-bars .main-svg') ? performance.now() : 0"


def build(trace: Path, folder: Path) -> tuple[int, float, float, int]:
    """Kernels, seconds of attribution from the cache, seconds of the page, bytes of the page."""
    lanescope.attribute(trace).close()
    begun = time.perf_counter()
    with lanescope.attribute(trace) as result:
        attributed = time.perf_counter()
        attribution_page.write(result, folder)
        done = time.perf_counter()
        kernels = result.document.coverage.kernels
    size = (folder / attribution_page.REPORT).stat().st_size
    return kernels, attributed - begun, done - attributed, size


def first_plot(page_file: Path) -> float | None:
    """Seconds from navigation to the first figure; None without a browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(page_file.as_uri(), wait_until="commit")
        seconds = page.wait_for_function(_DRAWN, polling=10).json_value() / 1e3
        browser.close()
    return float(seconds)


def main(traces: list[str]) -> None:
    """Print one row a trace."""
    print(f"{'trace':<24}{'kernels':>12}{'attribute s':>13}{'page s':>8}{'MB':>7}{'plot s':>8}")
    for name in traces:
        with tempfile.TemporaryDirectory() as folder:
            kernels, attributed, built, size = build(Path(name), Path(folder))
            seen = first_plot(Path(folder) / attribution_page.REPORT)
        told = f"{seen:>8.2f}" if seen is not None else f"{'-':>8}"
        print(
            f"{Path(name).name:<24}{kernels:>12,}{attributed:>13.2f}{built:>8.2f}"
            f"{size / 1e6:>7.2f}{told}"
        )
    print(f"limits: {LIMIT_BUILD_S} s, {LIMIT_BYTES / 1e6} MB, {LIMIT_PLOT_S} s")


if __name__ == "__main__":
    main(sys.argv[1:] or ["captures/samples/k1.sqlite.xz"])
