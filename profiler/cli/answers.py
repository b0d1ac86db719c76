"""Kept answers: the folder of an attribution, for when the same is asked of the same trace again.

An answer lies beside the staged tables of its source: `answer-<question>/` in their folder. Only
the last answer of a source is kept; `lanescope cache clear` removes it with the staged tables.
What makes two questions the same stands in `attribution.question`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope.attribution import rooms
from lanescope.attribution.question import ROOMS, question

if TYPE_CHECKING:
    from lanescope.attribution.ingest import Staged

_PREFIX = "answer-"


def asked(path: Path, profile: str | None, window: str) -> str:
    """The question; a page is part of the answer."""
    return question(path, profile, window, rooms=(*ROOMS, "dashboards"))


def find(staged: Staged, key: str) -> Path | None:
    """The folder of the kept answer, None when there is none."""
    kept = staged.folder / f"{_PREFIX}{key}"
    return kept if staged.from_cache and kept.is_dir() else None


def keep(staged: Staged, key: str, folder: Path) -> None:
    """Keep a written folder as the source's answer. What cannot be kept is not: no error."""
    if staged.temporary:
        return
    try:
        with rooms.room(staged.folder.parent, "answer") as room:
            work = room / "new"
            work.mkdir()
            for file in folder.iterdir():
                shutil.copyfile(file, work / file.name)
            for before in staged.folder.glob(f"{_PREFIX}*"):  # never seen half-removed
                before.rename(room / before.name)
            work.rename(staged.folder / f"{_PREFIX}{key}")
    except OSError:  # no room, or another process was first
        return


def take(kept: Path, work: Path) -> None:
    """Copy a kept answer into `work`."""
    for file in sorted(kept.iterdir()):
        shutil.copyfile(file, work / file.name)
