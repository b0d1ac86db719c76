"""Where windows keep their state on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def state_place() -> Path:
    """Where the state folder is, whether or not it is there; `LANESCOPE_STATE` overrides it.

    Not under /tmp or /run: a restore timer must find it, and it must outlive a reboot.
    """
    named = os.environ.get("LANESCOPE_STATE")
    if named:
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/lib/lanescope")
    return Path(platformdirs.user_state_dir("lanescope"))


def state_folder() -> Path:
    """Private folder for control files, locks and restore scripts, made where it is missing."""
    folder = state_place()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder.resolve()


def run_folder(run: str) -> Path:
    """A window's own private folder: script, leases, markers."""
    return state_folder() / "runs" / run


def machine_lock() -> Path:
    """The file whose lock makes one window at a time, for all users of the machine."""
    if os.environ.get("LANESCOPE_STATE"):
        return state_folder() / "machine.lock"
    for folder in (Path("/run/lock"), Path("/var/lock"), Path("/tmp")):
        if folder.is_dir() and os.access(folder, os.W_OK):
            return folder / "lanescope-window.lock"
    return state_folder() / "machine.lock"
