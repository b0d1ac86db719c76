"""What the dashboard sees of a running window, from its state folder alone."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from lanescope.profiler.adapters import procs
from lanescope.profiler.adapters.probe import Client, Request, _since
from lanescope.profiler.window import live, places
from lanescope.schemas.documents.lane import Ready
from lanescope.schemas.documents.window import Probe


def _run(name: str, **files: object) -> Path:
    folder = places.state_folder() / "runs" / name
    folder.mkdir(parents=True)
    for file, data in files.items():
        (folder / f"{file}.json").write_text(json.dumps(data))
    return folder


def test_only_what_has_not_ended(tmp_path: Path) -> None:
    pid = os.getpid()
    runner = {"pid": pid, "started": procs.started(pid), "output": str(tmp_path)}
    deadline = time.clock_gettime(time.CLOCK_BOOTTIME) + 100
    progress = {"phase": "control", "asked": 8, "done": 2, "in_flight": 1, "tokens": 9}
    _run("ended", state={"state": "catalogued", "outcome": "done"}, runner=runner)
    _run(
        "now",
        state={"state": "control_probe", "since": "2026-11-30T21:26:34.979Z"},
        runner=runner,
        armed=[["1", deadline - 50], ["2", deadline]],
        probe=progress | {"tokens_per_s": 4.5},
    )
    (found,) = live.running()
    assert (found.run, found.state, found.runner_alive) == ("now", "control_probe", True)
    assert found.failsafe_fires_in_s is not None
    assert 0 < found.failsafe_fires_in_s <= 100
    assert found.probe is not None
    assert found.probe.tokens_per_s == 4.5


@pytest.mark.parametrize("damage", ["", "[", "[[1]]", '{"phase": 3}', "null"])
def test_half_written_files_hide_nothing_else(damage: str) -> None:
    folder = _run("now", state={"state": "control_probe"})
    for name in ("armed.json", "probe.json", "runner.json"):
        (folder / name).write_text(damage)
    if damage in {"[[1]]", "null"}:
        (folder / "runner.json").unlink()
    (found,) = live.running()
    assert (found.state, found.probe, found.failsafe_fires_in_s) == ("control_probe", None, None)
    assert not found.runner_alive


def test_a_probe_that_is_over_is_not_shown() -> None:
    progress = {"phase": "control", "asked": 8, "done": 8, "in_flight": 0, "tokens": 9}
    _run("now", state={"state": "profiled_probe"}, probe=progress | {"tokens_per_s": 0})
    assert live.running()[0].probe is None


def test_nothing_is_made_where_nothing_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LANESCOPE_STATE", str(tmp_path / "none"))
    assert live.running() == []
    assert not (tmp_path / "none").exists()


def test_tokens_of_the_last_two_seconds() -> None:
    counted = [(10, 1), (20, 3), (30, 5), (40, 8)]
    assert _since(counted, 20) == 5
    assert _since(counted, 0) == 8
    assert _since(counted, 40) == 0
    assert _since([(10, None), (20, None), (30, None)], 10) == 2


def test_progress_of_a_client() -> None:
    ready = Ready.model_validate({"url": "http://127.0.0.1:1", "model": "m"})
    client = Client(ready, "", Probe(prompts="-", max_tokens=4))
    done = Request("control", 1, 0, "p", completion_tokens=7)
    now = time.monotonic_ns()
    open_ = Request("control", 1, 0, "q", began_ns=now - 3_000_000_000)
    open_.chunk_rows = [(500_000_000, 2), (2_000_000_000, 6), (2_900_000_000, 12)]
    client._begun, client._in_flight = [done, open_], 1
    found = client.progress()
    assert found == {"done": 1, "in_flight": 1, "tokens": 10, "tokens_per_s": 5.0}
