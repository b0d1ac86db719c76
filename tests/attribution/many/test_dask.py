"""An existing Dask cluster: workers and scheduler die midway, or are not fit for the work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.attribution.many.running import TRACES, Run, environment, whole


class Cluster:
    """A scheduler and workers as processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.env = environment(folder)
        self.children: list[subprocess.Popen[str]] = []
        self.scheduler = self._start("scheduler", "--port", "0", "--no-dashboard")
        self.address = self._wait(self.scheduler, "Scheduler at:").split()[-1]

    def _start(self, *words: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            env=self.env,
            cwd=cwd,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.children.append(child)
        return child

    def _wait(self, child: subprocess.Popen[str], text: str) -> str:
        assert child.stderr is not None
        return next(line for line in child.stderr if text in line)

    def worker(self, cwd: Path | None = None) -> subprocess.Popen[str]:
        """One more worker, which has joined; it imports what lies in `cwd` first."""
        words = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
        child = self._start("worker", self.address, *words, cwd=cwd)
        self._wait(child, "Registered to:")
        return child

    def close(self) -> None:
        """End every process."""
        for child in self.children:
            child.kill()
            child.wait()
            assert child.stderr is not None
            child.stderr.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture
def begin(cluster: Cluster, fifty: Path, tmp_path: Path) -> Callable[[], Run]:
    """Begins a run on the cluster, which is held in the midst."""
    traces = [str(fifty / t) for t in TRACES]
    verb = ["attribute", *traces, "--dask", cluster.address, "--out", str(tmp_path / "dataset")]
    return lambda: Run(tmp_path, verb, cluster.env)


def test_a_worker_killed(cluster: Cluster, begin: Callable[[], Run], by_one: Path) -> None:
    workers = {w.pid: w for w in (cluster.worker(), cluster.worker())}
    run = begin()
    assert run.worker in workers
    (run.folder / "held").write_text("")
    os.kill(run.worker, signal.SIGKILL)
    workers[run.worker].wait()
    assert run.ended() == (0, "")
    assert run.again() == ["kept"] * len(TRACES)
    whole(run, by_one)


def test_the_scheduler_killed(cluster: Cluster, begin: Callable[[], Run], by_one: Path) -> None:
    for _ in range(2):
        cluster.worker()
    run = begin()
    cluster.scheduler.kill()
    said = run.process.communicate(timeout=120)[1]
    assert run.process.returncode == 3
    assert len(said.splitlines()) == 1, said
    assert "scheduler" in said
    cluster.close()
    done = len(list(run.out.glob("trace=*")))
    states = run.again(*run.verb[: run.verb.index("--dask")], "--out", str(run.out))
    assert states.count("kept") >= done
    whole(run, by_one)


def _refused(run: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "lanescope", *run],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_workers_that_are_not_fit(cluster: Cluster, fifty: Path, tmp_path: Path) -> None:
    verb = ["attribute", str(fifty / TRACES[0]), "--dask", cluster.address]
    verb += ["--out", str(tmp_path / "dataset")]
    assert "has no workers" in _refused(verb, cluster.env)
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    (lacking / "lanescope.py").write_text("raise ImportError('no lanescope here')\n")
    cluster.worker(lacking)
    assert "cannot run lanescope" in _refused(verb, cluster.env)
    assert not list((tmp_path / "dataset").glob("trace=*"))


def test_a_worker_that_sees_other_files(fifty: Path, tmp_path: Path) -> None:
    from lanescope.attribution.many.engines import _check_workers
    from lanescope.attribution.many.work import Task, unseen
    from lanescope.schemas.errors import UsageError

    class Client:
        def run(self, function: object, tasks: list[Task]) -> dict[str, list[str]]:
            assert function is unseen
            return {"tcp://there": unseen(tasks)}

    there, gone = Task(str(fifty / TRACES[0]), str(tmp_path)), Task("/gone/t.sqlite", str(tmp_path))
    with pytest.raises(UsageError, match=r"tcp://there does not see .*dataset\.json and 1 more"):
        _check_workers(Client(), [there, gone], "tcp://scheduler")
