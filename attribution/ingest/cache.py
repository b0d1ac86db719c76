"""The cache of staged tables: one folder a source, bound to the source's content.

`<root>/<sha256>-v<N>/` holds Parquet tables and, written last, `stage.json`. A folder is built
under a name of its own and renamed when it is whole, so a kill at any point leaves either nothing
or a finished folder, and two processes may build the same one at once: the later one finds the
name taken and throws its copy away.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

#: Raised when what is staged changes: older folders are then never read.
STAGE_VERSION = 6
STAMP = "stage.json"
_BUILDING = ".building-"
_STALE_S = 24 * 3600


def root() -> Path:
    """The cache folder: `LANESCOPE_CACHE_DIR`, or the user's cache folder of the platform."""
    named = os.environ.get("LANESCOPE_CACHE_DIR")
    return Path(named) if named else Path(platformdirs.user_cache_dir("lanescope"))


def usable_root() -> Path | None:
    """The cache folder, made if need be; None where it cannot be written (no home, read-only)."""
    path = root()
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError:
        return None
    return path


def folder(cache_root: Path, sha256: str) -> Path:
    """Where the staged tables of the source with this SHA-256 lie."""
    return cache_root / f"{sha256}-v{STAGE_VERSION}"


def is_whole(path: Path) -> bool:
    """Whether the folder was finished: its stamp is written last."""
    return (path / STAMP).is_file()


@contextmanager
def building(target: Path) -> Iterator[Path]:
    """A folder to build `target` in; on success it takes the name, otherwise it is removed."""
    _sweep(target.parent)
    work = Path(tempfile.mkdtemp(prefix=f"{_BUILDING}{os.getpid()}-", dir=target.parent))
    try:
        yield work
        try:
            work.rename(target)
        except OSError:
            if is_whole(target):  # another process was first; both are the same content
                return
            shutil.rmtree(target, ignore_errors=True)  # a folder without its stamp is nobody's
            work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _sweep(cache_root: Path) -> None:
    """Remove what killed builds left behind, a day after."""
    for left in cache_root.glob(f"{_BUILDING}*"):
        try:
            if time.time() - left.stat().st_mtime > _STALE_S:
                shutil.rmtree(left, ignore_errors=True)
        except OSError:
            continue


def clear() -> tuple[int, int]:
    """Remove every staged folder. Returns how many there were and their bytes."""
    count = freed = 0
    path = root()
    if not path.is_dir():
        return 0, 0
    for entry in path.iterdir():
        if not entry.is_dir() or not (entry.name.startswith(_BUILDING) or "-v" in entry.name):
            continue
        freed += sum(f.stat().st_size for f in entry.rglob("*") if f.is_file())
        count += 1
        shutil.rmtree(entry, ignore_errors=True)
    return count, freed
