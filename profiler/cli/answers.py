"""Kept answers: the folder of an attribution, for when the same is asked of the same trace again.

An answer lies beside the staged tables of its source: `<cache>/<sha256>-v<N>/answer-<question>/`.
The question is all that an answer depends on besides the source: path as given, profile, window,
exact counts beside the trace, and the program itself. Only the last answer of a source is kept;
`lanescope cache clear` removes it with the staged tables.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope.attribution.output import truth_beside

if TYPE_CHECKING:
    from lanescope.attribution.ingest import Staged

_PREFIX, _BUILDING = "answer-", ".answering-"
#: The rooms whose files decide what an answer says, and the kinds of file that do.
_ROOMS = ("attribution", "captures.profiles", "dashboards", "schemas")
_PROGRAM = frozenset({".py", ".sql", ".toml", ".html", ".css", ".js"})


def question(path: str | Path, profile: str | None, window: str) -> str:
    """What is asked, as 32 hex digits."""
    asked = [str(path), profile or "", window, _program()]
    files_read = [Path(profile) if profile else None, truth_beside(Path(path))]
    asked += [_digest(f) for f in files_read if f is not None]
    return hashlib.sha256("\0".join(asked).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _digest(file: Path) -> str:
    """Of a file's content; empty where it is none (a bundled profile's name)."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


@cache
def _program() -> str:
    """Changes whenever a file of the program does: another release, or an edit in a checkout."""
    digest = hashlib.sha256()
    for room in _ROOMS:
        for file in sorted(Path(str(files(f"lanescope.{room}"))).rglob("*")):
            if file.suffix in _PROGRAM:
                stat = file.stat()
                digest.update(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def find(staged: Staged, asked: str) -> Path | None:
    """The folder of the kept answer, None when there is none."""
    kept = staged.folder / f"{_PREFIX}{asked}"
    return kept if staged.from_cache and kept.is_dir() else None


def keep(staged: Staged, asked: str, folder: Path) -> None:
    """Keep a written folder as the source's answer. What cannot be kept is not: no error."""
    if staged.temporary:
        return
    work = None
    try:
        work = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=staged.folder))
        for file in folder.iterdir():
            shutil.copyfile(file, work / file.name)
        for before in staged.folder.glob(f"{_PREFIX}*"):
            shutil.rmtree(before, ignore_errors=True)
        work.rename(staged.folder / f"{_PREFIX}{asked}")
    except OSError:  # no room, or another process was first
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def take(kept: Path, work: Path) -> None:
    """Copy a kept answer into `work`."""
    for file in sorted(kept.iterdir()):
        shutil.copyfile(file, work / file.name)
