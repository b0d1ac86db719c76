"""All of it, or nothing: write beside the target, then give it the name."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lanescope.attribution import rooms
from lanescope.schemas.errors import UnusableInput, no_space_left

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of renameat2(2)


@contextmanager
def beside(target: Path, folder: bool) -> Iterator[Path]:
    """A folder (or the name for a file) that takes the target's place when the block ends well.

    Whatever ends the block early, the target is as it was and nothing is left beside it (after
    SIGKILL, until something is next written there). Raises `UnusableInput` when the disk is full
    or the place cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        room = rooms.make(target.parent, target.name)
    except OSError as exc:
        raise UnusableInput(
            f"{target.parent}: cannot be written ({exc.strerror})", "choose another --out"
        ) from exc
    work = room / "new"
    try:
        if folder:
            work.mkdir()
        yield work
        _put(work, target)
    except OSError as exc:
        why = "no space left" if no_space_left(exc) else str(exc.strerror)
        raise UnusableInput(f"{target}: cannot be written ({why})", "choose another --out") from exc
    finally:
        rooms.remove(room)


def _put(work: Path, target: Path) -> None:
    """Give `work` the name; a folder that has it takes the place of `work`, to be removed there."""
    if not target.is_dir():
        work.replace(target)
    elif not _exchange(work, target):  # in one go where the system can, else in two
        target.rename(work.with_name("old"))
        work.replace(target)


def _exchange(one: Path, other: Path) -> bool:
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    failed: int = rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
    return failed == 0
