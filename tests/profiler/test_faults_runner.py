"""Fault matrix, the runner: killed and told to stop at every state."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from lanescope.profiler.adapters import procs
from lanescope.profiler.window.folder import verify
from lanescope.profiler.window.states import ALL, EXPERIMENT, OFFLINE
from tests.profiler.faults import expect
from tests.profiler.parts import ProcessBench

pytestmark = pytest.mark.nsight

NAMES = [s.name for s in ALL]
ARMED = NAMES.index("failsafe_armed")
TOUCHED = NAMES.index("incumbent_stopped")
BACK = NAMES.index("failsafe_disarmed")


@pytest.mark.parametrize("state", NAMES)
def test_sigkill(bench: ProcessBench, state: str) -> None:
    bench.quick()
    runner = bench.begin()
    bench.until(runner, state)
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait(10)
    assert runner.stdout
    runner.stdout.close()
    # nobody does anything: the failsafe alone brings the incumbent back
    assert bench.await_serving(40) == "", bench.story()
    limit = time.monotonic() + 40
    while bench.failsafes() and time.monotonic() < limit:
        time.sleep(0.1)
    bench.safe()
    at = NAMES.index(state)
    if ARMED < at < BACK:
        assert bench.fired() == 1
        (answer,) = bench.state.glob("restore-failsafe-*.json")
        assert json.loads(answer.read_text())["status"] == "WINDOW_RESTORE_OK"
    # and a person finishes the window
    done = bench.call("capture", "resume")
    captured = state in [s.name for s in OFFLINE] or at >= NAMES.index("incumbent_restored")
    assert done.returncode == (0 if captured else 20 if at > TOUCHED else done.returncode)
    assert done.returncode in (0, 20, 21), done.stdout + done.stderr
    assert (bench.output / "WINDOW.md").exists()
    assert verify(bench.output) == []
    bench.safe()


@pytest.mark.parametrize("state", NAMES)
@pytest.mark.parametrize("name", ["sigterm", "sigint"])
def test_told_to_stop(bench: ProcessBench, name: str, state: str) -> None:
    bench.quick()
    runner = bench.begin()
    bench.until(runner, state)
    os.kill(runner.pid, signal.SIGTERM if name == "sigterm" else signal.SIGINT)
    code, said = bench.end_of(runner)
    if state in [s.name for s in EXPERIMENT]:
        expect(name, code, bench)
        assert bench.fired() == 0
    else:  # the experiment was over: nothing is left to stop
        assert code == 0, said
        bench.safe()
    assert verify(bench.output) == []


def test_frozen(bench: ProcessBench) -> None:
    """A runner that stands still loses its lease; waking up, it finds its window over."""
    bench.quick()
    bench.candidate["command"] = [*bench.candidate["command"], "--never-ready"]
    runner = bench.begin()
    bench.until(runner, "ready")
    os.kill(runner.pid, signal.SIGSTOP)
    assert bench.await_serving(60) == "", bench.story()
    os.kill(runner.pid, signal.SIGCONT)
    code, said = bench.end_of(runner)
    expect("frozen", code, bench)
    assert bench.fired() == 1, said
    assert procs.marked(bench.state.name) == []


def test_abort(bench: ProcessBench) -> None:
    bench.quick()
    bench.candidate["command"] = [*bench.candidate["command"], "--never-ready"]
    runner = bench.begin()
    bench.until(runner, "ready")
    assert bench.call("capture", "abort").returncode == 0
    code, _ = bench.end_of(runner)
    expect("abort", code, bench)
    assert "stopped" in bench.call("capture", "status").stdout


def test_hold(bench: ProcessBench) -> None:
    bench.quick()
    runner = bench.begin()
    bench.until(runner, "control_probe")
    assert bench.call("capture", "hold", str(bench.folder / "window.toml")).returncode == 0
    code, said = bench.end_of(runner)
    expect("hold", code, bench)
    assert "is on HOLD" in said


def test_second_window(bench: ProcessBench) -> None:
    bench.quick()
    runner = bench.begin()
    bench.until(runner, "failsafe_proof")
    second = bench.call("capture", str(bench.folder / "window.toml"))
    assert second.returncode == 2
    assert "another window runs" in second.stderr
    code, said = bench.end_of(runner)
    assert code == 0, said
    bench.safe()
