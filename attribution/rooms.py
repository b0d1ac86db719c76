"""Folders to work in: gone when the work ends, however it ends.

A room is a folder `.lanescope-NAME-XXXXXXXX` with a file that its process holds a lock on (flock).
The system drops the lock when the process dies, so whoever makes the next room in the same place
knows a dead one from one that is in use, and removes it.

Locks are not seen from another machine: a room made elsewhere, or on a file system without locks,
is removed a day after it was last changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PREFIX = ".lanescope-"
_LOCK = ".lock"
_STALE_S = 24 * 3600
_LONGEST_NAME = 60
#: Rooms of this process, and the file that each holds locked.
_own: dict[Path, int] = {}


def make(parent: Path, name: str) -> Path:
    """A new room in `parent`, whose dead rooms are removed first. Raises `OSError`."""
    sweep(parent)
    while True:
        room = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name[:_LONGEST_NAME]}-", dir=parent))
        if _hold(room):
            return room


def _hold(room: Path) -> bool:
    """Lock a new room; False when another process took it for a dead one before it was locked."""
    try:
        lock = os.open(room / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        return False
    except OSError:
        rmtree(room)
        raise
    _own[room] = lock
    try:
        os.write(lock, _machine())
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        remove(room)
    except OSError:  # a full disk, or no locks here: it is known by its age then
        pass
    return (room / _LOCK).exists()


def remove(room: Path) -> None:
    """Remove a room and what is in it. What cannot be removed is swept later: no error."""
    for entry in _entries(room):
        if entry.name == _LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            rmtree(entry)
        else:
            with contextlib.suppress(OSError):
                entry.unlink()
    rmtree(room)  # the lock last: whoever is killed before leaves a room that is known as dead
    lock = _own.pop(room, None)
    if lock is not None:
        os.close(lock)


def _entries(room: Path) -> list[Path]:
    try:
        return list(room.iterdir())
    except OSError:
        return []


def rmtree(folder: Path) -> None:
    """Remove a folder, as far as that is possible."""
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def room(parent: Path, name: str) -> Iterator[Path]:
    """A room for the length of the block."""
    made = make(parent, name)
    try:
        yield made
    finally:
        remove(made)


def remove_own() -> None:
    """Remove every room of this process, for a process that is about to end."""
    for made in list(_own):
        remove(made)


def sweep(parent: Path) -> None:
    """Remove the rooms in `parent` whose process is dead."""
    for left in parent.glob(f"{PREFIX}*"):
        try:
            _remove_if_dead(left)
        except OSError:  # somebody else was first, or it is not ours to remove
            continue


def _remove_if_dead(left: Path) -> None:
    try:
        lock = os.open(left / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        if _is_stale(left):
            rmtree(left)
        else:
            left.rmdir()  # raises if there is something in it
        return
    try:
        if _is_dead(left, lock):
            remove(left)
    finally:
        os.close(lock)


def _is_dead(left: Path, lock: int) -> bool:
    if os.read(lock, 100) not in (_machine(), b""):
        return _is_stale(left)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks here
        return _is_stale(left)
    return True


def _is_stale(left: Path) -> bool:
    return time.time() - left.stat().st_mtime > _STALE_S


@cache
def _machine() -> bytes:
    """Tells machines apart that may share a file system; containers of one share its locks."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    except OSError:
        return socket.gethostname().encode()
