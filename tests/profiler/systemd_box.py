"""A real systemd in namespaces of its own, for timers in system scope where PID 1 is another.

/tmp and /run are private inside: systemd empties /tmp when it boots. Everything else is shared, so
what a unit needs must lie elsewhere.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from lanescope.profiler.adapters import procs

SYSTEMD = Path("/lib/systemd/systemd")
REPOSITORY = Path(__file__).resolve().parents[2]
#: A checkout under /tmp is shown inside, read only: what empties /tmp there must not reach it.
BOOT = """
mount --make-rprivate /
mount --bind "$REPOSITORY" /mnt
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
case "$REPOSITORY" in /tmp/*|/run/*)
  mkdir -p "$REPOSITORY" && mount --bind /mnt "$REPOSITORY" &&
    mount -o remount,bind,ro "$REPOSITORY" ;;
esac
umount /mnt
mkdir -p /run/systemd /run/lock
exec env container=other /lib/systemd/systemd --system --unit=basic.target
"""


def why_not() -> str:
    """Why no systemd can be booted here; empty where it can."""
    if os.geteuid() != 0:
        return "a systemd of its own needs root"
    if not SYSTEMD.exists() or not shutil.which("nsenter") or not shutil.which("unshare"):
        return "systemd or nsenter is not installed (tests/setup/services.sh)"
    return ""


class SystemdBox:
    """One booted systemd."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.pid = 0
        self._outer: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Boot it and wait until it answers."""
        # a test run that is ended from outside takes it along
        with_us = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        spaces = [
            *with_us,
            "unshare",
            "--kill-child",
            "--fork",
            "--pid",
            "--mount",
            "--cgroup",
            "--mount-proc",
        ]
        with self.log.open("ab") as log:
            self._outer = subprocess.Popen(
                [*spaces, "bash", "-c", BOOT],
                env=os.environ | {"REPOSITORY": str(REPOSITORY)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        limit = time.monotonic() + 30
        while time.monotonic() < limit:
            children = [p for p in procs.pids() if procs.parent(p) == self._outer.pid]
            if children:
                self.pid = children[0]
                done = subprocess.run(
                    [*self.prefix(), "systemctl", "is-system-running"],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if done.stdout.strip() in ("running", "degraded", "starting", "initializing"):
                    return
            time.sleep(0.1)
        self.stop()
        raise AssertionError(f"systemd did not come up: {self.log.read_text()[-500:]}")

    def prefix(self) -> list[str]:
        """Words that put a command inside."""
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "--"]

    def timers(self) -> list[str]:
        """Restore timers that wait."""
        done = subprocess.run(
            [*self.prefix(), "systemctl", "list-timers", "--all", "--no-legend", "lanescope-*"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip().splitlines()

    def stop(self) -> None:
        """End it: the end of its first process ends all that runs inside."""
        if self.pid and procs.alive(self.pid):
            os.kill(self.pid, signal.SIGKILL)
        if self._outer is not None:
            self._outer.wait(10)
