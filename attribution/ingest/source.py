"""Recognise what a path holds, and say in one line why it cannot be used.

The source is only ever opened for reading, and nothing is written beside it.
"""

from __future__ import annotations

import gzip
import lzma
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Any

from lanescope.schemas.errors import UnusableInput, no_space_left

__all__ = ["Kind", "Source", "recognise", "unpack"]

_CHUNK = 1 << 20
_SQLITE_MAGIC = b"SQLite format 3\x00"
_COMPRESSED = {b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst", b"\x1f\x8b": "gz"}


class Kind(Enum):
    """The kinds of input."""

    SQLITE = "sqlite"
    PARQUET_FOLDER = "parquet folder"
    STATS_CSV = "nsys stats CSV"
    REPORT = "nsys-rep"


@dataclass(frozen=True)
class Source:
    """An input as found: path, kind, and how it is packed ('' or xz, zst, gz)."""

    path: Path
    kind: Kind
    packing: str = ""


def recognise(path: Path) -> Source:
    """Tell what `path` is by its content, never by its name alone.

    Raises `UnusableInput` for everything that is not an input, naming what it looks like.
    """
    try:
        mode_is_dir = path.is_dir()
        if not mode_is_dir and not path.exists():
            raise UnusableInput(f"{path}: no such file", "check the path")
        if mode_is_dir:
            return _recognise_folder(path)
        if not path.is_file():
            raise UnusableInput(f"{path}: not a regular file", "give an export file or folder")
        head = _head(path)
    except PermissionError as exc:
        raise UnusableInput(f"{path}: permission denied", "make the file readable") from exc
    except OSError as exc:
        raise UnusableInput(f"{path}: cannot be read: {exc.strerror}", "check the path") from exc
    if not head:
        raise UnusableInput(f"{path}: the file is empty (0 bytes)", "export the report again")
    for magic, packing in _COMPRESSED.items():
        if head.startswith(magic):
            inner = _unpacked_head(path, packing)
            if inner.startswith(_SQLITE_MAGIC):
                return Source(path, Kind.SQLITE, packing)
            if _is_stats_csv(inner):
                return Source(path, Kind.STATS_CSV, packing)
            raise UnusableInput(
                f"{path}: the {packing} file holds neither a SQLite export nor an nsys stats CSV",
                "compress a file written by nsys export --type sqlite",
            )
    if head.startswith(_SQLITE_MAGIC):
        return Source(path, Kind.SQLITE)
    return _recognise_other(path, head)


def _recognise_folder(path: Path) -> Source:
    if any(path.glob("*.parquet")):
        return Source(path, Kind.PARQUET_FOLDER)
    raise UnusableInput(
        f"{path}: a folder without Parquet tables",
        "give an export file, or a folder written by nsys export --type parquetdir",
    )


def _recognise_other(path: Path, head: bytes) -> Source:
    if head.startswith(b"version https://git-lfs"):
        raise UnusableInput(
            f"{path}: a Git LFS pointer, not the file itself", "fetch it with git lfs pull"
        )
    if path.suffix == ".nsys-rep":
        return Source(path, Kind.REPORT)
    if path.suffix == ".qdstrm":
        raise UnusableInput(
            f"{path}: an unfinished capture stream", "import it with QdstrmImporter, then export it"
        )
    if _is_stats_csv(head):
        return Source(path, Kind.STATS_CSV)
    if not head.strip(b"\x00"):
        raise UnusableInput(
            f"{path}: starts with zeros: a half-written or damaged export", "export it again"
        )
    raise UnusableInput(
        f"{path}: neither a SQLite export, a Parquet folder, an nsys stats CSV nor an .nsys-rep",
        "export the report with nsys export --type sqlite",
    )


def _is_stats_csv(head: bytes) -> bool:
    """Whether a report of `nsys stats` begins in the head of a file, titles before it or not."""
    from lanescope.attribution.ingest import stats_csv

    wide = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = head.decode("utf-16" if wide else "utf-8-sig", "replace")
    return any(stats_csv.looks_like(line) for line in text.splitlines())


#: Titles, progress and warnings that `nsys stats` prints before a heading fit in here.
_HEAD_BYTES = 1 << 20


def _head(path: Path) -> bytes:
    with path.open("rb") as fh:
        return fh.read(_HEAD_BYTES)


def content(path: Path) -> bytes:
    """The bytes of a file, unpacked where it is compressed. Raises `UnusableInput` for damage."""
    data = path.read_bytes()
    packing = next((p for magic, p in _COMPRESSED.items() if data.startswith(magic)), "")
    if not packing:
        return data
    try:
        with _opener(packing)(path) as fh:
            return fh.read()
    except _unpack_errors(packing) as exc:
        raise _damaged(path, packing, exc) from exc


def _damaged(path: Path, packing: str, exc: BaseException) -> UnusableInput:
    return UnusableInput(
        f"{path}: the {packing} data is damaged ({exc})", "copy or compress the file again"
    )


def _opener(packing: str) -> Callable[[Path], IO[bytes]]:
    if packing == "xz":
        return lambda p: lzma.open(p, "rb")
    if packing == "gz":
        return lambda p: gzip.open(p, "rb")  # type: ignore[return-value]

    def zst(p: Path) -> IO[bytes]:
        import zstandard

        opened: Any = zstandard.open(p, "rb")
        return opened  # type: ignore[no-any-return]

    return zst


def _unpack_errors(packing: str) -> tuple[type[BaseException], ...]:
    if packing == "zst":
        import zstandard

        return (zstandard.ZstdError, EOFError, OSError)
    return (lzma.LZMAError, EOFError, OSError, gzip.BadGzipFile)


def _unpacked_head(path: Path, packing: str) -> bytes:
    try:
        with _opener(packing)(path) as fh:
            head = fh.read(len(_SQLITE_MAGIC))
            return head if head == _SQLITE_MAGIC else head + fh.read(_HEAD_BYTES)
    except _unpack_errors(packing) as exc:
        raise _damaged(path, packing, exc) from exc


def unpack(source: Source, target: Path) -> None:
    """Write the SQLite file inside a compressed source to `target`.

    Raises `UnusableInput` for damaged data and for a disk that is full; `target` is then removed.
    """
    try:
        with _opener(source.packing)(source.path) as src, target.open("wb") as dst:
            shutil.copyfileobj(src, dst, _CHUNK)
    except OSError as exc:
        target.unlink(missing_ok=True)
        if no_space_left(exc):
            raise UnusableInput(
                f"{source.path}: no space left in {target.parent.parent.parent} to unpack it",
                "set LANESCOPE_CACHE_DIR (TMPDIR without a cache) to a folder with more room",
            ) from exc
        raise _damaged(source.path, source.packing, exc) from exc
    except _unpack_errors(source.packing) as exc:
        target.unlink(missing_ok=True)
        raise _damaged(source.path, source.packing, exc) from exc
