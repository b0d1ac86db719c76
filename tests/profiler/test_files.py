"""Lane and window files: the shipped ones are read, and each mistake is one line with its key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lanescope.profiler.window.diff import differences
from lanescope.schemas.documents import toml
from lanescope.schemas.documents.lane import Lane
from lanescope.schemas.documents.window import Window
from lanescope.schemas.errors import UnusableInput
from tests.profiler import faults
from tests.profiler.parts import Bench, merged
from tests.profiler.parts import toml as as_toml

SHIPPED = Path(__file__).parents[2] / "captures" / "lanes"
PIN = "repo/engine@sha256:" + "ab" * 32

LANE: dict[str, Any] = {
    "name": "good",
    "launcher": "docker",
    "image": PIN,
    "command": ["serve", "--port", "8000"],
    "ready": {"url": "http://127.0.0.1:8000", "model": "m"},
}

#: what is wrong -> (changes to a good lane, words that the one line must hold)
LANES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown key": ({"imgae": PIN}, ["imgae", "unknown key", "did you mean 'image'"]),
    "unknown key below": ({"ready": {"modle": "m"}}, ["ready.modle", "did you mean 'model'"]),
    "missing command": ({"command": None}, ["command", "missing"]),
    "empty command": ({"command": []}, ["command", "at least 1"]),
    "command as text": ({"command": "serve --port 8000"}, ["command", "list"]),
    "missing ready": ({"ready": None}, ["ready", "missing"]),
    "missing model": ({"ready": {"model": None}}, ["ready.model", "missing"]),
    "tag alone": ({"image": "repo/engine:v1"}, ["image", "not pinned", "sha256:"]),
    "no tag at all": ({"image": "repo/engine"}, ["image", "not pinned"]),
    "short digest": ({"image": "repo@sha256:abcd"}, ["image", "not pinned"]),
    "no image": ({"image": None}, ["launcher docker without image"]),
    "image for a process": ({"launcher": "process"}, ["process with an image"]),
    "unknown launcher": ({"launcher": "podman"}, ["launcher", "docker"]),
    "secret by value": (
        {"environment": {"HF_TOKEN": "hf_abcdefghijkl"}},
        ["HF_TOKEN", "[secrets]"],
    ),
    "secret by name": ({"environment": {"MY_PASSWORD": "x1y2"}}, ["MY_PASSWORD", "[secrets]"]),
    "password in an address": (
        {"environment": {"PROXY": "http://me:hunter22@host"}},
        ["PROXY", "[secrets]"],
    ),
    "api key by value": (
        {"command": ["serve", "--api-key", "abcdef"]},
        ["api-key", "{secret:NAME}"],
    ),
    "api key with =": ({"command": ["serve", "--api-key=abcdef"]}, ["api-key", "{secret:NAME}"]),
    "bearer": ({"command": ["serve", "--header", "Bearer abcdef"]}, ["header", "secret by value"]),
    "secret not defined": ({"command": ["serve", "{secret:KEY}"]}, ["KEY", "not defined"]),
    "api_key not defined": ({"ready": {"api_key": "KEY"}}, ["KEY", "not defined"]),
    "secret without source": ({"secrets": {"KEY": {}}}, ["secrets.KEY", "one source"]),
    "secret with two": (
        {"secrets": {"KEY": {"file": "/k", "variable": "K"}}},
        ["secrets.KEY", "one source"],
    ),
    "relative secret file": ({"secrets": {"KEY": {"file": "k"}}}, ["secrets.KEY", "absolute"]),
    "not JSON": (
        {"command": ["serve", "--compilation-config", "{mode:3,backend:eager}"]},
        ["--compilation-config", "not JSON"],
    ),
    "not JSON with =": (
        {"command": ["serve", "--speculative-config={'method': 'mtp'}"]},
        ["--speculative-config", "not JSON"],
    ),
    "not JSON in a variable": (
        {"environment": {"CONF": "{a: 1}"}},
        ["environment.CONF", "not JSON"],
    ),
    "declared JSON": (
        {"command": ["serve", "--conf", "x"], "json_values": ["--conf"]},
        ["--conf", "not JSON"],
    ),
    "declared JSON not there": ({"json_values": ["--conf"]}, ["json_values", "--conf"]),
    "relative mount": ({"mounts": [{"source": "models", "target": "/m"}]}, ["mounts.0.source"]),
    "GPU by index": ({"devices": ["0"]}, ["devices", "UUID"]),
    "port out of range": ({"ports": [70000]}, ["ports.0"]),
    "password in ready.url": ({"ready": {"url": "http://a:bcdefg@h"}}, ["ready.url", "password"]),
    "no address": ({"ready": {"url": "127.0.0.1:8000"}}, ["ready.url", "http"]),
    "health is no path": ({"ready": {"health": "health"}}, ["ready.health", "/"]),
    "budget below zero": ({"ready": {"budget_s": -1}}, ["ready.budget_s", "greater than 0"]),
    "unknown tracer": ({"tracer": {"trace": ["cuda", "nvtx", "magic"]}}, ["tracer.trace", "magic"]),
    "no nvtx": ({"tracer": {"trace": ["cuda"]}}, ["tracer.trace", "nvtx"]),
    "delay": ({"tracer": {"options": ["--delay=5"]}}, ["tracer.options", "--delay"]),
    "control file unnamed": ({"tracer": {"mode": "control-file"}}, ["tracer", "control_file"]),
    "nvtx range unnamed": ({"tracer": {"range": "nvtx"}}, ["tracer", "range_name"]),
    "bad pattern": ({"log": {"patterns": ["("]}}, ["log.patterns", "no pattern"]),
    "bad name": ({"name": "a b"}, ["name", "pattern"]),
    "negative layers": ({"engine": {"layers": 0}}, ["engine.layers"]),
}


def refusal(path: Path, text: str) -> str:
    """The one line for a lane file with this text."""
    path.write_text(text)
    with pytest.raises(UnusableInput) as caught:
        toml.read(path, Lane)
    line = str(caught.value)
    assert "\n" not in line
    assert str(path) in line
    assert caught.value.remedy
    return line


@pytest.mark.parametrize("wrong", LANES)
def test_lane_mistakes(tmp_path: Path, wrong: str) -> None:
    changes, words = LANES[wrong]
    line = refusal(tmp_path / "lane.toml", as_toml(merged(LANE, changes)))
    for word in words:
        assert word in line
    for secret in ("hf_abcdefghijkl", "hunter22", 'abcdef"', "bcdefg"):
        assert secret not in line


@pytest.mark.parametrize("text", ["name = ", "name = 'a'\nname = 'b'", "= 3", "[ready"])
def test_not_toml(tmp_path: Path, text: str) -> None:
    assert "not TOML" in refusal(tmp_path / "lane.toml", text)


def test_not_there_and_not_text(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="No such file"):
        toml.read(tmp_path / "none.toml", Lane)
    path = tmp_path / "lane.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnusableInput, match="UTF-8"):
        toml.read(path, Lane)


WINDOWS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown key": ({"ouput": "x"}, ["ouput", "did you mean 'output'"]),
    "no lane file": ({"candidate": {"lane": "none.toml"}}, ["candidate.lane", "none.toml"]),
    "no prompts": ({"probe": {"prompts": "none.jsonl"}}, ["probe.prompts", "none.jsonl"]),
    "no gates": ({"gates": ["none.toml"]}, ["gates.0", "none.toml"]),
    "no baseline": ({"baseline": "none"}, ["baseline", "none"]),
    "short deadline": ({"failsafe": {"deadline_s": 1}}, ["failsafe", "deadline_s"]),
    "long profile": ({"durations": {"profile_max_s": 900}}, ["durations.profile_max_s", "300"]),
    "no concurrency": ({"probe": {"concurrency": []}}, ["probe.concurrency"]),
    "container for a process": ({"incumbent": {"container": "c"}}, ["incumbent.container"]),
    "another axis": ({"axis": "environment.X"}, ["axis", "command.--step-s"]),
}


@pytest.mark.parametrize("wrong", WINDOWS)
def test_window_mistakes_by_dry_run(unstarted: Bench, wrong: str) -> None:
    changes, words = WINDOWS[wrong]
    unstarted.window = merged(unstarted.window, changes)
    done = unstarted.call("capture", "--dry-run", str(unstarted.write()))
    assert done.returncode == 3, done.stdout
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    for word in words:
        assert word in lines[0]
    assert lines[0].endswith(")")  # the remedy
    assert not (unstarted.folder / "out" / unstarted.window["name"]).exists()


def test_two_axes_are_refused(unstarted: Bench) -> None:
    unstarted.candidate["environment"] = {"PATH": "/usr/bin:/bin", "MODE": "new"}
    unstarted.change(axis="command.--step-s")
    done = unstarted.call("capture", "--dry-run", str(unstarted.write()))
    assert done.returncode == 3
    assert "environment.MODE" in done.stderr


def test_prompts_are_checked(unstarted: Bench) -> None:
    path = unstarted.write()
    for text, word in (
        ('{"id": "a"}\n', "line 1"),
        ('{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}\n', "twice"),
        ("\n", "holds no prompts"),
        ("not json\n", "line 1"),
    ):
        (unstarted.folder / "prompts.jsonl").write_text(text)
        done = unstarted.call("capture", "--dry-run", str(path))
        assert done.returncode == 3
        assert word in done.stderr


def test_shipped_lanes_differ_in_one_axis() -> None:
    first, second = (toml.read(SHIPPED / f, Lane) for f in ("vllm.toml", "vllm-k2.toml"))
    window = toml.read(SHIPPED / "vllm-window.toml", Window)
    assert [d.axis for d in differences(first, second)] == [window.axis]
    for line in (SHIPPED / "prompts.jsonl").read_text().splitlines():
        assert set(json.loads(line)) == {"id", "prompt"}


def test_fault_table_of_the_docs_is_the_matrix() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "capture.md").read_text()
    assert faults.table() in docs, "python -m tests.profiler.faults prints the table"
