"""Write an attribution's folder: all of it, or nothing.

attribution.json, steps.parquet, step_buckets.parquet, kernels.parquet, layer_steps.parquet where
rows are copied; views add their pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
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
        text = result.document.model_dump_json(indent=1, by_alias=True)
        (self._work / DOCUMENT).write_text(text + "\n", encoding="utf-8")
        if result.document.summary is not None:  # no timeline: nothing a step or a kernel
            pages(self._work)
            return
        if self._kernels is None:
            self.begin(result.analysis)
        written = [
            self._pool.submit(pq.write_table, table, self._work / name, compression="zstd")
            for name, table in _tables(result).items()
        ]
        pages(self._work)
        for future in (self._kernels, *written):
            if future is not None:
                future.result()


def _tables(result: Attribution) -> dict[str, pa.Table]:
    """The tables of a step, a (step, bucket) and a layer-step, by file name."""
    step_buckets = result.analysis.con.sql(
        "SELECT p.pid AS process, b.* EXCLUDE (process) FROM step_buckets AS b"
        " JOIN process_ids AS p USING (process) ORDER BY ALL"
    )
    tables = {
        STEPS: steps_table(result.analysis),
        STEP_BUCKETS: step_buckets.to_arrow_table(),
    }
    if result.layer_steps is not None:
        tables[LAYER_STEPS] = pa.Table.from_pandas(result.layer_steps, preserve_index=False)
    return tables
