"""A real container engine and a real registry for the tests, on sockets and ports of their own.

Bridge networking is off (containers use the host's network). The image is a few files made here and
pushed, so that it has a real digest; containers mount this machine's Python.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from lanescope.profiler.adapters import procs
from lanescope.profiler.adapters.engine_api import Engine, EngineError
from tests.profiler.parts import free_port

#: a test run that is ended from outside takes its services with it
WITH_US = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []


def why_not() -> str:
    """Why no engine can be started here; empty where it can."""
    if os.geteuid() != 0:
        return "a container engine of its own needs root"
    for program in ("dockerd", "docker-registry"):
        if not shutil.which(program):
            return f"{program} is not installed (tests/setup/services.sh)"
    return ""


class DockerEngine:
    """One engine with one registry."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.host = f"unix://{self.socket}"
        self.engine = Engine(self.host)
        self.registry_port = free_port()
        self.places = mount_places()
        #: pins of the images that the benches use
        self.pins: dict[str, str] = {}
        self._daemon: subprocess.Popen[bytes] | None = None
        self._registry: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start both and wait for their answers."""
        self.start_registry()
        self.start_daemon()
        self.pins = {n: self.image(n, n) for n in ("incumbent", "candidate")}

    def start_daemon(self) -> None:
        """Start the engine alone."""
        words = [*WITH_US, "dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none"]
        words += ["--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec"]
        words += ["--pidfile", f"{self.folder}/dockerd.pid", "-H", self.host]
        words += ["--insecure-registry", f"127.0.0.1:{self.registry_port}"]
        with (self.folder / "dockerd.log").open("ab") as log:
            self._daemon = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._await(lambda: bool(self.engine.call("GET", "/version")), self._daemon)

    def start_registry(self) -> None:
        """Start the registry alone."""
        settings = self.folder / "registry.yml"
        settings.write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {self.folder}/registry}}}}\n"
            f"http: {{addr: '127.0.0.1:{self.registry_port}'}}\n"
        )
        with (self.folder / "registry.log").open("ab") as log:
            self._registry = subprocess.Popen(
                [*WITH_US, "docker-registry", "serve", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._await(lambda: procs.port_taken(self.registry_port), self._registry)

    def _await(self, there: Any, process: subprocess.Popen[bytes]) -> None:
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            assert process.poll() is None, (self.folder / "dockerd.log").read_text()[-2000:]
            with contextlib.suppress(EngineError):
                if there():
                    return
            time.sleep(0.1)
        raise AssertionError("the engine did not come up")

    def stop_daemon(self) -> None:
        """End the engine as a service manager would."""
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGTERM)
            try:
                self._daemon.wait(40)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait(10)
            self._daemon = None

    def stop(self) -> None:
        """End both, with every container, and leave no mount behind."""
        with contextlib.suppress(EngineError):
            for row in self.engine.call("GET", "/containers/json?all=1"):
                self.engine.call("DELETE", f"/containers/{row['Id']}?force=1&v=1")
        self.stop_daemon()
        if self._registry is not None:
            self._registry.terminate()
            self._registry.wait(10)
        for pid in procs.pids():  # shims and the like, by this engine's own folder
            if any(str(self.folder) in word for word in procs.argv(pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            where = line.split()[1]
            if where.startswith(str(self.folder)):
                subprocess.run(["umount", "-l", where], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def image(self, tag: str, marker: str) -> str:
        """Make an image of empty mount points and one marker file; push it; its pin."""
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            for name in ("usr", "lib", "lib64", "bin", "tmp", "etc", "proc", "sys", "dev"):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
                tar.addfile(entry)
            text = marker.encode()
            entry = tarfile.TarInfo("etc/marker")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
        repository = f"127.0.0.1:{self.registry_port}/{tag}"
        self._cli("import", "-", repository, data=layer.getvalue())
        self._cli("push", "-q", repository)
        found = self.engine.image(repository)
        assert found
        return str(found["RepoDigests"][0])

    def _cli(self, *words: str, data: bytes = b"") -> str:
        done = subprocess.run(
            ["docker", "-H", self.host, *words], input=data, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def run(self, name: str, pin: str, command: list[str], **more: Any) -> str:
        """Create and start a container as a person would; its id."""
        host = {"NetworkMode": "host", "Binds": machine_mounts(), **more.pop("HostConfig", {})}
        spec = {"Image": pin, "Entrypoint": command[:1], "Cmd": command[1:], "HostConfig": host}
        made = self.engine.call("POST", f"/containers/create?name={name}", {**spec, **more})
        self.engine.start(made["Id"])
        return str(made["Id"])


def mount_places() -> list[str]:
    """What a container needs of this machine to run its Python."""
    tests = str(Path(__file__).resolve().parent)
    wanted = ["/usr", "/lib", "/lib64", "/bin", sys.base_prefix, sys.prefix, tests]
    return [p for p in dict.fromkeys(wanted) if Path(p).exists()]


def machine_mounts() -> list[str]:
    """The same as read-only binds."""
    return [f"{p}:{p}:ro" for p in mount_places()]
