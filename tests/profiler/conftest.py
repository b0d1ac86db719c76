"""Real parts for the capture tests: Nsight Systems, lanes as processes, a serving incumbent."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.profiler import systemd_box
from tests.profiler.docker_engine import DockerEngine, why_not
from tests.profiler.parts import DockerBench, ProcessBench, nsys_folder


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees another's windows, locks or catalogue."""
    monkeypatch.setenv("LANESCOPE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("LANESCOPE_CATALOGUE", str(tmp_path / "catalogue.sqlite"))


@pytest.fixture(scope="session")
def nsys() -> Path:
    """The folder of a real Nsight Systems."""
    folder = nsys_folder()
    if folder is None:
        pytest.skip("no Nsight Systems here (tests/setup/nsight.sh unpacks one on Debian)")
    return folder


@pytest.fixture
def bench(tmp_path: Path, nsys: Path) -> Iterator[ProcessBench]:
    """An incumbent that serves, lane files, and a window file to change."""
    made = ProcessBench(tmp_path, nsys, os.environ)
    made.start_incumbent()
    try:
        yield made
    finally:
        made.clean()


@pytest.fixture
def unstarted(tmp_path: Path) -> Iterator[ProcessBench]:
    """The bench's files alone: no incumbent, no nsys."""
    made = ProcessBench(tmp_path, Path("/opt/nsight"), os.environ)
    yield made
    made.clean()


@pytest.fixture(scope="session")
def docker() -> Iterator[DockerEngine]:
    """A real engine and registry, for all tests of this worker."""
    if reason := why_not():
        pytest.skip(reason)
    engine = DockerEngine(Path(tempfile.mkdtemp(prefix="ls-docker-", dir="/var/tmp")))
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()


@pytest.fixture
def containers(tmp_path: Path, nsys: Path, docker: DockerEngine) -> Iterator[DockerBench]:
    """The same bench with both lanes as containers."""
    made = DockerBench(tmp_path, nsys, os.environ, docker)
    made.start_incumbent()
    try:
        yield made
    finally:
        made.clean()


@pytest.fixture(scope="session")
def systemd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[systemd_box.SystemdBox]:
    """A real systemd, for all tests of this worker."""
    if reason := systemd_box.why_not():
        pytest.skip(reason)
    box = systemd_box.SystemdBox(tmp_path_factory.mktemp("systemd") / "log")
    box.start()
    try:
        yield box
    finally:
        box.stop()


@pytest.fixture
def shared_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is seen from inside a systemd box, with this test's state in it."""
    folder = Path(tempfile.mkdtemp(prefix="ls-test-", dir="/var/tmp"))
    monkeypatch.setenv("LANESCOPE_STATE", str(folder / "state"))
    monkeypatch.setenv("LANESCOPE_CATALOGUE", str(folder / "catalogue.sqlite"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def timed(
    shared_folder: Path, nsys: Path, systemd: systemd_box.SystemdBox
) -> Iterator[ProcessBench]:
    """A bench whose window runs where systemd is PID 1; lanes are processes there."""
    made = ProcessBench(shared_folder, nsys, os.environ)
    made.prefix = systemd.prefix()
    made.start_incumbent()
    try:
        yield made
    finally:
        made.clean()


@pytest.fixture
def timed_containers(
    shared_folder: Path, nsys: Path, systemd: systemd_box.SystemdBox, docker: DockerEngine
) -> Iterator[DockerBench]:
    """Containers as lanes, a systemd timer as failsafe."""
    made = DockerBench(shared_folder, nsys, os.environ, docker)
    made.prefix = systemd.prefix()
    made.start_incumbent()
    try:
        yield made
    finally:
        made.clean()
