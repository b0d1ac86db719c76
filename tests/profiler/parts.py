"""Building a window around real parts, and asking how it went."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lanescope.profiler.adapters import procs
from lanescope.profiler.adapters.completion import ask, serving
from lanescope.profiler.adapters.engine_api import EngineError

SERVER = Path(__file__).with_name("server.py")
KEY = "sekret-api-key-7f3a91"
PROMPTS = "".join(json.dumps({"id": f"p{n}", "prompt": "one two " * n}) + "\n" for n in range(1, 5))


def nsys_folder() -> Path | None:
    """Nsight Systems as the tests find it: a variable, the usual place, or PATH."""
    named = os.environ.get("LANESCOPE_NSYS")
    for place in [Path(named)] if named else [Path("/opt/nsight")]:
        if os.access(place / "bin/nsys", os.X_OK):
            return place
    found = shutil.which("nsys")
    return Path(found).resolve().parent if found else None


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def toml(data: Mapping[str, Any]) -> str:
    """A TOML document (JSON spells these values the same way)."""
    plain = {k: v for k, v in data.items() if not isinstance(v, Mapping)}
    lines = [f"{k} = {_value(v)}" for k, v in plain.items()]
    for key, table in data.items():
        if isinstance(table, Mapping):
            lines.append(f"[{key}]")
            lines += [f"{json.dumps(k)} = {_value(v)}" for k, v in table.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)


def merged(base: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with changes laid over it, table by table; None removes a key."""
    out = dict(base)
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(out.get(key), dict):
            out[key] = merged(out[key], value)
        elif value is None:
            out.pop(key, None)
        else:
            out[key] = value
    return out


class Bench:
    """A folder with lanes, window and prompts; how to run a window and judge its end."""

    def __init__(self, folder: Path, nsys: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.nsys = folder, nsys
        self.environment = dict(environment)
        self.port = free_port()
        #: words before every command: a systemd box's, say
        self.prefix: list[str] = []
        (folder / "key").write_text(KEY + "\n")
        (folder / "prompts.jsonl").write_text(PROMPTS)
        self.incumbent, self.candidate = self.lane("incumbent"), self.lane("candidate")
        self.candidate["command"] = [*self.candidate["command"], "--step-s", "0.003"]
        self.window: dict[str, Any] = {
            "name": "w",
            "output": "out",
            "incumbent": {"lane": "incumbent.toml"},
            "candidate": {"lane": "candidate.toml"},
            "probe": {"prompts": "prompts.jsonl", "max_tokens": 12, "warmup": 1},
            "durations": {"settle_s": 0.2, "stable_s": 0.3, "stop_s": 20},
            "failsafe": {"deadline_s": 60, "proof_s": 0.5, "lease_s": 4},
            "checks": {"free_gib": 0.01},
        }
        self.bystanders()

    def lane(self, name: str) -> dict[str, Any]:
        raise NotImplementedError

    def write(self) -> Path:
        """Write all three files; the window's path."""
        (self.folder / "incumbent.toml").write_text(toml(self.incumbent))
        (self.folder / "candidate.toml").write_text(toml(self.candidate))
        path = self.folder / "window.toml"
        path.write_text(toml(self.window))
        return path

    def change(self, **changes: Any) -> None:
        """Lay changes over the window."""
        self.window = merged(self.window, changes)

    def call(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """The command line, from outside."""
        return subprocess.run(
            [*self.prefix, sys.executable, "-m", "lanescope", *words],
            env=self.environment | self._places(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def _places(self) -> dict[str, str]:
        return {n: os.environ[n] for n in ("LANESCOPE_STATE", "LANESCOPE_CATALOGUE")}

    def capture(self, *options: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Release and run the window."""
        return self.call("capture", str(self.write()), "--release", *options, timeout=timeout)

    def begin(self) -> subprocess.Popen[str]:
        """Release and run the window without waiting for it."""
        words = [sys.executable, "-m", "lanescope", "capture"]
        return subprocess.Popen(
            [*self.prefix, *words, str(self.write()), "--release"],
            env=self.environment | self._places() | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    # -- how it went -------------------------------------------------------------------------------

    @property
    def state(self) -> Path:
        """The private state folder of the last run."""
        runs = (Path(os.environ["LANESCOPE_STATE"]) / "runs").iterdir()
        return max(runs, key=lambda p: p.stat().st_ctime)

    @property
    def output(self) -> Path:
        """The output folder of the last run."""
        return self.folder / self.window["output"] / self.state.name

    def receipt(self, state: str) -> dict[str, Any]:
        """The receipt of one state."""
        (path,) = (self.output / "receipts").glob(f"*-{state}.json")
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def receipts(self) -> list[dict[str, Any]]:
        """All receipts in order."""
        return [json.loads(p.read_text()) for p in sorted((self.output / "receipts").glob("*"))]

    def serving(self) -> str:
        """Why the incumbent does not serve now; empty where it does."""
        ready = self.ready()
        return serving(ready, KEY, timeout=10)

    def ready(self) -> dict[str, Any]:
        """What "serving" means here."""
        return {
            "url": f"http://127.0.0.1:{self.port}",
            "health": "/health",
            "models": "/v1/models",
            "model": "tiny",
            "completions": "/v1/completions",
        }

    def await_serving(self, seconds: float = 30) -> str:
        """Wait for the incumbent; why not, where it does not come."""
        limit = time.monotonic() + seconds
        while (why := self.serving()) and time.monotonic() < limit:
            time.sleep(0.1)
        return why

    def until(self, runner: subprocess.Popen[str], state: str) -> None:
        """Read what the runner says until it enters a state."""
        assert runner.stdout
        said = []
        for line in runner.stdout:
            said.append(line)
            if f" {state}:" in line and "/" in line.split()[0]:
                return
        raise AssertionError(f"the runner never came to {state}: {''.join(said)}")

    def end_of(self, runner: subprocess.Popen[str], seconds: float = 90) -> tuple[int, str]:
        """Exit code and the rest of what it said."""
        said, _ = runner.communicate(timeout=seconds)
        return runner.returncode, said

    def quick(self) -> None:
        """The shortest window that still does everything."""
        (self.folder / "prompts.jsonl").write_text(PROMPTS.splitlines(keepends=True)[0])
        self.change(
            probe={"max_tokens": 4, "warmup": 1},
            durations={"settle_s": 0, "stable_s": 0.2, "stop_s": 8},
            failsafe={"proof_s": 0.2, "lease_s": 3},
            checks={"require_idle": False},
        )

    def bystanders(self) -> None:
        """A process and an earlier result that no window may touch."""
        self.bystander = subprocess.Popen(["sleep", "600"])
        self.earlier = self.folder / "out" / "earlier-20260101T000000Z"
        self.earlier.mkdir(parents=True, exist_ok=True)
        (self.earlier / "WINDOW.md").write_text("done long ago\n")

    def fired(self) -> int:
        """How often the failsafe went off."""
        return len(list(self.state.glob("restore-failsafe-*.json")))

    def safe(self) -> None:
        """What holds after every window, however it went."""
        assert self.serving() == "", self.story()
        assert self.failsafes() == []
        runs = Path(os.environ["LANESCOPE_STATE"]) / "runs"
        if runs.exists():
            assert self.fired() <= 1
            assert procs.marked(self.state.name) == []
        assert self.bystander.poll() is None
        assert [p.name for p in self.earlier.iterdir()] == ["WINDOW.md"]
        assert (self.earlier / "WINDOW.md").read_text() == "done long ago\n"

    def story(self) -> str:
        """For a failed test: the receipts' errors and the restore script's answers."""
        lines = [f"{r['state']}: {r['status']} {r['error']}" for r in self.receipts()]
        lines += [p.read_text() for p in self.state.glob("restore-*.json")]
        return "\n".join(lines)

    def failsafes(self) -> list[int]:
        """Watchdogs of this bench that wait."""
        mine = str(Path(os.environ["LANESCOPE_STATE"]))
        return [
            p for p in procs.pids() if "watch" in (line := procs.argv(p)) and mine in " ".join(line)
        ]


def kill_runner(runner: subprocess.Popen[str]) -> None:
    """SIGKILL to a runner, also where it runs below nsenter; not to what it started elsewhere."""
    children = [p for p in procs.pids() if procs.parent(p) == runner.pid]
    below = [p for p in children if "lanescope" in procs.argv(p)]
    for pid in [*below, runner.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    runner.wait(10)


class ProcessBench(Bench):
    """Both lanes are processes of this machine."""

    def lane(self, name: str) -> dict[str, Any]:
        """A lane of the test server."""
        command = [sys.executable, str(SERVER), "--port", str(self.port), "--model", "tiny"]
        return {
            "name": name,
            "launcher": "process",
            "command": command,
            "ports": [self.port],
            "environment": {"PATH": "/usr/bin:/bin"},
            "secrets": {"SERVER_API_KEY": {"file": str(self.folder / "key")}},
            "ready": {
                "url": f"http://127.0.0.1:{self.port}",
                "model": "tiny",
                "api_key": "SERVER_API_KEY",
                "budget_s": 15,
            },
            "shutdown": {"grace_s": 2},
            "tracer": {"nsys": str(self.nsys), "trace": ["nvtx"]},
        }

    def start_incumbent(self, *more: str) -> None:
        """Start the incumbent as somebody else would have."""
        subprocess.Popen(
            [*self.prefix, *self.incumbent["command"], *more],
            env={"PATH": "/usr/bin:/bin", "SERVER_API_KEY": KEY},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert not self.await_serving(), "the test's own incumbent does not serve"

    def clean_servers(self) -> None:
        """End this bench's servers: they carry its port."""
        for pid in procs.pids():
            line = procs.argv(pid)
            if str(SERVER) in line and str(self.port) in line:
                os.kill(pid, signal.SIGKILL)

    def clean(self) -> None:
        """End what this bench started, and nothing else."""
        ProcessBench.clean_servers(self)
        for pid in self.failsafes():
            os.kill(pid, signal.SIGUSR1)
        self.bystander.kill()
        self.bystander.wait()


#: a wrapper around the real nsys that misbehaves in one command
WRAPPER = """#!/bin/bash
if [ "$1" = {command} ]; then
{body}
fi
exec {real}/bin/nsys "$@"
"""


def broken_nsys(bench: ProcessBench, command: str, body: str) -> None:
    """Name an nsys in the lane that does `body` in one of its commands."""
    program = bench.folder / "nsys" / "bin" / "nsys"
    program.parent.mkdir(parents=True)
    program.write_text(WRAPPER.format(command=command, body=body, real=bench.nsys))
    program.chmod(0o755)
    for lane in (bench.incumbent, bench.candidate):
        lane["tracer"] = {**lane["tracer"], "nsys": str(program.parent.parent)}


#: an importer that fails the first time it is asked for a report, as the real one does now and then
IMPORTER = """#!/bin/bash
if [ "$1" != --version ] && [ ! -e {flag} ]; then touch {flag}; exit 1; fi
exec {real} "$@"
"""


def failing_import(bench: ProcessBench) -> Path:
    """Name an installation in the lanes whose first import fails; the file that says it did."""
    program = (bench.nsys / "bin/nsys").resolve()
    folder, flag = bench.folder / "nsys", bench.folder / "import-failed"
    for part in (program.parent, *program.parent.parent.glob("host-*")):
        (folder / part.name).mkdir(parents=True)
        for file in part.iterdir():
            (folder / part.name / file.name).symlink_to(file)
    copy = folder / program.parent.name / "nsys"  # it looks for the importer from where it lies
    copy.unlink()
    shutil.copy2(program, copy)
    for importer in folder.glob("host-*/QdstrmImporter"):
        real = importer.resolve()
        importer.unlink()
        importer.write_text(IMPORTER.format(flag=flag, real=real))
        importer.chmod(0o755)
    for lane in (bench.incumbent, bench.candidate):
        lane["tracer"] = {**lane["tracer"], "nsys": str(copy)}
    return flag


class DockerBench(Bench):
    """Both lanes are containers of a real engine."""

    def __init__(
        self, folder: Path, nsys: Path, environment: Mapping[str, str], docker: Any
    ) -> None:
        self.docker = docker
        self.container = f"incumbent-{free_port()}"
        super().__init__(folder, nsys, {**environment, "DOCKER_HOST": docker.host})
        self.change(incumbent={"lane": "incumbent.toml", "container": self.container})
        self.id = ""

    def lane(self, name: str) -> dict[str, Any]:
        """The test server in a container that mounts this machine's Python."""
        base = ProcessBench.lane(self, name)  # type: ignore[arg-type]
        mounts = [{"source": m, "target": m} for m in self.docker.places]
        pin = self.docker.pins[name]
        return {**base, "launcher": "docker", "image": pin, "mounts": mounts}

    def start_incumbent(self, *more: str, **spec: Any) -> None:
        """Start the incumbent as a person would have."""
        command = [*self.incumbent["command"], *more]
        environment = [f"SERVER_API_KEY={KEY}", *spec.pop("Env", [])]
        pin = self.incumbent["image"]
        self.id = self.docker.run(self.container, pin, command, Env=environment, **spec)
        assert not self.await_serving(), "the test's own incumbent does not serve"

    def candidates(self) -> list[str]:
        """Containers of windows that are still there."""
        rows = self.docker.engine.call("GET", "/containers/json?all=1")
        return [n for r in rows for n in r["Names"] if n.startswith("/lanescope-")]

    def clean(self) -> None:
        """Remove this bench's containers."""
        for name in [self.container, *self.candidates()]:
            with contextlib.suppress(EngineError):
                self.docker.engine.call("DELETE", f"/containers/{name.strip('/')}?force=1&v=1")
        ProcessBench.clean(self)  # type: ignore[arg-type]


__all__ = ["KEY", "Bench", "DockerBench", "ProcessBench", "ask", "free_port", "nsys_folder"]
