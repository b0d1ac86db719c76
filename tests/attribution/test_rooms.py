"""Rooms: a dead process's are removed by the next one, a living one's never."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lanescope.attribution import rooms
from lanescope.attribution.beside import beside
from lanescope.schemas.errors import UnusableInput

_DAY_S = 24 * 3600
_OTHER = (
    "import sys; from pathlib import Path; from lanescope.attribution import rooms\n"
    "room = rooms.make(Path(sys.argv[1]), 'other'); (room / 'x').mkdir(); (room / 'x/y').touch()\n"
    "print(room.name, flush=True); sys.stdin.read()"
)


def _other(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another process, with a room."""
    made = subprocess.Popen(
        [sys.executable, "-c", _OTHER, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert made.stdout is not None
    return made, place / made.stdout.readline().strip()


def test_of_the_dead_and_the_living(tmp_path: Path) -> None:
    living, theirs = _other(tmp_path)
    dead, left = _other(tmp_path)
    dead.kill()
    dead.communicate()
    assert (left / "x" / "y").exists()
    with rooms.room(tmp_path, "mine") as mine:
        assert not left.exists()
        rooms.sweep(tmp_path)
        assert mine.is_dir()
        assert (theirs / "x" / "y").exists()
    living.kill()
    living.communicate()
    rooms.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("held", "inside", "days", "stays"),
    [
        (b"another machine", True, 0, True),
        (b"another machine", True, 2, False),
        (b"", True, 0, False),  # killed before it wrote who it was
        (None, False, 0, False),  # killed before it locked it, or after it was emptied
        (None, True, 0, True),  # somebody else's, it seems
        (None, True, 2, False),
    ],
)
def test_what_is_left(
    tmp_path: Path, held: bytes | None, inside: bool, days: int, stays: bool
) -> None:
    left = tmp_path / f"{rooms.PREFIX}x-12345678"
    left.mkdir()
    if inside:
        (left / "x").touch()
    if held is not None:
        (left / ".lock").write_bytes(held)
    when = left.stat().st_mtime - days * _DAY_S
    os.utime(left, (when, when))
    rooms.sweep(tmp_path)
    assert left.exists() == stays


def _fill(target: Path) -> None:
    with beside(target, folder=True) as work:
        (work / "new").touch()
        raise OSError(28, "no space")


def test_a_folder_takes_the_place_of_another_in_one_go(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "old").touch()
    inode = target.stat().st_ino
    with pytest.raises(UnusableInput, match="no space left"):
        _fill(target)
    assert (target / "old").exists()
    assert target.stat().st_ino == inode
    with beside(target, folder=True) as work:
        (work / "new").touch()
    assert [f.name for f in target.iterdir()] == ["new"]
    assert [f.name for f in tmp_path.iterdir()] == ["target"]
