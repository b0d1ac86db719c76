"""A whole window with lanes as processes, the watchdog as failsafe, and a real nsys."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

import pytest

from lanescope.profiler.adapters import procs
from lanescope.profiler.window.states import ALL
from tests.profiler.parts import ProcessBench, broken_nsys

pytestmark = pytest.mark.nsight


def test_whole_window(bench: ProcessBench) -> None:
    done = bench.capture()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "captured, no device activity" in done.stdout
    assert [r["state"] for r in bench.receipts()] == [s.name for s in ALL]
    assert {r["status"] for r in bench.receipts()} == {"ok"}
    # the incumbent serves, the failsafe is gone unfired, nothing of the candidate runs
    assert bench.serving() == ""
    assert bench.failsafes() == []
    assert bench.receipt("failsafe_disarmed")["facts"]["fired"] is False
    assert procs.marked(bench.output.name) == []
    assert bench.receipt("incumbent_restored")["facts"]["status"] == "WINDOW_RESTORE_OK"


def test_ranges_arrive_and_probes_count(bench: ProcessBench) -> None:
    bench.change(probe={"repetitions": 2, "concurrency": [1, 2]})
    assert bench.capture().returncode == 0
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
    body += f'lzma.open(sys.argv[1]).read())" {sample} "$target"; exit 0'
    broken_nsys(bench, "export", body)
    done = bench.capture()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().splitlines()[-1].startswith("done:")
    found = bench.receipt("attribution")["facts"]["attribution"]
    document = json.loads((bench.output / "attribution" / "attribution.json").read_text())
    assert document["coverage"]["kernels"] == truth["kernels"]
    assert found["steps"] == document["steps"]["measured"]
    listed = json.loads(bench.call("windows", "list", "--json").stdout)
    assert [w["outcome"] for w in listed] == ["done"]
    shown = json.loads(bench.call("windows", "show", listed[0]["run"], "--json").stdout)
    assert "attribution/attribution.json" in [a["path"] for a in shown["artifacts"]]
