"""What an answer depends on: two equal questions have the same answer, to the byte."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

from lanescope.attribution.folders import truth_beside

#: The rooms whose files decide what an attribution says, and the kinds of file that do.
ROOMS = ("attribution", "captures.profiles", "schemas")
_PROGRAM = frozenset({".py", ".sql", ".toml", ".html", ".css", ".js"})


def question(
    path: str | Path,
    profile: str | None,
    window: str,
    sha256: str = "",
    rooms: tuple[str, ...] = ROOMS,
) -> str:
    """What is asked, as 32 hex digits.

    path as given (it stands in the answer), profile and window as in `attribute`, sha256 of the
    source where the answer is not kept with it, rooms that have a part in the answer.
    """
    asked = [str(path), profile or "", window, sha256, _program(rooms)]
    files_read = [Path(profile) if profile else None, truth_beside(Path(path))]
    asked += [_digest(f) for f in files_read if f is not None]
    return hashlib.sha256("\0".join(asked).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _digest(file: Path) -> str:
    """Of a file's content; empty where it is none (a bundled profile's name)."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


@cache
def _program(rooms: tuple[str, ...]) -> str:
    """Changes whenever a file of the program does: another release, or an edit in a checkout."""
    digest = hashlib.sha256()
    for room in rooms:
        for file in sorted(Path(str(files(f"lanescope.{room}"))).rglob("*")):
            if file.suffix in _PROGRAM:
                stat = file.stat()
                digest.update(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
    return digest.hexdigest()
