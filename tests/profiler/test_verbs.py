"""The verbs beside `capture`: probe, lane, doctor, windows; on a server without GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.profiler.parts import KEY, SERVER, Bench, DockerBench, free_port, serving

Serve = Callable[..., str]


@pytest.fixture
def serve(unstarted: Bench) -> Iterator[Serve]:
    """Starts a test server with flags; its address."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*more: str) -> str:
        port = str(free_port())
        words = [sys.executable, str(SERVER), "--port", port, "--api-key", KEY, *more]
        started.append(subprocess.Popen(words, stdout=subprocess.DEVNULL))
        ready = {**unstarted.ready(), "url": f"http://127.0.0.1:{port}"}
        for _ in range(600):
            if not serving(ready, KEY):
                break
        return str(ready["url"])

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_probe_by_address(unstarted: Bench, serve: Serve) -> None:
    url = serve()
    words = ["probe", url, "--key-file", str(unstarted.folder / "key"), "--max-tokens", "10"]
    rows = unstarted.folder / "rows.jsonl"
    done = unstarted.call(*words, "--concurrency", "1,2", "--json", "--rows", str(rows))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["sent"] == {"requests": 8, "prompt_tokens": found["sent"]["prompt_tokens"],
                             "generation_tokens": 80}  # fmt: skip
    assert found["contamination"]["verdict"] == "clean"
    # two tokens a chunk; a rate is the inverse of the gap per token
    written = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [(r["completion_tokens"], r["chunks"]) for r in written] == [(10, 5)] * 8
    for row in written:
        assert row["decode_tokens_per_s"] * row["gap_per_token_ns"] == pytest.approx(1e9)
    again = unstarted.call(*words, "--rows", str(rows))
    assert again.returncode == 2
    assert "exists" in again.stderr


def test_probe_of_a_server_that_says_little(unstarted: Bench, serve: Serve) -> None:
    url = serve("--no-metrics", "--no-usage")
    words = ["probe", url, "--key-file", str(unstarted.folder / "key"), "--max-tokens", "6"]
    done = unstarted.call(*words, "--chat", "--model", "tiny", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["contamination"]["verdict"] == "unknown"
    assert found["acceptance"]["rate"] is None
    assert len(found["not_reported"]) == 2
    # six tokens in three chunks: chunks are counted, and that is said
    assert found["by_concurrency"][0]["completion_tokens"] == 4 * 3
    shown = unstarted.call(*words)
    assert "chunks were counted as tokens" in " ".join(shown.stdout.split())


def test_probe_without_key_and_without_server(unstarted: Bench, serve: Serve) -> None:
    done = unstarted.call("probe", serve())
    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) == 1
    done = unstarted.call("probe", f"http://127.0.0.1:{free_port()}", "--model", "m")
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1


def test_lane_check_and_diff(unstarted: Bench) -> None:
    unstarted.candidate["environment"] = {"PATH": "/usr/bin:/bin", "HF_HOME": "/models"}
    unstarted.write()
    files = [str(unstarted.folder / f) for f in ("incumbent.toml", "candidate.toml")]
    assert unstarted.call("lane", "check", *files).returncode == 0
    found = json.loads(unstarted.call("lane", "diff", *files, "--json").stdout)
    assert sorted(found, key=lambda d: d["axis"]) == [
        {"axis": "command.--step-s", "a": None, "b": "0.003"},
        {"axis": "environment.HF_HOME", "a": None, "b": "/models"},
    ]
    assert "no difference" in unstarted.call("lane", "diff", files[0], files[0]).stdout


@pytest.mark.nsight
@pytest.mark.docker
def test_lane_diff_against_a_running_container(containers: DockerBench) -> None:
    containers.write()
    lane, running = str(containers.folder / "incumbent.toml"), f"docker:{containers.container}"
    found = json.loads(containers.call("lane", "diff", lane, running, "--json").stdout)
    # the bench starts it without the lane's PATH; nothing else differs, the key neither
    assert [d["axis"] for d in found] == ["environment.PATH"]
    other = str(containers.folder / "candidate.toml")
    found = json.loads(containers.call("lane", "diff", other, running, "--json").stdout)
    assert {d["axis"] for d in found} == {"environment.PATH", "image", "command.--step-s"}
    assert KEY not in json.dumps(found)


def test_doctor(unstarted: Bench) -> None:
    done = unstarted.call("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = {row["what"]: row for row in json.loads(done.stdout)}
    assert {"nsys", "GPU", "container engine", "systemd timer", "disk here"} <= set(found)
    for row in found.values():
        assert row["can"] or row["remedy"], row
    assert "This machine" in unstarted.call("doctor").stdout


def test_no_windows_yet(unstarted: Bench) -> None:
    assert unstarted.call("windows", "list").stdout.strip() == "no windows yet"
    done = unstarted.call("windows", "show", "none")
    assert done.returncode == 2
    assert unstarted.call("capture", "status").returncode == 2
