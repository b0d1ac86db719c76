"""Write an attribution's folder: all of it, or nothing.

attribution.json, steps.parquet, step_buckets.parquet, kernels.parquet, layer_steps.parquet where
rows are copied; views add their pages.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from lanescope.attribution import kernels_out
from lanescope.attribution.attribute import Attribution
from lanescope.attribution.frames import steps_table
from lanescope.schemas.errors import UnusableInput, UsageError

DOCUMENT = "attribution.json"
STEPS = "steps.parquet"
STEP_BUCKETS = "step_buckets.parquet"
KERNELS = "kernels.parquet"
LAYER_STEPS = "layer_steps.parquet"

_ENOSPC = 28


def default_folder(path: Path) -> Path:
    """`./NAME.lanescope/` for a trace called NAME, whatever its suffixes."""
    name = path.name
    for suffix in (".xz", ".zst", ".gz", ".sqlite", ".nsys-rep", ".csv"):
        name = name.removesuffix(suffix)
    return Path(f"{name or 'trace'}.lanescope")


def check_target(folder: Path, force: bool) -> None:
    """Refuse to overwrite. Raises `UsageError`; with `force` only our own folders are replaced."""
    if not folder.exists():
        return
    if not force:
        raise UsageError(f"{folder} exists", "choose another --out, or --force to replace it")
    ours = folder.is_dir() and ((folder / DOCUMENT).exists() or not any(folder.iterdir()))
    if not ours:
        raise UsageError(f"{folder} is not a folder that lanescope wrote", "choose another --out")


def write(result: Attribution, folder: Path, pages: Callable[[Path], None]) -> None:
    """Write everything into a folder beside `folder`, then give it the name.

    `pages` adds what views make of the result. Raises `UnusableInput` when the disk is full or the
    place cannot be written; `folder` is then as it was.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as exc:
        raise UnusableInput(
            f"{folder.parent}: cannot be written ({exc.strerror})", "choose another --out"
        ) from exc
    try:
        work.chmod(0o755)
        with _writing_kernels(result, work):
            _write_tables(result, work)
            pages(work)
        if folder.exists():
            shutil.rmtree(folder)
        work.rename(folder)
    except OSError as exc:
        why = "no space left" if exc.errno == _ENOSPC else str(exc.strerror)
        raise UnusableInput(f"{folder}: cannot be written ({why})", "choose another --out") from exc
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _writing_kernels(result: Attribution, folder: Path) -> Iterator[None]:
    """Write kernels.parquet beside the rest: most of the bytes, and hardly any Python."""
    if result.document.summary is not None:  # no timeline: no row a kernel
        yield
        return
    kernels = kernels_out.Writer(result.analysis)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(kernels.write, folder / KERNELS)
        yield
        written.result()


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
