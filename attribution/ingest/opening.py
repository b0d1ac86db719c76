"""Open a source: hash it, find or build its staged tables, hand out the folder.

The cache is keyed by the SHA-256 of the source's bytes, taken anew at every call, and by their
number: a file that was replaced, or touched, or renamed cannot be mistaken for another.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope.attribution import rooms
from lanescope.attribution.digest import Ahead
from lanescope.attribution.ingest import cache, source, stats_csv
from lanescope.attribution.ingest.info import StageInfo
from lanescope.attribution.ingest.source import Kind, Source
from lanescope.schemas.errors import UnusableInput, no_space_left

if TYPE_CHECKING:
    from lanescope.attribution.ingest.reader import Reader

log = logging.getLogger("lanescope")


def _quiet(_text: str) -> None:
    """Progress goes nowhere unless somebody asks for it."""


def _nothing() -> None:
    """Nobody waits for the beginning."""


@dataclass
class Staged:
    """Staged tables of one source. `close` removes the folder when it is not the cache's."""

    source: Source
    folder: Path
    info: StageInfo
    from_cache: bool
    _temporary: Path | None = field(default=None, repr=False)

    @property
    def temporary(self) -> bool:
        """Whether the folder goes away with `close`."""
        return self._temporary is not None

    def close(self) -> None:
        """Drop a folder that was built for this call alone."""
        if self._temporary is not None:
            rooms.remove(self._temporary)

    def __enter__(self) -> Staged:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def open_trace(
    path: str | Path,
    use_cache: bool = True,
    say: Callable[[str], None] = _quiet,
    digest: Ahead | None = None,
    begins: Callable[[], None] = _nothing,
) -> Staged:
    """Stage a trace, or find it staged.

    `path` is a SQLite export (plain, .xz, .zst, .gz), a folder of Parquet tables, or an .nsys-rep;
    `digest` gives its SHA-256 where somebody is taking it already; `begins` is called before a
    trace is staged, which takes a while.
    Raises `UnusableInput`, in one line, for anything else.
    """
    src = source.recognise(Path(path))
    if src.kind is Kind.REPORT:
        from lanescope.attribution.ingest.report import export_report

        return export_report(src, use_cache, say, digest or Ahead(src.path), begins)
    if src.kind is Kind.STATS_CSV and stats_csv.TIMELINE not in stats_csv.kinds(src.path):
        raise UnusableInput(
            f"{src.path}: a kernel summary, not a trace", "lanescope attribute reads it as such"
        )
    root = cache.usable_root() if use_cache else None
    if root is None and use_cache:
        log.warning("the cache folder %s cannot be written: staging anew", cache.root())
    digest = digest or Ahead(src.path)
    if root is not None and cache.may_hold(root, digest.size):
        say("reading the source")
        target = cache.folder(root, digest(), digest.size)
        if cache.is_whole(target):
            return Staged(src, target, StageInfo.load(target), from_cache=True)
    begins()
    return stage_as(src, src, digest, root, say)


def stage_as(
    read: Source, shown: Source, digest: Ahead, root: Path | None, say: Callable[[str], None]
) -> Staged:
    """Stage what `read` holds under the name and hash of `shown`; without `root`, for one call."""
    if root is not None:
        target = root

        def named() -> Path:
            nonlocal target
            target = cache.folder(root, digest(), digest.size)
            return target

        with cache.building(root, named) as work:
            _build(read, shown, work, digest, say)
        return Staged(shown, target, StageInfo.load(target), from_cache=False)
    room = rooms.make(Path(tempfile.gettempdir()), "staging")
    work = room / "new"
    try:
        work.mkdir()
        _build(read, shown, work, digest, say)
    except BaseException:
        rooms.remove(room)
        raise
    return Staged(shown, work, StageInfo.load(work), from_cache=False, _temporary=room)


def _build(
    src: Source, shown: Source, work: Path, digest: Ahead, say: Callable[[str], None]
) -> None:
    from lanescope.attribution.ingest.stage import stage  # slow: not where a trace is staged

    unpacked = work / "unpacked.sqlite"
    try:
        info = StageInfo(kind=src.kind.value)
        with closing(_reader(src, unpacked, say)) as reader:
            stage(reader, work, info, say)
        info.sha256 = digest()
        if not digest.unchanged:
            raise UnusableInput(f"{shown.path}: changed while it was read", "run again")
        info.save(work)
    except OSError as exc:
        if no_space_left(exc):
            raise UnusableInput(
                f"{src.path}: no space left in {work.parent.parent} for the staged tables",
                "set LANESCOPE_CACHE_DIR (TMPDIR without a cache) to a folder with more room",
            ) from exc
        raise
    finally:
        unpacked.unlink(missing_ok=True)


def _reader(src: Source, unpacked: Path, say: Callable[[str], None]) -> Reader:
    from lanescope.attribution.ingest.readers import ParquetReader, SqliteReader
    from lanescope.attribution.ingest.stats_csv_trace import StatsCsvReader

    if src.kind is Kind.PARQUET_FOLDER:
        return ParquetReader(src.path, src.path)
    if src.kind is Kind.STATS_CSV:
        return StatsCsvReader(src.path)
    if not src.packing:
        return SqliteReader(src.path, src.path)
    say(f"unpacking {src.packing}")
    source.unpack(src, unpacked)
    return SqliteReader(unpacked, src.path)
