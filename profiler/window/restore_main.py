"""The way back: bring the incumbent to serving again, whatever state the window is in.

This file, joined with the three adapters that it uses, is the restore script: one file, standard
library only, run by a plain interpreter (`python3 -I -S restore.py …`). The failsafe, the runner
and a person call the same script. It may be called any number of times, also at once.

    restore.py check                 exit 0 if it could run here: configuration read, key readable
    restore.py verify NONCE FILE     write NONCE and the incumbent's state to FILE; change nothing
    restore.py restore WHO           bring the incumbent back (WHO: runner, failsafe, hand)
    restore.py watch DEADLINE LEASE LEASE_S COMMAND…
                                     detach; run it at the deadline or when the lease lapses
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lanescope.profiler.adapters import procs
from lanescope.profiler.adapters.completion import read_key, serving
from lanescope.profiler.adapters.engine_api import Engine

HERE = Path(__file__).resolve().parent
CLOCK = time.CLOCK_BOOTTIME  # goes on through sleep, and is not moved with the wall clock


class Way:
    """One call of the script: its configuration, and what it has to say."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.notes: list[str] = []
        self.starts = 0
        self.incumbent = config["incumbent"]
        self.candidate = config["candidate"]
        self.engine = Engine(config["docker_host"]) if config["launcher"] == "docker" else None
        self.limit = time.monotonic() + float(config["give_up_s"])
        self.key = ""

    def note(self, text: str) -> None:
        """Keep a line for the receipt, without the key."""
        line = " ".join((text.replace(self.key, "***") if self.key else text).split())
        if not self.notes or self.notes[-1] != line:
            self.notes.append(line)
            with contextlib.suppress(OSError):
                print(f"restore: {line}", file=sys.stderr, flush=True)

    # -- what there is --------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The incumbent as found: running or not, and whether it is the one that was recorded."""
        if self.engine is not None:
            found = self.engine.inspect(self.incumbent["id"])
            if found is None:
                return {"exists": False, "running": False, "same": False}
            line = [found["Path"], *found["Args"]]
            same = found["Image"] == self.incumbent["image"] and line == self.incumbent["argv"]
            return {"exists": True, "running": bool(found["State"]["Running"]), "same": same}
        pid = self.incumbent_pid()
        return {"exists": True, "running": bool(pid), "same": True, "pid": pid}

    def incumbent_pid(self) -> int:
        """The incumbent's process: by the port it holds, or the one that was started here."""
        command = self.incumbent["command"]
        for port in self.incumbent["ports"]:
            owner = procs.owner_of_port(port, command)
            if owner and not _is_candidate(owner, self.candidate["mark"]):
                return owner
        with contextlib.suppress(OSError, ValueError):
            pid, start = (HERE / "incumbent.pid").read_text().split()
            if procs.alive(int(pid), start):
                return int(pid)
        return 0

    def why_not(self) -> str:
        """Why the incumbent does not count as restored; empty where it does."""
        state = self.state()
        if not state["exists"]:
            return "the incumbent's container does not exist any more"
        if not state["running"]:
            return "the incumbent is not running"
        if not state["same"]:
            return "the incumbent's image or arguments differ from the recorded ones"
        return serving(self.config["ready"], self.key)

    # -- what is done ---------------------------------------------------------------------------

    def stop_candidate(self) -> None:
        """End the candidate with everything it started; containers stay for their logs."""
        grace = float(self.candidate["grace_s"])
        seen: list[int] = procs.marked(self.candidate["mark"])
        if self.engine is not None and self.candidate["container"]:
            found = self.engine.inspect(self.candidate["container"])
            labels = (found or {}).get("Config", {}).get("Labels") or {}
            if found and labels.get("lanescope.run") == self.candidate["mark"]:
                if found["State"]["Running"]:
                    self.note("stopping the candidate's container")
                    self.engine.stop(found["Id"], grace)
            elif found:
                self.note("a container of the candidate's name is not this window's: left alone")
        for _ in range(5):  # what a dying process still starts is ended in the next round
            members = procs.marked(self.candidate["mark"])
            if not members:
                break
            seen += members
            self.note(f"ending {len(members)} process(es) of the candidate")
            procs.end(members, grace, first=_asked_first(members))
        self._wait_for_gpu(set(seen))

    def _wait_for_gpu(self, mine: set[int]) -> None:
        tool = shutil.which("nvidia-smi", path="/usr/bin:/usr/local/bin:/bin:/opt/bin")
        if not tool or not mine:
            return
        limit = time.monotonic() + 120
        while time.monotonic() < limit:
            query = [tool, "--query-compute-apps=pid", "--format=csv,noheader"]
            answer = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
            using = {int(w) for w in answer.stdout.split() if w.isdigit()}
            if answer.returncode or not using & mine:
                return
            time.sleep(0.5)
        self.note("the candidate's processes still show on the GPU after 120 s")

    def start_incumbent(self) -> None:
        """Start the incumbent as it was: its container by id, or its command."""
        self.starts += 1
        self.note(f"starting the incumbent (attempt {self.starts})")
        if self.engine is not None:
            self.engine.start(self.incumbent["id"])
            return
        environment = dict(self.incumbent["environment"])
        for name, path in self.incumbent["secrets"].items():
            environment[name] = Path(path).read_text().strip()
        command = self.incumbent["command"]
        for name, path in self.incumbent["in_command"].items():
            text = Path(path).read_text().strip()
            command = [word.replace(f"{{secret:{name}}}", text) for word in command]
        pump = procs.pump(sys.executable, self.incumbent["log"], {})
        child = subprocess.Popen(
            command,
            env=environment,
            cwd=self.incumbent["workdir"] or "/",
            stdin=subprocess.DEVNULL,
            stdout=pump.stdin,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if pump.stdin:
            pump.stdin.close()
        with contextlib.suppress(OSError):
            (HERE / "incumbent.pid").write_text(f"{child.pid} {procs.started(child.pid)}")

    def wait_until_serving(self, seconds: float) -> str:
        """Wait while it loads; stops early where it died. Returns why not, empty for serving."""
        limit = time.monotonic() + seconds
        why = "not asked"
        while time.monotonic() < limit:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
            why = self.why_not()
            if not why or not self.state()["running"]:
                return why
            self.note(f"waiting: {why}")
            time.sleep(0.25)
        return f"not serving within {seconds:g} s: {why}"

    def restore(self) -> bool:
        """Until it serves, or the time to give up has come."""
        pause = 1.0
        while time.monotonic() < self.limit:
            try:
                self.key = read_key(self.config["key"])
                self.stop_candidate()
                if not self.state()["running"]:
                    self._wait_for_ports()
                    self.start_incumbent()
                why = self.wait_until_serving(float(self.config["ready"]["budget_s"]))
                if not why:
                    return True
                self.note(f"not serving: {why}")
                if self.engine is not None and self.state()["running"]:
                    self.engine.stop(self.incumbent["id"], 30)
            except Exception as exc:  # noqa: BLE001 - whatever fails is noted and tried again
                self.note(f"{type(exc).__name__}: {exc}")
            time.sleep(pause)
            pause = min(pause * 2, 15.0)
        return False

    def _wait_for_ports(self) -> None:
        limit = time.monotonic() + 30
        while any(procs.port_taken(p) for p in self.incumbent["ports"]):
            if time.monotonic() > limit:
                self.note("the incumbent's port is held by another process")
                return
            time.sleep(0.1)


def _is_candidate(pid: int, mark: str) -> bool:
    return pid in procs.marked(mark)


def _asked_first(members: list[int]) -> list[int]:
    """The engine's own processes: the tracer ends with them, and keeps its report that way."""
    own = [p for p in members if not Path(procs.argv(p)[0]).name.startswith("nsys")]
    return own or members


def restore(config: dict[str, Any], who: str) -> int:
    """Bring the incumbent back and say so: one line of JSON on stdout, and a file beside this."""
    began, clock = time.time(), time.clock_gettime(CLOCK)
    way = Way(config)
    if who == "failsafe":
        _record("fired.json", {"unix_s": began, "pid": os.getpid()})
    with (HERE / "restore.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):  # from here on no candidate may be started
            (HERE / "closed").touch()
        done = way.restore()
    result = {
        "status": "WINDOW_RESTORE_OK" if done else "WINDOW_RESTORE_FAILED",
        "by": who,
        "window": config["window"],
        "run": config["run"],
        "began_unix_s": began,
        "seconds": round(time.clock_gettime(CLOCK) - clock, 3),
        "starts": way.starts,
        "notes": way.notes,
    }
    _record(f"restore-{who}-{os.getpid()}.json", result)
    with contextlib.suppress(OSError):
        print(json.dumps(result), flush=True)
    return 0 if done else 1


def verify(config: dict[str, Any], nonce: str, target: str) -> int:
    """Prove that the failsafe's surroundings can see and reach what a restore needs."""
    way = Way(config)
    way.key = read_key(config["key"])
    proof = {
        "nonce": nonce,
        "boottime_s": time.clock_gettime(CLOCK),
        "pid": os.getpid(),
        "session": os.getsid(0),
        "uid": os.getuid(),
        "cgroup": Path("/proc/self/cgroup").read_text().strip(),
        "incumbent": way.state(),
        "why_not": way.why_not(),
    }
    partial = Path(target + ".partial")
    partial.write_text(json.dumps(proof))
    partial.rename(target)
    return 0


def watch(deadline: float, lease: str, lease_s: float, command: list[str]) -> int:
    """Leave the caller behind, then wait for the deadline, the end of the lease, or disarming.

    Prints the watchdog's process id. SIGUSR1 disarms it; every other request to end is ignored.
    """
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os.wait()
        print(os.read(reader, 32).decode(), flush=True)
        return 0
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.chdir("/")
    with contextlib.suppress(OSError):  # out of the caller's control group, where that is allowed
        Path("/sys/fs/cgroup/cgroup.procs").write_text(str(os.getpid()))
    os.write(writer, str(os.getpid()).encode())
    os.close(writer)
    seen, since = _mtime(lease), time.clock_gettime(CLOCK)
    while time.clock_gettime(CLOCK) < deadline:
        now = _mtime(lease)
        if now != seen:
            seen, since = now, time.clock_gettime(CLOCK)
        if time.clock_gettime(CLOCK) - since > lease_s:
            break
        time.sleep(0.2)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # once fired, it goes through
    child = [sys.executable, "-I", "-S", str(HERE / Path(__file__).name), *command]
    return subprocess.run(child, check=False).returncode


def _mtime(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def _record(name: str, data: dict[str, Any]) -> None:
    """Write a small file beside the script; a full disk must not stop a restore."""
    with contextlib.suppress(OSError):
        partial = HERE / (name + ".partial")
        partial.write_text(json.dumps(data, indent=1))
        partial.rename(HERE / name)


def main(words: list[str]) -> int:
    """Dispatch; the configuration lies beside the script."""
    config = json.loads((HERE / "restore.json").read_text())
    if words[:1] == ["check"]:
        read_key(config["key"])
        with (HERE / "restore.lock").open("rb"):
            Way(config)
        print("ok")
        return 0
    if words[:1] == ["verify"]:
        return verify(config, words[1], words[2])
    if words[:1] == ["restore"]:
        return restore(config, words[1] if len(words) > 1 else "hand")
    if words[:1] == ["watch"]:
        return watch(float(words[1]), words[2], float(words[3]), words[4:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
