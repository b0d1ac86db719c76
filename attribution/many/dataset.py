"""A dataset of attributions: one folder a trace, whole or absent.

    DATASET/lanescope-dataset.json         says that the folder is a dataset
    DATASET/trace=NAME-HASH/               everything of one trace, by `tables` and `output`
        attributions.parquet, buckets.parquet, … or failures.parquet
        asked.json                         what was asked: source, profile, window, program

A trace's folder is written beside the others and renamed when it is whole. DuckDB reads all of
them as one (`DATASET/trace=*/buckets.parquet`, hive partitioning).
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from lanescope.attribution import rooms
from lanescope.schemas.errors import UsageError

MARKER, ASKED = "lanescope-dataset.json", "asked.json"
_SCHEMA = "lanescope.dataset/1"
_LONGEST_NAME = 80


def open_dataset(folder: Path) -> None:
    """Make a dataset of `folder`, or find that it is one. Raises `UsageError` for another's."""
    marker = folder / MARKER
    if marker.is_file():
        rooms.sweep(folder)
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is no dataset of lanescope", "choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text(json.dumps({"schema": _SCHEMA}) + "\n", encoding="utf-8")


def key(path: Path) -> str:
    """The trace's name in the dataset: its file name, and a hash that tells equal names apart."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", path.name)[:_LONGEST_NAME]
    whole = str(path.absolute()).encode("utf-8", "surrogateescape")
    return f"{stem}-{hashlib.sha256(whole).hexdigest()[:8]}"


def folder_of(dataset: Path, path: Path) -> Path:
    """Where a trace's tables lie."""
    return dataset / f"trace={key(path)}"


def is_answered(dataset: Path, path: Path, asked: str) -> bool:
    """Whether the dataset holds a result of this very question; a failure is asked again."""
    folder = folder_of(dataset, path)
    if not (folder / "attributions.parquet").is_file():
        return False
    try:
        said = json.loads((folder / ASKED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and said.get("question") == asked
