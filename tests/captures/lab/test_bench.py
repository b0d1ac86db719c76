"""`lanescope lab bench`, and the flags of an engine."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

from lanescope.captures.lab.config import PRESETS, LabConfig, configure, read_slot_map
from lanescope.profiler.cli.lab import command
from lanescope.schemas.errors import LanescopeError, UnusableInput, UsageError

SMALL = ["--device", "cpu", "--layers", "2", "--hidden", "64", "--inter", "32", "--vocab", "1024"]


def test_more_slots_never_miss_more_and_text_stays() -> None:
    done = CliRunner().invoke(
        command,
        ["bench", *SMALL, "--ks", "0,2", "--budgets", "4,8,16", "--tokens", "30", "--json"],
        catch_exceptions=False,
    )
    rows = json.loads(done.output)
    assert [(r["k"], r["slots"]) for r in rows] == [(k, s) for k in (0, 2) for s in (4, 8, 16)]
    assert len({r["text"] for r in rows}) == 1
    for k in (0, 2):
        misses = [r["misses_per_layer_step"] for r in rows if r["k"] == k]
        assert misses == sorted(misses, reverse=True)
        for r in rows:
            routed = (r["k"] + 1) * 2
            assert r["hit_rate"] == pytest.approx(1 - r["misses_per_layer_step"] / routed)
    assert rows[0]["tokens_per_step"] == 1  # K=0 accepts nothing
    assert rows[-1]["tokens_per_step"] > 1.2


def test_every_size_is_a_flag() -> None:
    text = CliRunner().invoke(command, ["serve", "--help"]).output
    for field in fields(LabConfig):
        if field.name not in ("preset", "slot_map"):
            assert f"--{field.name.replace('_', '-')}" in text


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_engines(preset: str) -> None:
    config = configure(preset)
    assert config.preset == preset
    assert all(n % 8 == 0 for n in config.row_bytes.values())  # copied as 64-bit words
    assert config.routed_rows <= min(config.slots_of)


def test_report75_is_shaped_like_its_report() -> None:
    config = configure("report75")
    assert (config.layers * 4, config.routed_rows) == (300, 16)


@pytest.mark.parametrize(
    "change",
    [
        {"topk": 17},
        {"slots": 0},
        {"k": 8},
        {"k": -1},
        {"hidden": 100},
        {"heads": 3},
        {"inter": 33},
        {"streams": 9},
        {"nvtx": "loud"},
        {"locality": 1.0},
        {"slot_map": (1, 2)},
        {"vocab": 10},
        {"noise_share": 2.0},
    ],
)
def test_a_value_that_makes_no_engine_is_refused_by_name(change: dict[str, object]) -> None:
    name = next(iter(change)).replace("_", " ")
    with pytest.raises(UsageError, match=rf"(?i){name}|{name.replace(' ', '_')}"):
        configure("tiny", **change)


@pytest.mark.parametrize(
    "text", ["", "[1]", "{}", '{"0": "x"}', '{"0": 0}', '{"a": 3}', '{"per_layer": []}']
)
def test_a_bad_slot_map_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "slots.json"
    path.write_text(text)
    with pytest.raises(UnusableInput, match=r"slots\.json"):
        read_slot_map(path)


def test_slot_maps_count_layers_in_order(tmp_path: Path) -> None:
    path = tmp_path / "slots.json"
    path.write_text('{"total": 6, "per_layer": {"10": 3, "9": 2, "8": 1}}')
    assert read_slot_map(path) == (1, 2, 3)


def test_a_machine_without_a_gpu_says_so() -> None:
    done = CliRunner().invoke(command, ["bench", "--device", "cuda"])
    assert isinstance(done.exception, LanescopeError) or done.exit_code == 0
