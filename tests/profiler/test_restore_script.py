"""The restore script by itself: one file, any Python, any number of calls at once."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lanescope.profiler.adapters import procs
from lanescope.profiler.window import restore_script
from tests.profiler.parts import KEY, SERVER, ProcessBench


def test_needs_the_standard_library_alone() -> None:
    tree = ast.parse(restore_script.source())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    assert names <= sys.stdlib_module_names


def test_interpreter_is_not_ours() -> None:
    found = Path(restore_script.interpreter())
    assert not found.is_relative_to(sys.prefix)


@pytest.mark.nsight
def test_two_calls_at_once_start_one_incumbent(bench: ProcessBench) -> None:
    bench.quick()
    assert bench.capture().returncode == 0
    (pid,) = servers(bench)
    os.kill(pid, signal.SIGKILL)
    command = [restore_script.interpreter(), "-I", "-S", str(bench.state / "restore.py")]
    calls = [
        subprocess.Popen([*command, "restore", "hand"], env={}, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    answers = [json.loads(call.communicate(timeout=60)[0]) for call in calls]
    assert {a["status"] for a in answers} == {"WINDOW_RESTORE_OK"}
    assert sorted(a["starts"] for a in answers) == [0, 1]
    assert len(servers(bench)) == 1
    assert KEY not in json.dumps(answers)
    # and once more: nothing to do
    again = subprocess.run([*command, "restore", "hand"], env={}, capture_output=True, check=False)
    assert json.loads(again.stdout)["starts"] == 0


def servers(bench: ProcessBench) -> list[int]:
    """Servers on this bench's port."""
    return [
        p
        for p in procs.pids()
        if str(SERVER) in (line := procs.argv(p)) and str(bench.port) in line and procs.alive(p)
    ]
