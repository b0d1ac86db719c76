"""A whole window on a real container engine, with images pinned by a real registry's digests."""

from __future__ import annotations

import json

import pytest

from lanescope.profiler.window.states import ALL
from tests.profiler.parts import DockerBench

pytestmark = [pytest.mark.nsight, pytest.mark.docker]


def test_whole_window(containers: DockerBench) -> None:
    before = containers.docker.engine.inspect(containers.id)
    done = containers.capture()
    assert done.returncode == 0, done.stdout + done.stderr
    assert [r["state"] for r in containers.receipts()] == [s.name for s in ALL]
    assert {r["status"] for r in containers.receipts()} == {"ok"}
    assert containers.serving() == ""
    after = containers.docker.engine.inspect(containers.id)
    assert before
    assert after
    for key in ("Id", "Name", "Image", "Path", "Args"):
        assert before[key] == after[key]
    assert containers.candidates() == []
    assert containers.failsafes() == []
    pins = containers.receipt("preflight")["facts"]["launcher"]["pins"]
    assert pins["candidate"]["pin"] == containers.docker.pins["candidate"]
    assert containers.receipt("candidate_launched")["facts"]["image"] == pins["candidate"]["id"]
    profiled = json.loads((containers.output / "probe-profiled.json").read_text())
    assert profiled["contamination"]["verdict"] == "clean"
    assert "serving tiny" in (containers.output / "engine.log").read_text()
