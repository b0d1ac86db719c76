"""A whole window with lanes as processes, the watchdog as failsafe, and a real nsys."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from lanescope.profiler.adapters import procs
from lanescope.profiler.adapters.failsafe import Armed
from lanescope.profiler.adapters.watchdog import Watchdog
from lanescope.profiler.window import guard, live, restore_script
from lanescope.profiler.window.states import ALL
from lanescope.schemas.documents import toml
from lanescope.schemas.documents.lane import Lane
from lanescope.schemas.documents.window import Failsafe
from tests.profiler.parts import ProcessBench, broken_nsys

pytestmark = pytest.mark.nsight


def test_whole_window(bench: ProcessBench) -> None:
    done = bench.capture()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "captured, no device activity" in done.stdout
    assert [r["state"] for r in bench.receipts()] == [s.name for s in ALL]
    assert {r["status"] for r in bench.receipts()} == {"ok"}
    bound = json.loads((bench.output / "manifest.json").read_text())["files"]
    assert "window.html" in {f["path"] for f in bound}
    assert "captured, no device activity" in (bench.output / "window.html").read_text()
    # the incumbent serves, the failsafe is gone unfired, nothing of the candidate runs
    assert bench.serving() == ""
    assert bench.failsafes() == []
    assert bench.receipt("failsafe_disarmed")["facts"]["fired"] is False
    assert procs.marked(bench.output.name) == []
    assert bench.receipt("incumbent_restored")["facts"]["status"] == "WINDOW_RESTORE_OK"


def test_a_running_window_is_seen(bench: ProcessBench) -> None:
    """The dashboard's view: an armed failsafe, a probe whose tokens grow."""
    bench.change(probe={"repetitions": 4})
    runner = bench.begin()
    bench.until(runner, "control_probe")
    seen = []
    while runner.poll() is None and (now := live.running()):
        seen.append(now[0])
        if seen[-1].state == "profile_stopped":
            break
    code, said = bench.end_of(runner)
    assert code == 0, said
    assert all(w.runner_alive and w.touched for w in seen)
    left = [w.failsafe_fires_in_s for w in seen if w.failsafe_fires_in_s is not None]
    assert left
    assert all(0 < seconds <= 60 for seconds in left)
    told = [w.probe for w in seen if w.probe is not None and w.probe.phase == "control"]
    assert told
    assert [p.tokens for p in told] == sorted(p.tokens for p in told)
    assert all(p.done + p.in_flight <= p.asked for p in told)
    assert live.running() == []


def test_ranges_arrive_and_probes_count(bench: ProcessBench) -> None:
    bench.change(probe={"repetitions": 2, "concurrency": [1, 2]})
    bench.candidate["engine"] = {"k": 1, "layers": 75, "row_bytes": {"w13": 12582912}}
    bench.candidate["environment"] = {"PATH": "/usr/bin:/bin", "FLAVOUR": "vanilla-with-cream"}
    assert bench.capture().returncode == 0
    kept = toml.read(bench.output / "lane.toml", Lane)
    assert kept.engine.row_bytes == {"w13": 12582912}
    assert kept.command == bench.candidate["command"]
    assert "vanilla-with-cream" not in (bench.output / "lane.toml").read_text()
    profiled = json.loads((bench.output / "probe-profiled.json").read_text())
    # 4 prompts x 2 repetitions x 2 levels, 12 tokens each, by the server's own counters
    assert profiled["sent"]["requests"] == 16
    assert profiled["sent"]["generation_tokens"] == 16 * 12
    assert profiled["contamination"]["verdict"] == "clean"
    # the server drafts one token a step and accepts it: 12 tokens are 6 steps of 2
    assert profiled["acceptance"] == {
        "rate": 1.0,
        "mean_length": 2.0,
        "drafts": 96.0,
        "drafted_tokens": 96.0,
        "accepted_tokens": 96.0,
    }
    with sqlite3.connect(bench.output / "trace.sqlite") as db:
        query = """SELECT count(*) FROM NVTX_EVENTS AS e LEFT JOIN StringIds AS s ON s.id = e.textId
                   WHERE coalesce(e.text, s.value) = ?"""
        counts = {n: db.execute(query, (n,)).fetchone()[0] for n in ("spec_verify", "prefill")}
    assert counts == {"spec_verify": 96, "prefill": 16}


def test_receipt_verify(bench: ProcessBench) -> None:
    assert bench.capture().returncode == 0
    assert bench.call("receipt", "verify", str(bench.output)).returncode == 0
    with (bench.output / "WINDOW.md").open("a") as file:
        file.write("better than it was\n")
    done = bench.call("receipt", "verify", str(bench.output))
    assert done.returncode == 3
    assert "WINDOW.md: altered" in done.stdout + done.stderr


def test_without_release_nothing_runs(bench: ProcessBench) -> None:
    path = bench.write()
    done = bench.call("capture", str(path))
    assert done.returncode != 0
    assert "not released" in done.stderr
    assert [p.name for p in (bench.folder / "out").iterdir()] == [bench.earlier.name]
    assert bench.call("capture", "release", str(path)).returncode == 0
    path.write_text(path.read_text().replace('max_tokens = 12', 'max_tokens = 13').replace(
        '"max_tokens" = 12', '"max_tokens" = 13'))  # fmt: skip
    done = bench.call("capture", str(path))
    assert "changed after its release" in done.stderr
    assert bench.serving() == ""


def test_attribution_of_a_trace_with_kernels(bench: ProcessBench) -> None:
    """The export of this window is a real GPU trace: the attribution and its row come with it."""
    bench.quick()
    sample = Path(__file__).parents[2] / "captures" / "samples" / "k1.sqlite.xz"
    truth = json.loads(sample.with_name("k1.reference.json").read_text())
    body = f'target="$5"; "{sys.executable}" -c "import lzma,sys; open(sys.argv[2],\'wb\').write('
    body += f'lzma.open(sys.argv[1]).read())" "{sample}" "$target"; exit 0'
    broken_nsys(bench, "export", body)
    (bench.folder / "rules.toml").write_text(
        'name = "r"\n[[bar]]\nmetric = "wall_ms"\nof = "candidate"\nstatistic = "point"\n'
        'direction = "above"\nthreshold = 0.0\n'
    )
    os.utime(bench.folder / "rules.toml", (1, 1))  # older than the data
    bench.change(gates=["rules.toml"])
    done = bench.capture(timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().splitlines()[-1].startswith("done:")
    found = bench.receipt("attribution")["facts"]["attribution"]
    document = json.loads((bench.output / "attribution" / "attribution.json").read_text())
    assert document["coverage"]["kernels"] == truth["kernels"]
    assert found["steps"] == document["steps"]["measured"]
    (gate,) = bench.receipt("attribution")["facts"]["gates"]
    assert (gate.get("verdict"), gate["exit_code"]) == ("pass", 0), gate
    listed = json.loads(bench.call("windows", "list", "--json").stdout)
    assert [w["outcome"] for w in listed] == ["done"]
    shown = json.loads(bench.call("windows", "show", listed[0]["run"], "--json").stdout)
    assert "attribution/attribution.json" in [a["path"] for a in shown["artifacts"]]


@pytest.mark.parametrize("mode", ["capture-range", "control-file"])
def test_other_ways_to_open_the_capture(bench: ProcessBench, mode: str) -> None:
    """nsys waits for a range; the server's endpoints or a polled file open and close it."""
    tracer = {"mode": mode, "range": "nvtx", "range_name": "lanescope_capture@*"}
    if mode == "control-file":
        file = str(bench.folder / "control")
        tracer["control_file"] = file
        bench.candidate["command"] += ["--control-file", file]
    bench.candidate["tracer"] = {**bench.candidate["tracer"], **tracer}
    done = bench.capture()
    assert done.returncode == 0, done.stdout + done.stderr
    with sqlite3.connect(bench.output / "trace.sqlite") as db:
        query = """SELECT count(*) FROM NVTX_EVENTS AS e LEFT JOIN StringIds AS s ON s.id = e.textId
                   WHERE coalesce(e.text, s.value) = 'spec_verify'"""
        # four prompts of 12 tokens, two a step: the control probe's steps are not in the report
        assert db.execute(query).fetchone()[0] == 4 * 6
    bench.safe()


def test_detached(bench: ProcessBench) -> None:
    bench.quick()
    done = bench.capture("--detach")
    assert done.returncode == 0, done.stderr
    run = done.stdout.splitlines()[0]
    limit = time.monotonic() + 60
    while not bench.call("capture", "status", run).stdout and time.monotonic() < limit:
        time.sleep(0.2)
    followed = bench.call("capture", "status", run, "--follow")
    assert "captured, no device activity" in followed.stdout.splitlines()[-1]
    bench.safe()


def test_dry_run_touches_nothing(bench: ProcessBench) -> None:
    done = bench.call("capture", "--dry-run", str(bench.write()))
    assert done.returncode == 0, done.stderr
    assert "command.--step-s: None -> 0.003" in done.stdout
    assert "ok: incumbent" in done.stdout
    assert [p.name for p in (bench.folder / "out").iterdir()] == [bench.earlier.name]
    assert not (bench.folder / "state" / "runs").exists()
    assert bench.serving() == ""


def test_deadline_is_extended_by_arming_the_next_first(bench: ProcessBench) -> None:
    """On a real watchdog: at no moment is there none, and the last is gone afterwards."""
    settings = Failsafe(deadline_s=30, lease_s=30)
    folder = bench.folder / "guard"
    folder.mkdir()
    command = restore_script.write(folder, {"key": None, "incumbent": {}, "candidate": {},
                                            "launcher": "process", "give_up_s": 1})  # fmt: skip
    keeper = guard.Guard(Watchdog(command, folder, 30), folder, settings)
    keeper.arm()
    first = list(keeper.armed)
    assert keeper.ensure(10) is False
    keeper.armed = [Armed(first[0].handle, first[0].deadline_boottime_s - 25)]
    assert keeper.ensure(20) is True
    assert keeper.remaining() > 20
    assert not keeper.failsafe.pending(first[0])
    assert len(keeper.armed) == 1
    assert keeper.failsafe.pending(keeper.armed[0])
    assert keeper.disarm()["fired"] is False
    assert not any(keeper.failsafe.pending(a) for a in keeper.armed)
