"""Fault matrix, the container engine and containers."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanescope.profiler.adapters.engine_api import Engine
from tests.profiler.faults import expect
from tests.profiler.parts import DockerBench

pytestmark = [pytest.mark.nsight, pytest.mark.docker]


class _Proxy(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Hands everything to the real engine, but answers one kind of request with an error."""

    daemon_threads = True
    real: str
    #: first words of the request line that gets a 500
    refuse: bytes = b"nothing"


class _Handler(socketserver.StreamRequestHandler):
    server: _Proxy

    def handle(self) -> None:
        line = self.rfile.readline()
        if line.startswith(self.server.refuse):
            body = b'{"message": "the engine is not well"}'
            self.wfile.write(b"HTTP/1.1 500 x\r\nContent-Type: application/json\r\n")
            self.wfile.write(b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self.server.real)
            engine.sendall(line)
            back = threading.Thread(target=self._copy_back, args=(engine,), daemon=True)
            back.start()
            while data := self.rfile.read1(65536):
                engine.sendall(data)
            back.join(1)

    def _copy_back(self, engine: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the other side went first
            while data := engine.recv(65536):
                self.wfile.write(data)
            self.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy(containers: DockerBench, tmp_path: Path) -> Iterator[_Proxy]:
    """The window speaks to the engine through this."""
    path = tmp_path / "proxy.sock"
    with _Proxy(str(path), _Handler) as server:
        server.real = str(containers.docker.socket)
        containers.environment["DOCKER_HOST"] = f"unix://{path}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_engine_down(containers: DockerBench) -> None:
    containers.environment["DOCKER_HOST"] = f"unix://{containers.folder}/none.sock"
    done = containers.capture()
    expect("engine-down", done.returncode, containers)
    assert "none.sock" in done.stdout


def test_absence_not_proved(containers: DockerBench, proxy: _Proxy) -> None:
    proxy.refuse = b"GET /containers/lanescope-"
    done = containers.capture()
    expect("name-taken", done.returncode, containers)
    assert "absence not proved" in done.stdout
    assert containers.fired() == 0


def test_engine_error_at_launch(containers: DockerBench, proxy: _Proxy) -> None:
    containers.quick()
    proxy.refuse = b"POST /containers/create?name=lanescope-"
    done = containers.capture()
    expect("engine-error", done.returncode, containers)
    assert "the engine is not well" in containers.receipt("candidate_launched")["error"]


def test_engine_restarts(containers: DockerBench) -> None:
    containers.quick()
    containers.candidate["command"] = [*containers.candidate["command"], "--step-s", "0.5"]
    containers.change(probe={"max_tokens": 60})
    runner = containers.begin()
    containers.until(runner, "control_probe")
    containers.docker.stop_daemon()
    containers.docker.start_daemon()
    code, _ = containers.end_of(runner)
    expect("engine-restart", code, containers)
    assert containers.candidates() == []


def test_other_digest(containers: DockerBench) -> None:
    repository = containers.docker.pins["candidate"].partition("@")[0]
    containers.candidate["image"] = f"{repository}@sha256:{'0' * 64}"
    done = containers.capture()
    expect("other-digest", done.returncode, containers)
    assert "is not on this machine" in done.stdout


def test_stopped_already(containers: DockerBench) -> None:
    Engine(containers.docker.host).stop(containers.id, 2)
    done = containers.capture()
    assert done.returncode == 3
    assert "is stopped already" in done.stdout
    found = containers.docker.engine.inspect(containers.id)
    assert found
    assert found["State"]["Running"] is False
    assert containers.failsafes() == []


def test_policy_always(containers: DockerBench) -> None:
    containers.quick()
    containers.clean()
    containers.start_incumbent(HostConfig={"RestartPolicy": {"Name": "always"}})
    containers.bystanders()
    # an image that was built here and never pushed is pinned by its id
    image = containers.docker.engine.image(containers.candidate["image"])
    assert image
    containers.candidate["image"] = image["Id"]
    done = containers.capture()
    expect("policy-always", done.returncode, containers)
    assert "always" in containers.receipt("preflight")["facts"]["launcher"]["note"]


@pytest.mark.parametrize(("name", "flag"), [("ignores-term", "--ignore-term"), ("dies", "")])
def test_candidate(containers: DockerBench, name: str, flag: str) -> None:
    containers.quick()
    more = [flag] if flag else ["--die-after", "3"]
    containers.candidate["command"] = [*containers.candidate["command"], *more]
    done = containers.capture()
    expect(name, done.returncode, containers)
    assert containers.candidates() == []
