"""`lanescope ranks` as a user runs it: output, exit codes, bad input in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lanescope.schemas.documents.ranks import RanksDocument
from tests.conftest import trace_path


def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lanescope", "ranks", *map(str, args)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_reports_of_different_runs_are_refused_with_both_tables() -> None:
    done = run(trace_path("twoproc"), trace_path("gpus_index"))
    assert done.returncode == 1
    assert done.stderr == ""
    assert "not joined" in done.stdout
    assert "withheld: one_run" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    told = json.loads(run(trace_path("twoproc"), trace_path("gpus_index"), "--json").stdout)
    document = RanksDocument.model_validate(told)
    assert [(r.report, r.device) for r in document.ranks.ranks] == [(0, 0), (0, 0), (1, 0), (1, 1)]


def test_one_report() -> None:
    done = run(trace_path("gpus_index"))
    assert done.returncode == 0
    assert "2 ranks" in done.stdout
    assert "Skew across ranks" in done.stdout


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ((), 2, "Missing argument"),
        (("nowhere.sqlite",), 3, "nowhere.sqlite: no such file"),
        ((__file__, trace_path("k1")), 3, "test_ranks.py"),
        ((trace_path("k1"), "--clock-error", "soon"), 2, "'soon' is no time"),
        ((trace_path("k1"), "--window", "900..901"), 2, "900..901"),
    ],
)
def test_bad_input_is_one_line(args: tuple[str | Path, ...], code: int, said: str) -> None:
    done = run(*args)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
