"""Fault matrix: nsys, the candidate, other clients, the incumbent's return, the clock."""

from __future__ import annotations

import json
import time

import pytest

from tests.profiler.faults import expect
from tests.profiler.parts import KEY, ProcessBench, ask, broken_nsys, failing_import

pytestmark = pytest.mark.nsight


def flags(bench: ProcessBench, *more: str) -> None:
    """Flags for the candidate's server."""
    bench.candidate["command"] = [*bench.candidate["command"], *more]


def test_nsys_missing(bench: ProcessBench) -> None:
    bench.candidate["tracer"] = {**bench.candidate["tracer"], "nsys": "/no/such/place"}
    done = bench.capture()
    expect("nsys-missing", done.returncode, bench)
    assert "/no/such/place" in done.stderr


STOPS = {
    "nsys-hang": ("stop", "sleep 600", "no end within"),
    "nsys-qdstrm": (
        "stop",
        'echo data > "$TMPDIR/report.qdstrm"; exit 0',
        "QdstrmImporter -i",
    ),
    "nsys-nothing": (
        "stop",
        "find \"$TMPDIR\" -name '*.qdstrm' -delete; exit 0",
        "nsys left no report",
    ),
    "nsys-no-reports": ("stop", "echo No reports were generated; exit 0", "no reports"),
    "nsys-crash": ("launch", "exit 139", "ended before it was ready"),
}


@pytest.mark.parametrize("name", STOPS)
def test_nsys(bench: ProcessBench, name: str) -> None:
    bench.quick()
    bench.change(durations={"stop_s": 3})
    command, body, says = STOPS[name]
    broken_nsys(bench, command, body)
    done = bench.capture()
    expect(name, done.returncode, bench)
    assert says in done.stdout


def test_import_fails_once(bench: ProcessBench) -> None:
    """Once in the self-test, and once with the window's own report."""
    bench.quick()
    flag = failing_import(bench)
    runner = bench.begin()
    bench.until(runner, "control_probe")
    flag.unlink()
    code, _ = bench.end_of(runner)
    expect("nsys-import", code, bench)
    assert bench.receipt("preflight")["facts"]["nsys"]["attempts"] == 2
    facts = bench.receipt("profile_stopped")["facts"]
    assert flag.exists()
    assert facts["imported_again"].endswith(".qdstrm")
    assert facts["report"].endswith(".nsys-rep")


CANDIDATES = {
    "exits": ["--exit-at-once"],
    "never-ready": ["--never-ready"],
    "dies": ["--die-after", "3"],
    "ignores-term": ["--ignore-term"],
    "leaves-child": ["--leave-child"],
    "no-metrics": ["--no-metrics"],
}


@pytest.mark.parametrize("name", CANDIDATES)
def test_candidate(bench: ProcessBench, name: str) -> None:
    bench.quick()
    flags(bench, *CANDIDATES[name])
    if name == "never-ready":
        bench.candidate["ready"] = {**bench.candidate["ready"], "budget_s": 2}
    done = bench.capture()
    expect(name, done.returncode, bench)
    if name == "no-metrics":
        figures = json.loads((bench.output / "probe-profiled.json").read_text())
        assert figures["contamination"]["verdict"] == "unknown"
        assert "no metrics endpoint" in figures["contamination"]["unknown"][0]


def running(bench: ProcessBench) -> str:
    """The server's own line about running requests."""
    _, text = ask(f"http://127.0.0.1:{bench.port}/metrics", KEY)
    return next((x for x in text.splitlines() if x.startswith("vllm:num_requests_running")), "")


def test_second_client(bench: ProcessBench) -> None:
    bench.quick()
    flags(bench, "--step-s", "0.05")
    bench.change(probe={"max_tokens": 40})
    runner = bench.begin()
    bench.until(runner, "profiled_probe")
    body = {"model": "tiny", "prompt": "intruder", "max_tokens": 2}
    url = f"http://127.0.0.1:{bench.port}/v1/completions"
    while "running{" in (seen := running(bench)) and seen.endswith(" 0"):
        time.sleep(0.02)  # until the profiled probe's own request is there
    ask(url, KEY, body)
    code, _ = bench.end_of(runner)
    expect("second-client", code, bench)
    figures = json.loads((bench.output / "probe-profiled.json").read_text())
    found = figures["contamination"]
    assert found["verdict"] == "contaminated"
    assert "requests moved by 2, sent from here 1" in found["reasons"]
    assert "ttft" in found["invalid_figures"]
    control = json.loads((bench.output / "probe-control.json").read_text())
    assert control["contamination"]["verdict"] == "clean"


def test_first_start_fails(bench: ProcessBench) -> None:
    bench.quick()
    flag = bench.folder / "fail-once"
    bench.incumbent["command"] = [*bench.incumbent["command"], "--fail-once", str(flag)]
    bench.clean_servers()
    bench.start_incumbent()
    flag.touch()
    done = bench.capture()
    expect("first-start-fails", done.returncode, bench)
    assert bench.receipt("incumbent_restored")["facts"]["starts"] == 2


#: moves what a Python process reads from its wall clock by the seconds in a file
JUMP = """
import os, time
def shift():
    with open(os.environ["CLOCK_FILE"]) as file:
        return int(file.read())
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + shift()
time.time_ns = lambda: real_ns() + shift() * 10**9
"""


def test_clock_jumps(bench: ProcessBench) -> None:
    """The machine's own clock is everybody's: the runner's wall clock jumps, the boot clock not."""
    bench.quick()
    file = bench.folder / "clock"
    file.write_text("0")
    (bench.folder / "sitecustomize.py").write_text(JUMP)
    bench.environment |= {"PYTHONPATH": str(bench.folder), "CLOCK_FILE": str(file)}
    runner = bench.begin()
    bench.until(runner, "control_probe")
    file.with_suffix(".new").write_text(str(3 * 86400))
    file.with_suffix(".new").rename(file)
    code, _ = bench.end_of(runner)
    expect("clock", code, bench)
    assert bench.fired() == 0
    days = [bench.receipt(s)["began"][:10] for s in ("preflight", "incumbent_restored")]
    assert days[0] < days[1]  # it did jump
