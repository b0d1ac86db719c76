"""Shared by all tests: the traces with truth, and a cache of their own."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A landing is judged by the same examples every time; at a desk hypothesis goes on looking.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("desk", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

REPOSITORY = Path(__file__).parents[1]
SAMPLES = REPOSITORY / "captures" / "samples"
TRACES = REPOSITORY / "tests" / "traces"

#: Traces whose reference gives exact figures per phase and step.
REFERENCED = (
    "k1", "k2", "slots20", "slots44", "eager", "noisy", "mixed", "apirange", "fieldlike",
)  # fmt: skip
ALL_TRACES = (*REFERENCED, "graphlevel", "twoproc", "gpus_index")


def trace_path(name: str) -> Path:
    """The bundled trace of that name, compressed."""
    sample = SAMPLES / f"{name}.sqlite.xz"
    return sample if sample.exists() else TRACES / f"{name}.sqlite.xz"


def load_json(name: str, kind: str) -> dict[str, Any]:
    """The trace's `truth` or `reference`."""
    document: dict[str, Any] = json.loads(
        trace_path(name).with_name(f"{name}.{kind}.json").read_text()
    )
    return document


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tests never touch the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANESCOPE_CACHE_DIR", str(folder))
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield folder


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the plain SQLite file of a bundled trace; unpacked once. Read only: copy to change."""
    folder = tmp_path_factory.mktemp("traces")

    def get(name: str) -> Path:
        target = folder / f"{name}.sqlite"
        if not target.exists():
            target.write_bytes(lzma.decompress(trace_path(name).read_bytes()))
        return target

    return get


@pytest.fixture
def surgery(unpacked: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """A copy of a trace changed by SQL: `surgery("k1", "DELETE FROM NVTX_EVENTS")`."""

    def operate(name: str, *statements: str) -> Path:
        target = tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}.sqlite"
        shutil.copy(unpacked(name), target)
        con = sqlite3.connect(target)
        for statement in statements:
            con.execute(statement)
        con.commit()
        con.close()
        return target

    return operate
