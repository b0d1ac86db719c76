"""Write an attribution's folder: all of it, or nothing.

attribution.json, steps.parquet, step_buckets.parquet, kernels.parquet, layer_steps.parquet where
rows are copied; views add their pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from lanescope.attribution import kernels_out
from lanescope.attribution.attribute import Analysis, Attribution
from lanescope.attribution.beside import beside
from lanescope.attribution.frames import steps_table
from lanescope.schemas.errors import UsageError

DOCUMENT = "attribution.json"
STEPS = "steps.parquet"
STEP_BUCKETS = "step_buckets.parquet"
KERNELS = "kernels.parquet"
LAYER_STEPS = "layer_steps.parquet"


def default_folder(path: Path) -> Path:
    """`./NAME.lanescope/` for a trace called NAME, whatever its suffixes."""
    name = path.name
    for suffix in (".xz", ".zst", ".gz", ".sqlite", ".nsys-rep", ".csv"):
        name = name.removesuffix(suffix)
    return Path(f"{name or 'trace'}.lanescope")


def truth_beside(path: Path) -> Path | None:
    """The sidecar of exact counts of a trace, `NAME.truth.json` beside it; None without one."""
    sidecar = path.with_name(f"{default_folder(path).stem}.truth.json")
    return sidecar if sidecar.is_file() else None


def check_target(folder: Path, force: bool) -> None:
    """Refuse to overwrite. Raises `UsageError`; with `force` only our own folders are replaced."""
    if not folder.exists():
        return
    if not force:
        raise UsageError(f"{folder} exists", "choose another --out, or --force to replace it")
    ours = folder.is_dir() and ((folder / DOCUMENT).exists() or not any(folder.iterdir()))
    if not ours:
        raise UsageError(f"{folder} is not a folder that lanescope wrote", "choose another --out")


@contextmanager
def writing(folder: Path) -> Iterator[Writing]:
    """Write an attribution's folder beside `folder`, which gets the name when all is written.

    Raises `UnusableInput` when the disk is full or the place cannot be written; `folder` is then
    as it was.
    """
    with beside(folder, folder=True) as work, ThreadPoolExecutor(1) as pool:
        yield Writing(work, pool)


def write(result: Attribution, folder: Path, pages: Callable[[Path], None]) -> None:
    """Write a whole result, see `writing`; `pages` adds what views make of it."""
    with writing(folder) as out:
        out.finish(result, pages)


class Writing:
    """A folder that is being written."""

    def __init__(self, work: Path, pool: ThreadPoolExecutor) -> None:
        self._work, self._pool = work, pool
        self._kernels: Future[None] | None = None

    def begin(self, analysis: Analysis) -> None:
        """Start on kernels.parquet: most of the bytes and hardly any Python, so it runs beside."""
        rows = kernels_out.Writer(analysis)
        self._kernels = self._pool.submit(rows.write, self._work / KERNELS)

    def finish(self, result: Attribution, pages: Callable[[Path], None]) -> None:
        """Write the rest; `pages` adds what views make of the result."""
        timeline = result.document.summary is None  # a kernel summary has no row a kernel
        if timeline and self._kernels is None:
            self.begin(result.analysis)
        _write_tables(result, self._work)
        pages(self._work)
        if self._kernels is not None:
            self._kernels.result()


def _write_tables(result: Attribution, folder: Path) -> None:
    text = result.document.model_dump_json(indent=1, by_alias=True)
    (folder / DOCUMENT).write_text(text + "\n", encoding="utf-8")
    if result.document.summary is not None:  # no timeline: nothing a step or a kernel
        return
    pq.write_table(steps_table(result.analysis), folder / STEPS, compression="zstd")
    con = result.analysis.con
    con.sql(
        "SELECT p.pid AS process, b.* EXCLUDE (process) FROM step_buckets AS b"
        " JOIN process_ids AS p USING (process) ORDER BY ALL"
    ).write_parquet(str(folder / STEP_BUCKETS), compression="zstd")
    if result.layer_steps is not None:
        result.layer_steps.to_parquet(folder / LAYER_STEPS, compression="zstd", index=False)
