"""The failsafe as a real systemd timer: proved, armed, disarmed; fired when the runner is gone."""

from __future__ import annotations

import json
import time

import pytest

from tests.profiler.parts import DockerBench, ProcessBench, kill_runner
from tests.profiler.systemd_box import SystemdBox

pytestmark = [pytest.mark.nsight, pytest.mark.systemd]


def test_whole_window_with_containers_and_a_timer(
    timed_containers: DockerBench, systemd: SystemdBox
) -> None:
    done = timed_containers.capture()
    assert done.returncode == 0, done.stdout + done.stderr
    proof = timed_containers.receipt("failsafe_proof")["facts"]
    assert proof["kind"] == "systemd"
    assert proof["own_cgroup"] is True
    assert timed_containers.receipt("failsafe_disarmed")["facts"]["fired"] is False
    assert systemd.timers() == []
    assert timed_containers.serving() == ""
    assert timed_containers.candidates() == []


def test_timer_fires_once_after_the_runner_is_killed(
    timed: ProcessBench, systemd: SystemdBox
) -> None:
    timed.candidate["command"] = [*timed.candidate["command"], "--never-ready"]
    timed.change(failsafe={"deadline_s": 12})
    runner = timed.begin()
    assert runner.stdout
    for line in runner.stdout:
        if "ready:" in line:
            break
    kill_runner(runner)
    assert len(systemd.timers()) == 1
    limit = time.monotonic() + 40
    while not list(timed.state.glob("restore-failsafe-*.json")) and time.monotonic() < limit:
        time.sleep(0.2)
    (answer,) = timed.state.glob("restore-failsafe-*.json")
    assert json.loads(answer.read_text())["status"] == "WINDOW_RESTORE_OK"
    assert timed.serving() == ""
    assert systemd.timers() == []
