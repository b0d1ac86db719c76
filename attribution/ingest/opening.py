"""Open a source: hash it, find or build its staged tables, hand out the folder.

The cache is keyed by the SHA-256 of the source's bytes, taken anew at every call: a file that was
replaced, or touched, or renamed cannot be mistaken for another.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope.attribution import rooms
from lanescope.attribution.ingest import cache, source, stats_csv
from lanescope.attribution.ingest.info import StageInfo
from lanescope.attribution.ingest.source import Kind, Source
from lanescope.schemas.errors import UnusableInput

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
    digest: Callable[[], str] | None = None,
    begins: Callable[[], None] = _nothing,
) -> Staged:
    """Stage a trace, or find it staged.

    `path` is a SQLite export (plain, .xz, .zst, .gz), a folder of Parquet tables, or an .nsys-rep;
    `digest` gives its SHA-256 where somebody is taking it already; `begins` is called before a
    trace is staged in the cache, which takes a while.
    Raises `UnusableInput`, in one line, for anything else.
    """
    src = source.recognise(Path(path))
    if src.kind is Kind.REPORT:
        from lanescope.attribution.ingest.report import export_report

        return export_report(src, use_cache, say)
    if src.kind is Kind.STATS_CSV and stats_csv.TIMELINE not in stats_csv.kinds(src.path):
        raise UnusableInput(
            f"{src.path}: a kernel summary, not a trace", "lanescope attribute reads it as such"
        )
    root = cache.usable_root() if use_cache else None
    if root is None:
        if use_cache:
            log.warning("the cache folder %s cannot be written: staging anew", cache.root())
        return stage_as(src, src, None, None, say)
    return _stage_in_cache(src, root, say, digest, begins)


def _stage_in_cache(
    src: Source,
    root: Path,
    say: Callable[[str], None],
    taken: Callable[[], str] | None,
    begins: Callable[[], None],
) -> Staged:
    say("reading the source")
    digest = taken() if taken else source.sha256(src.path)
    target = cache.folder(root, digest)
    if cache.is_whole(target):
        return Staged(src, target, StageInfo.load(target), from_cache=True)
    begins()
    return stage_as(src, src, digest, root, say)


def stage_as(
    read: Source, shown: Source, digest: str | None, root: Path | None, say: Callable[[str], None]
) -> Staged:
    """Stage what `read` holds under the name and hash of `shown`; without `root`, for one call."""
    if root is not None and digest is not None:
        target = cache.folder(root, digest)
        with cache.building(target) as work:
            _build(read, work, digest, say)
        return Staged(shown, target, StageInfo.load(target), from_cache=False)
    room = rooms.make(Path(tempfile.gettempdir()), "staging")
    work = room / "new"
    try:
        work.mkdir()
        _build(read, work, digest, say)
    except BaseException:
        rooms.remove(room)
        raise
    return Staged(shown, work, StageInfo.load(work), from_cache=False, _temporary=room)


def _build(src: Source, work: Path, digest: str | None, say: Callable[[str], None]) -> None:
    from lanescope.attribution.ingest.stage import stage  # slow: not where a trace is staged

    before = src.path.stat()
    unpacked = work / "unpacked.sqlite"
    try:
        with ThreadPoolExecutor(1) as pool:
            hashing = pool.submit(source.sha256, src.path) if digest is None else None
            reader = _reader(src, unpacked, say)
            info = StageInfo(sha256=digest or "", kind=src.kind.value)
            if hashing is not None:
                info.sha256 = hashing.result()
            with closing(reader):
                stage(reader, work, info, say)
    except OSError as exc:
        if exc.errno == 28:  # ENOSPC
            raise UnusableInput(
                f"{src.path}: no space left in {work.parent.parent} for the staged tables",
                "set LANESCOPE_CACHE_DIR (TMPDIR without a cache) to a folder with more room",
            ) from exc
        raise
    finally:
        unpacked.unlink(missing_ok=True)
    if not source.same_file(src.path, before):
        raise UnusableInput(f"{src.path}: changed while it was read", "run again")


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
