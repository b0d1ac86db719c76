"""The dashboard in a real browser over a catalogue of 10,000 windows with hostile names."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lanescope.dashboards import catalogue_rows
from lanescope.schemas.catalogue.models import AttributionRow, Window
from lanescope.schemas.catalogue.store import Catalogue, open_catalogue
from lanescope.schemas.documents.livewindow import LiveGpu, LiveWindow, ProbeProgress
from tests.conftest import REPOSITORY
from tests.dashboards.conftest import HOSTILE, Report

pytest.importorskip("dash", reason="needs lanescope[dashboard]")


RUNNING = LiveWindow(
    run=HOSTILE["quotes"],
    state="profiled_probe",
    since="2026-11-30T21:26:47.696Z",
    runner_alive=True,
    touched=True,
    failsafe_fires_in_s=212.4,
    failsafe_fired=False,
    restored="",
    probe=ProbeProgress(
        phase="profiled", done=3, asked=8, in_flight=1, tokens=1234, tokens_per_s=518.4
    ),
    output=str(REPOSITORY / "captures" / "receipts" / "h200-slots44"),
)
GPU = LiveGpu(name=HOSTILE["script"], uuid="GPU-1", values={"power_mw": 250_000})


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    """10,000 windows; the last one is still running, and named by somebody unkind."""
    opened = open_catalogue(str(tmp_path_factory.mktemp("catalogue") / "c.sqlite"))
    with opened.write() as session:
        session.add_all(
            Window(run=f"w{i}", candidate="lane", state="done", outcome="done", folder="/nowhere")
            for i in range(9_999)
        )
        session.flush()
        session.add(
            Window(
                run=HOSTILE["script"], candidate=HOSTILE["rtl"], state="probe", folder="/nowhere"
            )
        )
    yield opened
    opened.close()


@pytest.fixture
def served(catalogue: Catalogue) -> Iterator[str]:
    """The dashboard on a free port."""
    from werkzeug.serving import make_server

    from lanescope.dashboards.app import make_app

    app = make_app(catalogue, lambda: [RUNNING], lambda: [GPU])
    server = make_server("127.0.0.1", 0, app.server, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


def test_rows_come_a_page_at_a_time(catalogue: Catalogue) -> None:
    with catalogue.read() as session:
        found, total = catalogue_rows.rows(session, "windows", 3, 25, "id", False)
    assert total == 10_000
    assert [r["run"] for r in found] == [f"w{i}" for i in range(75, 100)]


def test_only_loopback_names_are_answered(served: str) -> None:
    assert urllib.request.urlopen(served).status == 200
    request = urllib.request.Request(served, headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    assert refused.value.code == 403


@pytest.mark.browser
def test_lists_and_lanes_side_by_side(
    served: str, catalogue: Catalogue, browser: Any, reports: Callable[[str], Report]
) -> None:
    document = reports("k1").document
    folder = Path(reports("k1").file).parent
    (folder / "attribution.json").write_text(document.model_dump_json(by_alias=True))
    with catalogue.write() as session:
        for lane in ("one", HOSTILE["quotes"]):
            session.add(AttributionRow(lane=lane, trace_sha256="0" * 64, folder=str(folder)))
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url))
    page.goto(served)
    page.wait_for_selector("#windows td")
    assert "10,000 rows" in page.inner_text("#says-windows")
    assert HOSTILE["script"] in page.inner_text("#windows")
    assert "<U+202E>" in page.inner_text("#windows")
    page.click("text=Attributions")
    for box in page.query_selector_all("#attributions input[type=checkbox]"):
        box.click()
    page.wait_for_function(
        "() => { const g = document.querySelector('#lanes .js-plotly-plot');"
        " return g && g.data && g.data.length && g.data[0].x.length === 2; }"
    )
    data = page.evaluate(
        "document.querySelector('#lanes .js-plotly-plot').data.map(t => [t.name, [...t.x]])"
    )
    shown = dict(data)
    for bucket in document.buckets:
        assert shown[bucket.bucket] == [round(bucket.exclusive_ms_per_step, 6)] * 2
    page.click("text=Running")
    page.wait_for_selector("#running h2")
    page.wait_for_selector("#running .main-svg")
    told = page.inner_text("#running")
    assert HOSTILE["script"] in told
    assert HOSTILE["quotes"] in told
    for words in ("fires in 212 s", "3 of 8 requests", "518.4 tokens/s", "1,234", "alive"):
        assert words in told
    assert "power, W\t250" in told
    states = page.evaluate(
        "document.querySelector('#running .js-plotly-plot').layout.yaxis.ticktext"
    )
    assert states[0] == "preflight"
    assert page.evaluate("window.hacked") is None
    assert all(url.startswith((served, "data:", "blob:")) for url in asked)
    page.close()
