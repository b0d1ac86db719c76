"""`lanescope replay` as a user runs it: the whole way from a made-up trace to pages and plans."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lanescope.attribution.replay.cost import read_cost_model
from lanescope.profiler.cli.main import main
from lanescope.schemas.documents.replay import read_slot_map
from lanescope.schemas.errors import LanescopeError


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 tokens x 3 layers x top-2 of 16, two tokens a step, a fifth of the picks repeated."""
    path = tmp_path_factory.mktemp("trace") / "trace.parquet"
    sizes = "--tokens 600 --layers 3 --experts 16 --top-k 2 --tokens-per-step 2 --first-layer 3"
    code = call("generate", str(path), *sizes.split(), "--repeat", "0.2")
    assert code == 0
    return path


def call(*args: str) -> int:
    """The exit code of `lanescope replay ARGS`."""
    with pytest.raises(SystemExit) as done:
        main(["replay", *args])
    return int(done.value.code or 0)


def document(capsys: pytest.CaptureFixture[str], *args: str) -> dict:
    """What `--json` printed."""
    capsys.readouterr()
    assert call(*args, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_the_policies_and_an_engine_that_agrees(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    misses = tmp_path / "misses.parquet"
    assert call("run", str(trace), "--slots", "6", "--misses", str(misses)) == 0
    found = document(capsys, "run", str(trace), "--slots", "6", "--against", str(misses))
    assert found["schema"] == "lanescope.replay/1"
    assert found["agreement"]["equal"] == found["agreement"]["layer_steps"] == 900
    by_name = {p["policy"]: p for p in found["policies"]}
    assert next(iter(by_name)) == "lru"
    assert min(p["misses"] for p in found["policies"]) == by_name["belady"]["misses"]
    lru = by_name["lru"]
    assert lru["hit_rate"] == pytest.approx(1 - lru["misses"] / (600 * 3 * 2))
    assert lru["misses_per_layer_step"] == pytest.approx(lru["misses"] / 900)
    assert sum(lru["per_layer"]) * 300 == pytest.approx(lru["misses"])
    assert call("run", str(trace), "--slots", "7", "--against", str(misses)) == 10
    assert "first difference: step" in " ".join(capsys.readouterr().out.split())


def test_a_plan_is_written_and_replays(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "map.json"
    found = document(capsys, "plan", str(trace), "--budget", "21", "--out", str(out))
    planned, uniform = found["divisions"]
    assert (planned["name"], uniform["name"]) == ("planned", "uniform")
    assert planned["misses_per_layer_step"] <= uniform["misses_per_layer_step"]
    assert read_slot_map(out).per_layer == {int(k): v for k, v in planned["slots"].items()}
    assert read_slot_map(out).total <= 21
    run = document(capsys, "run", str(trace), "--slots", str(out), "--policy", "lru")
    got = run["policies"][0]["misses_per_layer_step"]
    assert got == pytest.approx(planned["misses_per_layer_step"])
    assert call("plan", str(trace), "--budget", "21", "--out", str(out)) == 2
    assert "exists" in capsys.readouterr().err


def test_step_times_follow_the_model(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """22.4 ms and 4.27 ms per miss; tokens per second need the accepted tokens."""
    model = tmp_path / "model.json"
    slope = {"estimate": 4.27, "low": 4.0, "high": 4.5}
    model.write_text(json.dumps({"model": {"base_ms": 22.4, "ms_per_miss": slope}}))
    args = ["run", str(trace), "--slots", "6", "--policy", "lru", "--model", str(model)]
    lru = document(capsys, *args)["policies"][0]
    misses = lru["misses_per_layer_step"]
    assert lru["ms_per_step"]["estimate"] == pytest.approx(22.4 + 4.27 * misses)
    assert lru["ms_per_step"]["low"] == pytest.approx(22.4 + 4.0 * misses)
    assert lru["tokens_per_s"] is None
    found = document(capsys, *args, "--accepted", "1.8")
    rate = found["policies"][0]["tokens_per_s"]
    assert rate["estimate"] == pytest.approx(1800 / (22.4 + 4.27 * misses))
    assert rate["low"] < rate["estimate"] < rate["high"]
    assert [w["code"] for w in found["warnings"]] == ["interval-of-the-slope-alone"]


def test_context_against_slots(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,000 bytes, 10 a token, 20 a row, 100 reserved: (900 - 10 c) / 20 slots."""
    memory = ["--hbm", "1000", "--reserve", "100", "--kv-per-token", "10", "--row-bytes", "20"]
    contexts = ["--context", "12", "--context", "40", "--context", "80"]
    found = document(capsys, "plan", str(trace), *memory, *contexts)
    assert [row["slots"] for row in found["contexts"]] == [39, 25]
    assert [row["kv_bytes"] for row in found["contexts"]] == [120, 400]
    misses = [row["misses_per_layer_step"] for row in found["contexts"]]
    assert misses == sorted(misses)
    assert found["abstained"][0]["why"].startswith("80 tokens leave room for 5 slots")


def test_curves_from_a_file_and_maps_beside_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    curves = {"3": {"4": 0.5, "8": 0.9}, "4": {"4": 0.1, "8": 0.2}}
    path = tmp_path / "slots.json"
    path.write_text(json.dumps({"per_layer": {"3": 4, "4": 4}, "curves": curves}))
    args = ["--curves", str(path), "--routed", "8", "--map", str(path), "--min", "0"]
    found = document(capsys, "plan", *args)
    planned, _, given = found["divisions"]
    assert planned["slots"] == {"3": 8, "4": 0}
    assert planned["hit_rate"] == pytest.approx(0.45)
    assert given["hit_rate"] == pytest.approx(0.3)
    assert given["held_out"] is None


@pytest.mark.parametrize(
    "args",
    [
        ["run", "TRACE", "--slots", "6"],
        ["curve", "TRACE", "--policy", "lfu"],
        ["plan", "TRACE", "--budget", "21"],
        ["structure", "TRACE", "--slots", "6"],
    ],
)
def test_pages_are_whole_offline_and_the_same_every_time(
    trace: Path, tmp_path: Path, args: list[str]
) -> None:
    args = [str(trace) if a == "TRACE" else a for a in args]
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    assert call(*args, "--html", str(one)) == 0
    assert call(*args, "--html", str(two)) == 0
    assert one.read_bytes() == two.read_bytes()
    text = one.read_text()
    assert len(text) < 6e6
    assert text.rstrip().endswith("</html>")
    outside = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?http', text)
    assert outside == []


def test_names_are_text_in_a_page(trace: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "<script>alert(1)<&.parquet"
    hostile.write_bytes(trace.read_bytes())
    page = tmp_path / "page.html"
    assert call("run", str(hostile), "--slots", "6", "--html", str(page)) == 0
    assert "<script>alert" not in page.read_text()


def test_convert_and_check(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "wide.parquet"
    assert call("convert", str(trace), str(out), "--tokens-per-step", "4") == 0
    found = document(capsys, "check", str(out))
    assert found["usable"]
    assert found["counts"]["verification_steps"] == 150
    assert found["counts"]["most_tokens_in_a_step"] == 4
    out.write_bytes(trace.read_bytes()[:-9])
    assert call("check", str(out)) == 3


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["run", "absent.parquet", "--slots", "6"], 3, "no such file"),
        (["run", "TRACE", "--slots", "absent.json"], 3, "absent.json"),
        (["run", "TRACE", "--slots", "6", "--policy", "magic"], 2, "no policy 'magic'"),
        (["run", "TRACE", "--slots", "6", "--warmup", "300"], 2, "nothing is left to score"),
        (["run", "TRACE", "--slots", "6", "--experts", "3"], 3, "do not fit 3 experts"),
        (["run", "TRACE", "--slots", "6", "--column", "step"], 2, "ROLE=NAME"),
        (["run", "TRACE", "--slots", "6", "--column", "step=nope"], 3, "no column 'nope'"),
        (["run", "TRACE", "--slots", "6", "--model", "TRACE"], 3, "trace.parquet"),
        (["plan", "TRACE"], 2, "neither --budget nor --context"),
        (["plan", "--budget", "3"], 2, "either a TRACE or --curves"),
        (["plan", "TRACE", "--budget", "3"], 2, "the budget must be"),
        (["plan", "TRACE", "--context", "5"], 2, "--hbm"),
        (["structure", "TRACE", "--slots", "6", "--predictor", "TRACE.not"], 3, "TRACE.not"),
        (["generate", "new.parquet", "--tiers", "8-0.5"], 2, "EXPERTS:SHARE"),
        (["generate", "no/such/folder/t.parquet"], 2, "no such folder"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    trace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    code: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*[str(trace) if a == "TRACE" else a for a in args]) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert says in lines[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "body",
    ["", "[]", '{"per_layer": {}}', '{"per_layer": {"3": -1}}', '{"3": "many"}', '{"x": 4}'],
)
def test_a_broken_slot_map_is_one_line(tmp_path: Path, body: str) -> None:
    path = tmp_path / "map.json"
    path.write_text(body)
    with pytest.raises(LanescopeError, match=r"map\.json"):
        read_slot_map(path)


@pytest.mark.parametrize("body", ["", "[1]", "{}", '{"base_ms": true, "ms_per_miss": 1}'])
def test_a_broken_cost_model_is_one_line(tmp_path: Path, body: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(body)
    with pytest.raises(LanescopeError, match=r"model\.json"):
        read_cost_model(path)


def test_help_brings_no_compiler_with_it() -> None:
    """`lanescope --help` and `lanescope replay --help` stay quick."""
    code = (
        "import sys; from lanescope.profiler.cli.main import cli\n"
        "for args in (['--help'], ['replay', '--help']):\n"
        "    cli.main(args, standalone_mode=False)\n"
        "sys.exit('numba' in sys.modules or 'plotly' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


def test_the_bypass_can_be_moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten-token prefill passes go through the cache until the bypass begins below ten."""
    path = str(tmp_path / "t.parquet")
    sizes = "--tokens 195 --layers 2 --experts 16 --top-k 2 --prefill-tokens 10 --prefill-every 5"
    assert call("generate", path, *sizes.split()) == 0
    args = ["run", path, "--slots", "6", "--policy", "lru"]
    through = document(capsys, *args)
    past = document(capsys, *args, "--bypass-over", "9")
    assert through["trace"]["bypassed_passes"] == 0
    assert through["policies"][0]["prefill_misses"] > 0
    assert past["trace"]["bypassed_passes"] == past["trace"]["prefill_passes"] > 0
    assert past["policies"][0]["prefill_misses"] == 0
