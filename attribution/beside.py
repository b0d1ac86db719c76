"""All of it, or nothing: write beside the target, then give it the name."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lanescope.schemas.errors import UnusableInput

_ENOSPC = 28


@contextmanager
def beside(target: Path, folder: bool) -> Iterator[Path]:
    """A folder (or the name for a file) that takes the target's place when the block ends well.

    Whatever ends the block early, the target is as it was and nothing is left beside it. Raises
    `UnusableInput` when the disk is full or the place cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(prefix=f".{target.name[:60]}-", dir=target.parent))
    except OSError as exc:
        raise UnusableInput(
            f"{target.parent}: cannot be written ({exc.strerror})", "choose another --out"
        ) from exc
    work = room / "new"
    try:
        if folder:
            work.mkdir()
        yield work
        if target.is_dir():
            shutil.rmtree(target)
        work.replace(target)
    except OSError as exc:
        why = "no space left" if exc.errno == _ENOSPC else str(exc.strerror)
        raise UnusableInput(f"{target}: cannot be written ({why})", "choose another --out") from exc
    finally:
        shutil.rmtree(room, ignore_errors=True)
