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
from lanescope.attribution.folders import DOCUMENT, KERNELS, LAYER_STEPS, STEP_BUCKETS, STEPS
from lanescope.attribution.frames import steps_table


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
