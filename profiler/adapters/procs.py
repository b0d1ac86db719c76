"""Processes as /proc shows them: who they are, who belongs together, who holds a port.

Standard library only: this file is also a part of the restore script.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

#: the variable that marks every process of a window's candidate, whatever session it moved to
MARK = "LANESCOPE_LANE_RUN"

#: stands between an engine and its log file: puts a time before each line, and never fails, since
#: an engine dies of a log that cannot be written
PUMP = """
import datetime, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
log = None
for line in sys.stdin.buffer:
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds")
    try:
        log = log or open(sys.argv[1], "ab", buffering=0)
        log.write(now.replace("+00:00", "Z").encode() + b" " + line)
    except OSError:
        pass
"""


def pump(python: str, log: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start the pump in a session of its own; the engine writes into its standard input."""
    return subprocess.Popen(
        [python, "-I", "-S", "-c", PUMP, log],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def pids() -> list[int]:
    """Every process id that there is now."""
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]


def _read(pid: int, what: str) -> bytes:
    try:
        return Path("/proc", str(pid), what).read_bytes()
    except OSError:
        return b""


def argv(pid: int) -> list[str]:
    """The command line of a process; empty where it is gone or a zombie."""
    return [a.decode(errors="replace") for a in _read(pid, "cmdline").rstrip(b"\0").split(b"\0")]


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, group, session, …"""
    text = _read(pid, "stat").decode(errors="replace")
    return text.rpartition(")")[2].split()


def parent(pid: int) -> int:
    """The parent's id; 0 where the process is gone."""
    fields = stat(pid)
    return int(fields[1]) if len(fields) > 1 else 0


def started(pid: int) -> str:
    """When a process started, in ticks since boot: with the id, it names a process for good."""
    fields = stat(pid)
    return fields[19] if len(fields) > 19 else ""


def alive(pid: int, start: str = "") -> bool:
    """Whether a process runs (a zombie does not), and is still the one that started then."""
    fields = stat(pid)
    return bool(fields) and fields[0] not in "ZX" and (not start or fields[19] == start)


def marked(run: str) -> list[int]:
    """The processes whose environment carries this run's mark: a lane with all its children."""
    needle = f"{MARK}={run}".encode()
    return [
        pid
        for pid in pids()
        if pid != os.getpid() and needle in _read(pid, "environ").split(b"\0") and alive(pid)
    ]


def descendants(root: int) -> list[int]:
    """A process and everything below it."""
    children: dict[int, list[int]] = {}
    for pid in pids():
        children.setdefault(parent(pid), []).append(pid)
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo.extend(children.get(pid, []))
    return [pid for pid in found if alive(pid)]


def listeners(port: int) -> list[int]:
    """The processes that listen on a TCP port of this machine (those whose files may be read)."""
    inodes = {f"socket:[{inode}]" for inode in _listening(port)}
    return [pid for pid in pids() if inodes and inodes & _sockets(pid)]


def _sockets(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for link in Path("/proc", str(pid), "fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(link.readlink()))
    return found


def _listening(port: int) -> list[str]:
    found = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    found.append(fields[9])
    return found


def port_taken(port: int) -> bool:
    """Whether anything listens on a TCP port of this machine."""
    return bool(_listening(port))


def same_command(pid: int, command: list[str]) -> bool:
    """Whether a process runs this command, also through an interpreter (`python script args`)."""
    line = argv(pid)
    for at in range(min(4, len(line))):
        tail = line[at:]
        if tail[1:] == command[1:] and Path(tail[0]).name == Path(command[0]).name:
            return True
    return False


def owner_of_port(port: int, command: list[str]) -> int:
    """The process that runs `command` and listens itself or through a child; 0: none."""
    for listener in listeners(port):
        pid = listener
        while pid > 1:
            if same_command(pid, command):
                top = pid
                while same_command(parent(top), command):
                    top = parent(top)
                return top
            pid = parent(pid)
    return 0


def end(members: list[int], grace_s: float, first: list[int] | None = None) -> bool:
    """SIGTERM to `first` (default: all), SIGKILL after the grace; whether all are gone."""
    starts = {pid: started(pid) for pid in members}
    for pid in members if first is None else first:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
    if _gone(starts, grace_s):
        return True
    for pid, start in starts.items():
        if alive(pid, start):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    return _gone(starts, 10.0)


def _gone(starts: dict[int, str], seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while any(alive(pid, start) for pid, start in starts.items()):
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return True
