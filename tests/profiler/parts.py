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
            [sys.executable, "-m", "lanescope", *words],
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
        return subprocess.Popen(
            [sys.executable, "-m", "lanescope", "capture", str(self.write()), "--release"],
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
        return max((self.folder / "out").iterdir(), key=lambda p: p.stat().st_ctime)

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

    def failsafes(self) -> list[int]:
        """Watchdogs of this bench that wait."""
        mine = str(Path(os.environ["LANESCOPE_STATE"]))
        return [
            p for p in procs.pids() if "watch" in (line := procs.argv(p)) and mine in " ".join(line)
        ]


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
            [*self.incumbent["command"], *more],
            env={"PATH": "/usr/bin:/bin", "SERVER_API_KEY": KEY},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert not self.await_serving(), "the test's own incumbent does not serve"

    def clean(self) -> None:
        """End what this bench started, and nothing else."""
        for pid in procs.pids():
            line = procs.argv(pid)
            if str(SERVER) in line and str(self.port) in line:
                os.kill(pid, signal.SIGKILL)
        for pid in self.failsafes():
            os.kill(pid, signal.SIGUSR1)


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
