"""The cache of staged tables: one folder a source, bound to the source's content.

`<root>/<sha256>-<bytes>-v<N>/` holds Parquet tables and, written last, `stage.json`. A source whose
size no folder carries is not here, whatever its hash: nobody has to wait for it. A folder is built
in a room of its own (see `attribution.rooms`) and renamed when it is whole, so a kill at any point
leaves either nothing or a finished folder, and two processes may build the same one at once: the
later one finds the name taken and throws its copy away.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from lanescope.attribution import rooms

#: Raised when what is staged changes: older folders are then never read.
STAGE_VERSION = 8
STAMP = "stage.json"


def root() -> Path:
    """The cache folder: `LANESCOPE_CACHE_DIR`, or the user's cache folder of the platform."""
    named = os.environ.get("LANESCOPE_CACHE_DIR")
    return Path(named) if named else Path(platformdirs.user_cache_dir("lanescope"))


def usable_root() -> Path | None:
    """The cache folder, made if need be; None where it cannot be written (no home, read-only)."""
    path = root()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError:
        return None
    return path


def folder(cache_root: Path, sha256: str, size: int) -> Path:
    """Where the staged tables of the source with this SHA-256 and as many bytes lie."""
    return cache_root / f"{sha256}-{size}-v{STAGE_VERSION}"


def may_hold(cache_root: Path, size: int) -> bool:
    """Whether a source of this size was staged; only the hash tells whether it is the same."""
    return any(cache_root.glob(f"*-{size}-v{STAGE_VERSION}"))


def is_whole(path: Path) -> bool:
    """Whether the folder was finished: its stamp is written last."""
    return (path / STAMP).is_file()


@contextmanager
def building(cache_root: Path, named: Callable[[], Path]) -> Iterator[Path]:
    """A folder to build in; on success it takes the name `named`, otherwise it is removed."""
    with rooms.room(cache_root, "staging") as room:
        work = room / "new"
        work.mkdir()
        yield work
        target = named()
        try:
            work.rename(target)
        except OSError:
            if is_whole(target):  # another process was first; both are the same content
                return
            shutil.rmtree(target, ignore_errors=True)  # a folder without its stamp is nobody's
            work.rename(target)


def clear() -> tuple[int, int]:
    """Remove every staged folder, and what killed processes left.

    Returns how many staged folders there were, and their bytes.
    """
    count = freed = 0
    path = root()
    if not path.is_dir():
        return 0, 0
    rooms.sweep(path)
    for entry in path.iterdir():
        if entry.name.startswith(rooms.PREFIX) or "-v" not in entry.name or not entry.is_dir():
            continue
        freed += sum(f.stat().st_size for f in entry.rglob("*") if f.is_file())
        count += 1
        (entry / STAMP).unlink(missing_ok=True)  # from here on it is nobody's
        shutil.rmtree(entry, ignore_errors=True)
    return count, freed
