"""Closed windows are attributed one by one, below everything else on the machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lanescope.attribution.many import engines
from lanescope.attribution.many.query import query
from lanescope.attribution.many.work import Outcome, Task
from lanescope.profiler.cli.main import main
from lanescope.profiler.window.offline import TRACE
from lanescope.schemas.catalogue import Window, open_catalogue
from tests.conftest import trace_path


def _window(tmp_path: Path, run: str, outcome: str | None, trace: Path | None) -> None:
    folder = tmp_path / run
    folder.mkdir()
    if trace is not None:
        shutil.copy(trace, folder / TRACE)
    store = open_catalogue(str(tmp_path / "catalogue.sqlite"))
    with store.write() as session:
        session.add(
            Window(
                run=run,
                incumbent="i",
                candidate="c",
                state="closed",
                outcome=outcome,
                folder=str(folder),
            )
        )
    store.close()


def test_tail(tmp_path: Path, unpacked: object, capsys: pytest.CaptureFixture[str]) -> None:
    plain = unpacked("apirange")  # type: ignore[operator]
    _window(tmp_path, "closed", "done", plain)
    _window(tmp_path, "running", None, plain)
    _window(tmp_path, "killed", "failed", None)
    assert trace_path("apirange").exists()
    args = ["windows", "tail", "--dataset", str(tmp_path / "d"), "--catalogue"]
    with pytest.raises(SystemExit) as ended:
        main([*args, str(tmp_path / "catalogue.sqlite")])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip().endswith(f"closed/{TRACE}: done")
    rows = query(tmp_path / "d", "SELECT path FROM attributions").rows.to_pylist()
    assert [Path(r["path"]).parent.name for r in rows] == ["closed"]


def _policy(_task: Task) -> Outcome:
    return Outcome(f"{os.sched_getscheduler(0)} {os.nice(0)}", "done")


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="Linux only")
def test_below_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines.work, "run", _policy)
    said = [o.path for o in engines.in_processes([Task("t", "d")], 1, idle=True)]
    assert said == [f"{os.SCHED_IDLE} 19"]
