"""One run of a window: what the states share, and the marks that outlive the runner."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import time
from collections.abc import Iterator
from typing import Any

from lanescope.profiler.adapters import procs
from lanescope.profiler.adapters.docker import Containers
from lanescope.profiler.adapters.launcher import Launcher
from lanescope.profiler.adapters.nsight import Nsight, Session, find
from lanescope.profiler.adapters.process import Processes
from lanescope.profiler.window import places
from lanescope.profiler.window.folder import Folder
from lanescope.profiler.window.guard import Guard
from lanescope.profiler.window.plan import Plan
from lanescope.schemas.errors import LanescopeError, UsageError


class Stopped(LanescopeError):
    """A person ended the window: Ctrl-C, SIGTERM, `capture abort`, or the release taken back."""


class Signals:
    """Ctrl-C and SIGTERM end the experiment once; during the restoration they are only noted."""

    NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.open = False
        self.seen = ""
        self._raised = False

    def install(self) -> None:
        """Take the three signals over."""
        for number in self.NUMBERS:
            signal.signal(number, self._take)

    def _take(self, number: int, _frame: object) -> None:
        self.seen = signal.Signals(number).name
        if self.open:
            self.raise_if_seen()

    def raise_if_seen(self) -> None:
        """Raise what was noted, once."""
        if self.seen and not self._raised:
            self._raised = True
            raise Stopped(f"ended by {self.seen}", "the incumbent is brought back")

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """For what must not be left half-done: a signal waits until the end of it."""
        before, self.open = self.open, False
        try:
            yield
        finally:
            self.open = before
        if self.open:
            self.raise_if_seen()


class Run:
    """Everything that the states of one window work on."""

    def __init__(self, plan: Plan, run: str) -> None:
        self.plan, self.run = plan, run
        self.state_folder = places.run_folder(run)
        self.redact = plan.redactor()
        self.folder = Folder(
            plan.output / run, plan.private / run, plan.window.name, run, self.redact
        )
        self.nsight: Nsight = find(plan.candidate.tracer)
        self.launcher: Launcher = _launcher(self)
        self.session = Session(
            self.nsight, plan.candidate.tracer, run, f"{self.launcher.report_place}/report"
        )
        self.signals = Signals()
        self.guard: Guard | None = None
        self.restore_command: list[str] = []
        #: results that later states and the summary read
        self.results: dict[str, Any] = {}
        self._lock: Any = None

    def begin(self) -> None:
        """Take the machine, make the folders, say who runs."""
        self.lock_machine()
        self.folder.create()
        self.state_folder.mkdir(mode=0o700, parents=True)
        self.claim()

    def claim(self) -> None:
        """Leave word of the process that runs this window."""
        pid = os.getpid()
        said = {"pid": pid, "started": procs.started(pid), "plan": str(self.plan.path)}
        self.private_json("runner.json", said | {"output": str(self.folder.path)})

    # -- marks that outlive the runner -------------------------------------------------------------

    def mark(self, name: str) -> None:
        """Leave a mark in the private state folder before doing what it stands for."""
        (self.state_folder / name).touch()

    def marked(self, name: str) -> bool:
        """Whether a mark was left, by this runner or one before it."""
        return (self.state_folder / name).exists()

    def touched(self) -> bool:
        """Whether the incumbent may have been stopped."""
        return self.marked("touched")

    # -- locks -------------------------------------------------------------------------------------

    def lock_machine(self) -> None:
        """One window at a time on a machine."""
        path = places.machine_lock()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(descriptor)
            raise UsageError(
                "another window runs on this machine", "see lanescope capture status"
            ) from exc
        self._lock = descriptor

    @contextlib.contextmanager
    def restore_lock(self) -> Iterator[None]:
        """Held while something is stopped or started: never beside the restore script."""
        with (self.state_folder / "restore.lock").open("rb") as file:
            limit = time.monotonic() + 60
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as exc:
                    if time.monotonic() > limit:
                        raise LanescopeError(
                            "the restore script is at work", "wait for it"
                        ) from exc
                    time.sleep(0.1)
            if self.marked("closed"):
                raise LanescopeError(
                    "the incumbent was restored: this window is over", "see status"
                )
            yield

    def private_json(self, name: str, data: dict[str, Any]) -> None:
        """A small private file beside the restore script."""
        partial = self.state_folder / (name + ".partial")
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(data))
        partial.rename(self.state_folder / name)

    def private_json_quietly(self, name: str, data: dict[str, Any]) -> None:
        """The same for what only informs: a full disk must not stop the window."""
        with contextlib.suppress(OSError):
            self.private_json(name, data)


def _launcher(run: Run) -> Launcher:
    if run.plan.candidate.launcher == "docker":
        return Containers(run.plan, run.run, run.folder.private, run.nsight, run.redact)
    return Processes(run.plan, run.run, run.folder.private, run.nsight, run.redact)


def new_id(plan: Plan) -> str:
    """The name of a run: the window's name, the time in UTC, and chance: it marks processes."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"{plan.window.name}-{stamp}-{secrets.token_hex(2)}"
