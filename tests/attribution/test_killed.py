"""kill -9 at every stage of a trace: asked again, the result is that of an undisturbed run.

What was staged whole is not staged again, and nothing of the killed run stays.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import trace_path

_KILLED = """
import os, signal, sys
from importlib import import_module
def die(*_args, **_kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
module, _, name = sys.argv[1].partition(":")
owner, _, attribute = name.rpartition(".")
place = import_module(module)
setattr(getattr(place, owner) if owner else place, attribute, die)
from lanescope.profiler.cli.main import main
main(sys.argv[2:])
"""
#: What is killed when it begins, and whether the trace was staged whole by then.
STAGES = {
    "lanescope.attribution.ingest.stage:_stage_ops": False,
    "lanescope.attribution.ingest.stage:_finish": False,
    "lanescope.attribution.kernels_out:_LookUp.rows": True,
    "lanescope.dashboards.pages.attribution_page:write": True,
    "lanescope.attribution.beside:_put": True,
}


def _files(folder: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in folder.iterdir()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The answer's files."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return _attribute(folder)


def _command(folder: Path) -> list[str]:
    return ["attribute", str(trace_path("apirange")), "--out", str(folder / "out"), "--plain"]


def _environment(folder: Path) -> dict[str, str]:
    places = {"LANESCOPE_CACHE_DIR": folder / "cache", "LANESCOPE_SPILL_DIR": folder / "spill"}
    return {**os.environ, **{name: str(place) for name, place in places.items()}}


def _attribute(folder: Path) -> dict[str, bytes]:
    subprocess.run(
        [sys.executable, "-m", "lanescope", *_command(folder)],
        env=_environment(folder),
        check=True,
        capture_output=True,
    )
    return _files(folder / "out")


def _staged(folder: Path) -> list[tuple[Path, int]]:
    return [(s, s.stat().st_mtime_ns) for s in (folder / "cache").glob("*/stage.json")]


@pytest.mark.parametrize("stage", STAGES)
def test_killed(stage: str, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, stage, *_command(tmp_path)],
        env=_environment(tmp_path),
        check=False,
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (tmp_path / "out").exists()
    staged = _staged(tmp_path)
    assert bool(staged) == STAGES[stage]
    assert _attribute(tmp_path) == undisturbed
    if staged:
        assert _staged(tmp_path) == staged, "what was staged whole is used again"
    assert not list(tmp_path.rglob(".lanescope-*")), "nothing of the killed run stays"
