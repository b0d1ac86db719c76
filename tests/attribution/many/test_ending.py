"""A run that is ended in the midst: one line, no process and nothing half-done, and it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attribution.many.running import TRACES, Run, whole


@pytest.fixture
def run(fifty: Path, tmp_path: Path) -> Iterator[Run]:
    traces = [str(fifty / t) for t in TRACES]
    out = ["--out", str(tmp_path / "dataset")]
    made = Run(tmp_path, ["attribute", *traces, "--jobs", "2", *out])
    yield made
    made.process.kill()
    made.process.communicate()


@pytest.mark.parametrize("to", ["group", "parent"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal(run: Run, by_one: Path, number: signal.Signals, to: str) -> None:
    (os.killpg if to == "group" else os.kill)(run.process.pid, number)
    code, said = run.ended()
    assert code == 128 + number
    assert len(said.splitlines()) == 1, said
    assert number.name in said
    assert run.rooms() == []
    done = {p.name for p in run.out.glob("trace=*")}
    assert all((run.out / name / "asked.json").is_file() for name in done)
    assert not any("t02" in name for name in done)
    states = run.again()
    assert states.count("kept") == len(done)
    assert states[2] == "done"
    whole(run, by_one)


def test_the_parent_killed(run: Run, by_one: Path) -> None:
    run.process.kill()
    code, _ = run.ended()
    assert code == -signal.SIGKILL
    assert any("trace=t02" in room for room in run.rooms()), "it was in the midst of writing"
    done = len(list(run.out.glob("trace=*")))
    states = run.again()
    assert states.count("kept") >= done
    assert states[2] == "done"
    whole(run, by_one)


def test_a_worker_killed(run: Run, by_one: Path) -> None:
    (run.folder / "held").write_text("")
    os.kill(run.worker, signal.SIGKILL)
    code, said = run.ended()
    assert (code, said) == (0, "")
    assert run.again() == ["kept"] * len(TRACES)
    whole(run, by_one)


def test_hangups_are_ignored_under_nohup() -> None:
    script = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from lanescope.profiler.cli.ending import ending\n"
        "with ending(): os.kill(os.getpid(), signal.SIGHUP); print('alive')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n")


def test_the_first_worker_is_shielded_too() -> None:
    """Python starts a helper before the first one, which would end the mask of signals."""
    asked = (
        "import signal; from multiprocessing import resource_tracker\n"
        "from lanescope.attribution.many import pool\n"
        "with pool._masked():\n"
        "    resource_tracker.getfd()\n"
        "    print(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))))\n"
    )
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True, text=True)
    assert said.stdout.strip() == str(sorted([int(signal.SIGINT), int(signal.SIGHUP)]))
