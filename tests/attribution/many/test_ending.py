"""A run that is ended in the midst: one line, no process and nothing half-done, and it goes on."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attribution.many.conftest import contents

_PATIENCE_S = 60
TRACES = [f"t{i:02}.sqlite" for i in range(6)]


class Run:
    """`lanescope attribute` of six traces by two processes, of which one is held at the third."""

    def __init__(self, folder: Path, traces: Path, verb: list[str]) -> None:
        self.folder, self.traces = folder, traces
        os.mkfifo(folder / "began")
        os.mkfifo(folder / "go")
        (folder / "held").write_text("t02.sqlite")
        self.env = {
            **os.environ,
            "LANESCOPE_CACHE_DIR": str(folder / "cache"),
            "LANESCOPE_SPILL_DIR": str(folder / "spill"),
            "TMPDIR": str(folder / "tmp"),
        }
        (folder / "tmp").mkdir()
        self.out = folder / "dataset"
        self.verb = verb
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.attribution.many.held", str(folder), *verb],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with (folder / "began").open() as began:
            self.worker = int(began.readline())
        self.gone = os.pidfd_open(self.worker)

    def ended(self) -> tuple[int, str]:
        """Exit code and what was said; the worker is gone by then."""
        said = self.process.communicate(timeout=_PATIENCE_S)[1]
        assert select.select([self.gone], [], [], _PATIENCE_S)[0], "an orphan goes on"
        os.close(self.gone)
        return self.process.returncode, said

    def rooms(self) -> list[str]:
        """Folders that somebody works in, or did."""
        return [str(p.relative_to(self.folder)) for p in self.folder.rglob(".lanescope-*")]

    def again(self) -> list[str]:
        """The same once more, undisturbed: what became of each trace."""
        (self.folder / "held").write_text("")
        done = subprocess.run(
            [sys.executable, "-m", "lanescope", *self.verb, "--json"],
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
        )
        return [t["state"] for t in json.loads(done.stdout)["traces"]]


@pytest.fixture
def run(fifty: Path, tmp_path: Path) -> Iterator[Run]:
    traces = [str(fifty / t) for t in TRACES]
    out = ["--out", str(tmp_path / "dataset")]
    made = Run(tmp_path, fifty, ["attribute", *traces, "--jobs", "2", *out])
    yield made
    made.process.kill()
    made.process.communicate()


def _whole(run: Run, by_one: Path) -> None:
    """The dataset is what one undisturbed process makes of the same traces."""
    expected = {
        name: data
        for name, data in contents(by_one).items()
        if not name.startswith("trace=") or name[6:16] in TRACES
    }
    assert contents(run.out) == expected
    assert run.rooms() == []


@pytest.mark.parametrize("to", ["group", "parent"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal(run: Run, by_one: Path, number: signal.Signals, to: str) -> None:
    (os.killpg if to == "group" else os.kill)(run.process.pid, number)
    code, said = run.ended()
    assert code == 128 + number
    assert len(said.splitlines()) == 1, said
    assert number.name in said
    assert run.rooms() == []
    whole = {p.name for p in run.out.glob("trace=*")}
    assert all((run.out / name / "asked.json").is_file() for name in whole)
    assert not any("t02" in name for name in whole)
    states = run.again()
    assert states.count("kept") == len(whole)
    assert states[2] == "done"
    _whole(run, by_one)


def test_the_parent_killed(run: Run, by_one: Path) -> None:
    run.process.kill()
    code, _ = run.ended()
    assert code == -signal.SIGKILL
    assert any("trace=t02" in room for room in run.rooms()), "it was in the midst of writing"
    whole = len(list(run.out.glob("trace=*")))
    states = run.again()
    assert states.count("kept") >= whole
    assert states[2] == "done"
    _whole(run, by_one)


def test_a_worker_killed(run: Run, by_one: Path) -> None:
    (run.folder / "held").write_text("")
    os.kill(run.worker, signal.SIGKILL)
    code, said = run.ended()
    assert (code, said) == (0, "")
    assert run.again() == ["kept"] * len(TRACES)
    _whole(run, by_one)


def test_hangups_are_ignored_under_nohup(fifty: Path, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from lanescope.profiler.cli.ending import ending\n"
        "with ending(): os.kill(os.getpid(), signal.SIGHUP); print('alive')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n")
    shutil.rmtree(tmp_path, ignore_errors=True)
