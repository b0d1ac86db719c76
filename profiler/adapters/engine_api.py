"""The container engine's HTTP interface, as much of it as a window needs.

Standard library only: this file is also a part of the restore script, which must run without this
program's environment.
"""

from __future__ import annotations

import http.client
import json
import socket
import struct
import urllib.parse
from typing import Any


class EngineError(Exception):
    """The engine answered with an error, or not at all (`status` 0)."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"container engine: {status or 'no answer'}: {text}")
        self.status = status


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Engine:
    """A container engine behind `unix:///path` or `tcp://host:port`."""

    def __init__(self, host: str) -> None:
        self.host = host

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        scheme, _, rest = self.host.partition("://")
        if scheme == "unix":
            return _UnixConnection(rest, timeout)
        return http.client.HTTPConnection(rest, timeout=timeout)

    def raw(
        self, method: str, path: str, body: Any = None, timeout: float = 60.0, ok: Any = (200, 299)
    ) -> bytes:
        """The bytes of an answer. Raises `EngineError`, with status 0 where none came."""
        connection = self._connection(timeout)
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as exc:
            raise EngineError(0, f"{self.host}: {exc or type(exc).__name__}") from exc
        finally:
            connection.close()
        if not (ok[0] <= response.status <= ok[1]) and response.status != 304:
            raise EngineError(response.status, _message(content))
        return content

    def call(self, method: str, path: str, body: Any = None, timeout: float = 60.0) -> Any:
        """The JSON of an answer; None where it is empty."""
        content = self.raw(method, path, body, timeout)
        return json.loads(content) if content.strip() else None

    def inspect(self, container: str) -> dict[str, Any] | None:
        """A container's record; None only where the engine says "no such container"."""
        try:
            found: dict[str, Any] = self.call("GET", f"/containers/{_quoted(container)}/json")
        except EngineError as exc:
            if exc.status == 404 and "no such container" in str(exc).lower():
                return None
            raise
        return found

    def image(self, reference: str) -> dict[str, Any] | None:
        """An image's record; None where the engine does not have it."""
        try:
            found: dict[str, Any] = self.call("GET", f"/images/{_quoted(reference)}/json")
        except EngineError as exc:
            if exc.status == 404:
                return None
            raise
        return found

    def start(self, container: str) -> None:
        """Start a container; one that runs already is left alone."""
        self.call("POST", f"/containers/{_quoted(container)}/start")

    def stop(self, container: str, grace_s: float) -> None:
        """Ask a container to end, by force after the grace; one that is down is left alone."""
        seconds = max(1, int(grace_s))
        path = f"/containers/{_quoted(container)}/stop?t={seconds}"
        self.call("POST", path, timeout=seconds + 60)

    def logs(self, container: str, timestamps: bool = True) -> bytes:
        """Both streams of a container's log, in order."""
        query = f"stdout=1&stderr=1&timestamps={int(timestamps)}"
        return _demultiplexed(
            self.raw("GET", f"/containers/{_quoted(container)}/logs?{query}", timeout=300)
        )

    def run_inside(self, container: str, argv: list[str], timeout: float) -> tuple[int, str]:
        """Run a command in a running container: its exit code and what it printed."""
        spec = {"Cmd": argv, "AttachStdout": True, "AttachStderr": True}
        made = self.call("POST", f"/containers/{_quoted(container)}/exec", spec)
        output = self.raw(
            "POST", f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False}, timeout
        )
        state = self.call("GET", f"/exec/{made['Id']}/json")
        code = state["ExitCode"]
        return (-1 if code is None else int(code)), _demultiplexed(output).decode(errors="replace")


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe=":@")


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace")[:300]


def _demultiplexed(data: bytes) -> bytes:
    """The engine frames both streams: stream (1 byte), 3 zero bytes, length (4), then the text."""
    out, at = [], 0
    while at + 8 <= len(data):
        if data[at] > 2 or data[at + 1 : at + 4] != b"\0\0\0":
            return data  # a terminal's stream has no frames
        (size,) = struct.unpack(">I", data[at + 4 : at + 8])
        out.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return b"".join(out)
