"""Every other page in a real browser: quiet, within its width, true to its document, at work."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lanescope.attribution.lanes.compare import compare
from lanescope.attribution.lanes.probes import read_lane
from lanescope.attribution.lanes.speed import compare_speed
from lanescope.attribution.window import read_window
from lanescope.dashboards.figures.lanes import lanes_bar
from lanescope.dashboards.pages.comparison_page import comparison_page
from lanescope.dashboards.pages.ladder_page import ladder_page
from lanescope.dashboards.pages.speed_page import gate_page, speed_page
from lanescope.dashboards.pages.window_page import window_page
from lanescope.profiler.cli.main import main
from lanescope.schemas.documents.comparison import ComparisonDocument
from lanescope.schemas.documents.gate import GateDocument
from lanescope.schemas.documents.ladder import LadderDocument
from tests.conftest import REPOSITORY, SAMPLES
from tests.dashboards.conftest import HOSTILE, Opened, Report
from tests.dashboards.test_report_page import show_all

pytestmark = pytest.mark.browser

RECEIPTS = REPOSITORY / "captures" / "receipts"
GOOD, KILLED = RECEIPTS / "h200-slots44", RECEIPTS / "h200-nsys-killed"
PROBE = "probe-control.requests.jsonl"
NAMES = ("compare", "three", "speed", "gate", "ladder", "window", "killed", "partial", "replay",
         "summary")  # fmt: skip


def _run(*args: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    assert ended.value.code in (0, None, 10, 11, 12)


@dataclass
class Pages:
    """The pages, and what they were made of."""

    folder: Path
    made: dict[str, Any] = field(default_factory=dict)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.html"

    def write(self, name: str, text: str, made: Any = None) -> None:
        self.file(name).write_text(text, encoding="utf-8")
        self.made[name] = made


def _traces(*names: str) -> list[str]:
    return [str(SAMPLES / f"{n}.sqlite.xz") for n in names]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """All of them, made once."""
    out = Pages(tmp_path_factory.mktemp("pages"))
    two = compare(*_traces("k1", "k2"))
    out.write("compare", comparison_page(two), two)
    three = compare(*_traces("slots20", "k1", "slots44"), axis=("slots", [20, 32, 44]))
    out.write("three", comparison_page(three), three)
    speed = compare_speed([read_lane(str(KILLED / PROBE))], read_lane(str(GOOD / PROBE)))
    out.write("speed", speed_page(speed), speed)
    out.write("window", window_page(read_window(GOOD)), read_window(GOOD))
    out.write("killed", window_page(read_window(KILLED)), read_window(KILLED))
    partial = Path(shutil.copytree(GOOD, out.folder / "partial"))
    (partial / "manifest.json").unlink()
    for receipt in sorted((partial / "receipts").glob("*.json"))[9:]:
        receipt.unlink()
    (partial / "probe-control.json").write_text('{"half')
    out.write("partial", window_page(read_window(partial)), read_window(partial))
    _ladder(out)
    _gate(out)
    routing = str(out.folder / "routing.parquet")
    sizes = "--tokens 400 --layers 3 --experts 16 --top-k 2 --tokens-per-step 2"
    _run("replay", "generate", routing, *sizes.split())
    _run("replay", "run", routing, "--slots", "6", "--html", str(out.file("replay")))
    rows = [
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    ]
    rows += [f"50.0,{n}000,{n},1000.0,1000.0,900,1100,10.0,kernel_{n}" for n in (240, 480)]
    table = out.folder / "kernels.csv"
    table.write_text("\n".join(rows) + "\n")
    _run("attribute", str(table), "--out", str(out.folder / "summary"), "--steps", "10")
    shutil.copy(out.folder / "summary" / "report.html", out.file("summary"))
    return out


def _ladder(out: Pages) -> None:
    url = str(out.folder / "c.sqlite")
    common = ("--status", "kept", "--catalogue", url)
    for name, values in (("one", "10,11,12"), ("two", "14,15,16"), ("gone", "20,21,22")):
        _run("ladder", "add", name, "--change", name, f"--values=rate={values}", *common)
    _run("ladder", "retract", "gone", "--why", "wrong model", "--catalogue", url)
    document = out.folder / "ladder.json"
    show = ("ladder", "show", "--catalogue", url)
    _run(*show, "--json", "--out", str(document))
    _run(*show, "--format", "html", "--out", str(out.file("ladder")))
    out.made["ladder"] = LadderDocument.model_validate_json(document.read_text())


def _gate(out: Pages) -> None:
    rules = out.folder / "rules.toml"
    rules.write_text(
        'name = "faster"\n[[bar]]\nname = "rate"\nmetric = "decode_rate"\n'
        'direction = "at_least"\nthreshold = 5.0\n'
    )
    document = out.folder / "gate.json"
    written = ("--out", str(document), "--html", str(out.file("gate")))
    _run("gate", str(rules), str(KILLED / PROBE), str(GOOD / PROBE), "--post-hoc", *written)
    out.made["gate"] = GateDocument.model_validate_json(document.read_text())


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", NAMES)
def test_page_is_quiet_and_fits(
    pages: Pages, open_page: Callable[..., Opened], name: str, width: int
) -> None:
    """In light, and, as the reader's system changes, in dark."""
    opened = open_page(pages.file(name), width, "light")
    show_all(opened)
    for scheme in ("light", "dark"):
        opened.page.emulate_media(color_scheme=scheme)
        opened.page.wait_for_selector(f"html[data-theme={scheme}]")
        opened.quiet()
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        colours = opened.page.evaluate(
            "[...document.querySelectorAll('.plot.drawn > div')].map(d => d.layout.font.color)"
        )
        ink = opened.page.evaluate(
            "getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()"
        )
        assert set(colours) <= {ink}
    ids = opened.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def figure(opened: Opened, name: str) -> list[dict[str, Any]]:
    """The traces of a figure as the browser holds them: plain lists, whatever plotly packed."""
    found: list[dict[str, Any]] = opened.page.evaluate(
        f"document.getElementById('{name}').data.map(t => ({{name: t.name, type: t.type,"
        " x: t.x && [...t.x], y: t.y && [...t.y], base: t.base && [...t.base]}))"
    )
    return found


def column(opened: Opened, table: str, key: str) -> list[str]:
    """A table's column: raw values of numbers, text of the rest."""
    found: list[str] = opened.page.evaluate(
        f"""(() => {{ const t = document.getElementById('t-{table}');
        const at = [...t.tHead.rows[0].cells].findIndex(h => h.dataset.key === '{key}');
        return [...t.tBodies[0].rows].map(r => r.cells[at])
            .map(c => c.dataset.v ?? c.innerText.trim());
        }})()"""
    )
    return found


def test_comparison_carries_its_document(pages: Pages, open_page: Callable[..., Opened]) -> None:
    doc = pages.made["three"]
    opened = open_page(pages.file("three"))
    show_all(opened)
    for number, pair in enumerate(doc.pairs):
        fall = figure(opened, f"waterfall-{number}")[0]
        assert fall["y"][0] == pytest.approx(pair.waterfall.from_ns / 1e6)
        assert fall["y"][-1] == pytest.approx(pair.waterfall.to_ns / 1e6)
        assert sum(fall["y"][:-1]) == pytest.approx(fall["y"][-1], abs=1e-5)
        assert figure(opened, f"deltas-{number}")[0]["x"] == pytest.approx(
            [d.delta_ms for d in pair.deltas], abs=1e-6
        )
        told = [float(v) for v in column(opened, f"deltas_{number}", "delta_ms")]
        assert told == [d.delta_ms for d in pair.deltas]
    spread = figure(opened, "distributions")
    for lane, drawn in zip(doc.lanes, spread, strict=True):
        assert drawn["x"] == pytest.approx(lane.wall_quantiles_ms, abs=1e-6)
        assert (drawn["y"][0], drawn["y"][-1]) == (0, 100)
        assert lane.wall_quantiles_ms == sorted(lane.wall_quantiles_ms)
    points = sorted(doc.trend.points, key=lambda p: p.x)
    assert figure(opened, "trend-wall")[0]["y"] == [p.wall_ms for p in points]


def test_speed_and_gate_carry_their_documents(
    pages: Pages, open_page: Callable[..., Opened]
) -> None:
    for name, speed in (("speed", pages.made["speed"]), ("gate", pages.made["gate"].speed)):
        opened = open_page(pages.file(name))
        show_all(opened)
        for number, metric in enumerate(speed.metrics):
            gains = sorted(p.gain_pct for p in metric.prompts)
            assert figure(opened, f"gains-{number}")[0]["y"] == pytest.approx(gains, abs=1e-6)
            sides = {t["name"]: t["x"][1:] for t in figure(opened, f"spread-{number}")}
            for side in ("base", "candidate"):
                values = sorted(getattr(p, side) for p in metric.prompts)
                assert sides[side] == pytest.approx(values, abs=1e-6)
    doc = pages.made["gate"]
    assert [float(v) for v in column(opened, "bars", "value")] == [b.value for b in doc.bars]
    assert column(opened, "bars", "verdict") == [b.verdict for b in doc.bars]


def test_ladder_carries_its_document(pages: Pages, open_page: Callable[..., Opened]) -> None:
    doc = pages.made["ladder"]
    opened = open_page(pages.file("ladder"))
    show_all(opened)
    drawn = {t["name"]: t["y"] for t in figure(opened, "ladder-rungs")}
    assert drawn["retracted"] == [21]
    assert drawn["became the incumbent"] == [11, 15]
    assert column(opened, "rungs", "rung") == [r.name for r in doc.rungs]
    struck = opened.page.evaluate(
        "[...document.querySelectorAll('tr.struck')].map(r => r.cells[1].innerText)"
    )
    assert struck == ["gone"]


def test_window_carries_its_folder(pages: Pages, open_page: Callable[..., Opened]) -> None:
    record = pages.made["window"]
    opened = open_page(pages.file("window"))
    show_all(opened)
    seconds = {r.state: r.seconds for r in record.receipts}
    assert [float(v) for v in column(opened, "states", "seconds")] == list(seconds.values())
    bars = [t for t in figure(opened, "states-over-time") if t["name"] == "experiment"]
    mine = [s for s in record.spans if s.part == "experiment"]
    assert bars[0]["x"] == pytest.approx([(s.to_ns - s.from_ns) / 1e9 for s in mine], abs=1e-6)
    assert bars[0]["base"] == pytest.approx(
        [(s.from_ns - record.from_ns) / 1e9 for s in mine], abs=1e-6
    )
    power = [s.columns["power_mw"][i] for s in record.gpu for i in range(len(s.unix_ns))]
    assert [int(v) for v in column(opened, "gpu", "power_mw")] == power
    drawn = figure(opened, "gpu-over-time")
    assert [v for v in drawn[1]["y"] if v is not None] == pytest.approx([p / 1e3 for p in power])
    rates = [r.decode_tokens_per_s for p in record.probes for r in p.requests]
    assert [v for t in figure(opened, "probe-requests") for v in t["x"]] == rates


def test_what_a_broken_window_says(pages: Pages, open_page: Callable[..., Opened]) -> None:
    text = open_page(pages.file("killed")).page.inner_text("main")
    assert "Window fault-nsys: failed" in text
    assert "profiled_probe failed" in text
    assert "the candidate died in the probe" in text
    text = open_page(pages.file("partial")).page.inner_text("main")
    assert "Window slots44: not closed" in text
    assert "No receipt says that the incumbent serves again" in text
    assert "probe-control.json" in text


@pytest.mark.parametrize(
    ("name", "table", "key"),
    [("compare", "deltas_0", "delta_ms"), ("ladder", "metrics", "median"),
     ("window", "states", "seconds"), ("speed", "prompts_0", "gain_pct")],
)  # fmt: skip
def test_tables_sort_and_copy(
    pages: Pages, open_page: Callable[..., Opened], name: str, table: str, key: str
) -> None:
    opened = open_page(pages.file(name))
    page = opened.page
    before = [float(v) for v in column(opened, table, key)]
    page.click(f"#t-{table} th[data-key={key}] button")
    assert [float(v) for v in column(opened, table, key)] == sorted(before, reverse=True)
    page.click(f"#t-{table} th[data-key={key}] button")
    assert [float(v) for v in column(opened, table, key)] == sorted(before)
    page.evaluate("navigator.clipboard.writeText = async (t) => { window.copied = t; }")
    page.click(f"button.copy[aria-controls=t-{table}]")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("window.copied"))))
    assert [float(r[key]) for r in rows] == sorted(before)
    opened.quiet()


def _hostile(value: Any, names: dict[str, str]) -> Any:
    """A document with its names replaced, wherever they stand."""
    if isinstance(value, dict):
        return {k: _hostile(v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [_hostile(v, names) for v in value]
    return names.get(value, value) if isinstance(value, str) else value


def _quiet_and_text(opened: Opened, *kinds: str) -> None:
    show_all(opened)
    page = opened.page
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('main img, main svg[onload]').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    text = page.inner_text("main")
    for kind in kinds:
        assert {"rtl": "abc<U+202E>gnp.exe", "control": "nul␀bell␇line␊break␉tab",
                "long": "(20,010 characters)"}.get(kind, HOSTILE[kind]) in text  # fmt: skip
    opened.quiet()


def test_hostile_lanes_and_buckets(
    pages: Pages, open_page: Callable[..., Opened], tmp_path: Path
) -> None:
    raw = pages.made["three"].model_dump(by_alias=True)
    names = {"k1": HOSTILE["script"], "slots20": HOSTILE["rtl"], "slots44": HOSTILE["quotes"],
             "row_copy": HOSTILE["control"], "attention": HOSTILE["long"],
             "masked_row_copy": HOSTILE["formula"], "slots": HOSTILE["script"]}  # fmt: skip
    doc = ComparisonDocument.model_validate(_hostile(raw, names))
    file = tmp_path / "compare.html"
    file.write_text(comparison_page(doc), encoding="utf-8")
    _quiet_and_text(open_page(file), "script", "rtl", "quotes", "control", "long", "formula")


def test_hostile_prompts_and_rules(
    pages: Pages, open_page: Callable[..., Opened], tmp_path: Path
) -> None:
    raw = pages.made["gate"].model_dump(by_alias=True)
    prompts = [p["prompt"] for p in raw["speed"]["metrics"][0]["prompts"]]
    kinds = ("script", "rtl", "control", "long")
    names = dict(zip(prompts, (HOSTILE[k] for k in kinds), strict=True))
    names |= {"rate": HOSTILE["quotes"], "faster": HOSTILE["script"]}
    doc = GateDocument.model_validate(_hostile(raw, names))
    file = tmp_path / "gate.html"
    file.write_text(gate_page(doc), encoding="utf-8")
    _quiet_and_text(open_page(file), *kinds, "quotes")


def test_hostile_rungs(pages: Pages, open_page: Callable[..., Opened], tmp_path: Path) -> None:
    raw = pages.made["ladder"].model_dump(by_alias=True)
    raw["rungs"][0]["metrics"] = {HOSTILE["quotes"]: raw["rungs"][0]["metrics"]["rate"]}
    names = {"one": HOSTILE["script"], "two": HOSTILE["rtl"], "wrong model": HOSTILE["control"],
             "gone": HOSTILE["long"], "default": HOSTILE["script"]}  # fmt: skip
    doc = LadderDocument.model_validate(_hostile(raw, names))
    file = tmp_path / "ladder.html"
    file.write_text(ladder_page(doc), encoding="utf-8")
    _quiet_and_text(open_page(file), "script", "rtl", "quotes", "long", "control")


def test_hostile_windows(open_page: Callable[..., Opened], tmp_path: Path) -> None:
    window = Path(shutil.copytree(GOOD, tmp_path / "w"))
    names = {"slots44": HOSTILE["script"], "p0": HOSTILE["rtl"], "p1": HOSTILE["quotes"],
             "p2": HOSTILE["long"], "p3": HOSTILE["control"], "NVIDIA H200": HOSTILE["script"],
             "export": HOSTILE["quotes"]}  # fmt: skip
    for file in [*window.rglob("*.json"), *window.glob("*requests.jsonl")]:
        lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        changed = [json.dumps(_hostile(json.loads(line), names)) for line in lines]
        file.write_text("\n".join(changed))
    file = tmp_path / "window.html"
    file.write_text(window_page(read_window(window)), encoding="utf-8")
    _quiet_and_text(open_page(file), "script", "rtl", "quotes", "long", "control")


def test_no_exclusive_time_is_no_bar(reports: Callable[[str], Report]) -> None:
    """What is withheld is not drawn as nothing."""
    doc = reports("k1").document.model_copy(deep=True)
    for bucket in doc.buckets:
        bucket.exclusive_ms_per_step = None
    drawn = lanes_bar([("known", reports("k1").document), ("withheld", doc)])
    assert all(trace["x"][1] is None and trace["x"][0] is not None for trace in drawn.data)
    assert drawn.layout["yaxis"]["ticktext"] == ["known", "withheld (withheld)"]


def test_same_bytes_again(pages: Pages) -> None:
    assert window_page(read_window(GOOD)) == pages.file("window").read_text(encoding="utf-8")
    assert comparison_page(pages.made["compare"]) == pages.file("compare").read_text("utf-8")
