"""The SHA-256 of a source, on its own so that it can be taken while the rest is imported."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 20


def sha256(path: Path) -> str:
    """The SHA-256 of a file, or of a folder's Parquet files by name and content."""
    digest = hashlib.sha256()
    if path.is_dir():
        for part in _parts(path):
            digest.update(part.name.encode() + b"\x00" + bytes.fromhex(sha256(part)))
        return digest.hexdigest()
    with path.open("rb", buffering=0) as fh:
        buffer = bytearray(_CHUNK)
        view = memoryview(buffer)
        while n := fh.readinto(buffer):
            digest.update(view[:n])
    return digest.hexdigest()


def _parts(path: Path) -> list[Path]:
    """The files that make a source: itself, or a folder's Parquet files in order of name."""
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


@dataclass(frozen=True)
class _Identity:
    """Which file, and whether its bytes may be others: for each part of a source."""

    name: str
    size: int
    modified_ns: int
    inode: int


def _identity(path: Path) -> tuple[_Identity, ...]:
    """Nothing for what cannot be looked at: who opens it says so."""
    try:
        found = [(part.name, part.stat()) for part in _parts(path)]
    except OSError:
        return ()
    return tuple(_Identity(name, s.st_size, s.st_mtime_ns, s.st_ino) for name, s in found)


class Ahead:
    """A file's SHA-256, taken beside everything else; a call waits for it.

    A process that ends early does not wait.
    """

    def __init__(self, path: Path) -> None:
        """Begin, with a file or a folder; a pipe would never end."""
        self._path = path
        self._before = _identity(path)
        self._found: list[str] = []
        self._failed: list[OSError] = []
        self._thread = threading.Thread(target=self._take, daemon=True)
        if path.is_file() or path.is_dir():
            self._thread.start()

    def __call__(self) -> str:
        """The digest. Raises what reading raised."""
        if self._thread.ident is None:
            return sha256(self._path)
        self._thread.join()
        if self._failed:
            raise self._failed[0]
        return self._found[0]

    @property
    def done(self) -> bool:
        """Whether a call would not wait."""
        return not self._thread.is_alive()

    @property
    def unchanged(self) -> bool:
        """Whether the path still is the same files, as large and as old, as at the beginning."""
        return bool(self._before) and self._before == _identity(self._path)

    @property
    def size(self) -> int:
        """Bytes of the source at the beginning."""
        return sum(part.size for part in self._before)

    def _take(self) -> None:
        try:
            self._found.append(sha256(self._path))
        except OSError as exc:
            self._failed.append(exc)
