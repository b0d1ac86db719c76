"""A failsafe without systemd: a detached process with a deadline and a lease on the runner's life.

It counts on the boot clock, so moving the wall clock changes nothing. It does not survive a reboot,
and its receipt says so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from lanescope.profiler.adapters import procs
from lanescope.profiler.adapters.failsafe import Armed, FailsafeError

CLOCK = time.CLOCK_BOOTTIME


class Watchdog:
    """The restore script itself, waiting in the background."""

    kind = "watchdog"

    def __init__(self, command: list[str], folder: Path, lease_s: float) -> None:
        self.command, self.folder, self.lease_s = command, folder, lease_s
        self.lease = folder / "lease"
        self.lease.touch()

    def arm(self, seconds: float, words: list[str]) -> Armed:
        """Start the waiting process; it leaves this one's session behind."""
        deadline = time.clock_gettime(CLOCK) + seconds
        watch = ["watch", repr(deadline), str(self.lease), repr(self.lease_s), *words]
        done = subprocess.run(
            [*self.command, *watch],
            env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        pid = done.stdout.strip()
        if done.returncode != 0 or not pid.isdigit():
            raise FailsafeError("the watchdog did not start", "see the restore script by hand")
        return Armed(f"{pid} {procs.started(int(pid))}", deadline)

    def pending(self, armed: Armed) -> bool:
        """Whether that very process waits."""
        pid, start = armed.handle.split()
        return procs.alive(int(pid), start) and "watch" in procs.argv(int(pid))

    def disarm(self, armed: Armed) -> bool:
        """Tell it to go, and see it gone. One that fired already ignores this and finishes."""
        pid, start = armed.handle.split()
        if procs.alive(int(pid), start):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGUSR1)
        limit = time.monotonic() + 5
        while procs.alive(int(pid), start) and time.monotonic() < limit:
            time.sleep(0.05)
        return not procs.alive(int(pid), start)

    def facts(self) -> dict[str, Any]:
        """Its limits."""
        return {"kind": self.kind, "survives_reboot": False, "lease_s": self.lease_s}
