"""Inputs of every kind, and the one line for what is none; the cache that can be trusted."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import zstandard

import lanescope
from lanescope.attribution.ingest import cache, open_trace
from lanescope.schemas.errors import UnusableInput
from tests.conftest import load_json, trace_path

Unpacked = Callable[[str], Path]
Surgery = Callable[..., Path]


def kernels(path: Path, **options: bool) -> tuple[int, int]:
    with lanescope.attribute(path, **options) as result:  # type: ignore[arg-type]
        coverage = result.document.coverage
        return coverage.kernels, coverage.kernel_sum_ns


@pytest.fixture(scope="module")
def k1_totals() -> tuple[int, int]:
    phases = load_json("k1", "reference")["phases"].values()
    return sum(p["kernels"] for p in phases), sum(p["sum_ns"] for p in phases)


# -- good inputs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", ["", "xz", "gz", "zst"])
def test_packed_or_plain(
    packing: str, unpacked: Unpacked, tmp_path: Path, k1_totals: tuple[int, int]
) -> None:
    data = unpacked("k1").read_bytes()
    pack = {"": bytes, "xz": lzma.compress, "gz": gzip.compress, "zst": zstandard.compress}
    path = tmp_path / f"k1.{packing or 'sqlite'}"
    path.write_bytes(pack[packing](data))
    assert kernels(path) == k1_totals


def parquet_folder(sqlite: Path, folder: Path) -> Path:
    """The tables of an export as a folder of Parquet tables."""
    folder.mkdir()
    con = sqlite3.connect(sqlite)
    import pandas as pd

    for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        frame = pd.read_sql(f'SELECT * FROM "{name}"', con)
        for column in frame.columns:
            if frame[column].dtype == "float64":  # nullable integers
                frame[column] = frame[column].astype("Int64")
        frame.to_parquet(folder / f"{name}.parquet")
    con.close()
    return folder


def test_a_folder_of_parquet_tables(
    unpacked: Unpacked, tmp_path: Path, k1_totals: tuple[int, int]
) -> None:
    folder = parquet_folder(unpacked("k1"), tmp_path / "parquet")
    with lanescope.attribute(folder) as result, lanescope.attribute(trace_path("k1")) as whole:
        assert result.document.phases == whole.document.phases
        assert result.document.buckets == whole.document.buckets
    assert kernels(folder) == k1_totals


@pytest.mark.parametrize(
    "name", ["with space", "quote'", 'double"', "semi;colon", "ünïcode", "a?b#c%20"]
)
def test_any_path(
    name: str, unpacked: Unpacked, tmp_path: Path, k1_totals: tuple[int, int]
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    path = folder / f"{name}.sqlite"
    shutil.copy(unpacked("k1"), path)
    assert kernels(path) == k1_totals
    assert [p.name for p in folder.iterdir()] == [path.name]


def test_a_read_only_place_is_enough(
    unpacked: Unpacked, tmp_path: Path, k1_totals: tuple[int, int]
) -> None:
    folder = tmp_path / "fixed"
    folder.mkdir()
    path = folder / "k1.sqlite"
    shutil.copy(unpacked("k1"), path)
    con = sqlite3.connect(path)
    con.execute("PRAGMA journal_mode = WAL")  # a reader would want a -shm file beside it
    con.close()
    path.chmod(stat.S_IRUSR)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert kernels(path) == k1_totals
        assert [p.name for p in folder.iterdir()] == ["k1.sqlite"]
    finally:
        folder.chmod(stat.S_IRWXU)


# -- bad inputs --------------------------------------------------------------------------------


#: kind -> what the file holds, made of a good export
BAD_FILES: dict[str, Callable[[bytes], bytes]] = {
    "zeroed": lambda good: bytes(4096) + good[4096:],
    "half": lambda good: good[: len(good) // 2],
    "half a page": lambda good: good[: len(good) // 2 + 1000],
    "header": lambda good: good[:100],
    "empty": lambda _good: b"",
    "text": lambda _good: b"these are notes\n",
    "lfs": lambda _good: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n",
    "report": lambda _good: b"\x00\x01NVIDIA\x02" * 1000,
    "cut.xz": lambda good: lzma.compress(good[:1_000_000])[:50_000],
    "text.xz": lambda _good: lzma.compress(b"notes"),
    "cut.zst": lambda good: zstandard.compress(good)[:50_000],
    "cut.gz": lambda good: gzip.compress(good)[:50_000],
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_what_is_no_export_is_one_line(kind: str, unpacked: Unpacked, tmp_path: Path) -> None:
    path = tmp_path / f"{kind}.sqlite"
    path.write_bytes(BAD_FILES[kind](unpacked("k1").read_bytes()))
    with pytest.raises(UnusableInput) as caught:
        kernels(path)
    line = str(caught.value)
    assert str(path) in line
    assert "\n" not in line
    assert caught.value.remedy
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_missing_path_stays_missing(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="no such file"):
        kernels(tmp_path / "nowhere.sqlite")
    assert not list(tmp_path.iterdir())


def test_a_folder_without_tables_and_a_database_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="without Parquet tables"):
        kernels(tmp_path)
    other = tmp_path / "other.sqlite"
    con = sqlite3.connect(other)
    con.execute("CREATE TABLE songs (title)")
    con.close()
    with pytest.raises(UnusableInput, match="CUPTI_ACTIVITY_KIND_KERNEL"):
        kernels(other)


# -- the cache -----------------------------------------------------------------------------------


def test_the_second_time_comes_from_the_cache(unpacked: Unpacked) -> None:
    with open_trace(unpacked("k2")):
        pass
    with open_trace(unpacked("k2")) as again:
        assert again.from_cache


def test_content_decides_not_name_or_time(
    unpacked: Unpacked, tmp_path: Path, surgery: Surgery, k1_totals: tuple[int, int]
) -> None:
    path = tmp_path / "trace.sqlite"
    shutil.copy(unpacked("k1"), path)
    before = path.stat()
    assert kernels(path) == k1_totals
    changed = surgery("k1", "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = 5")
    shutil.copy(changed, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kernels(path)[0] == k1_totals[0] - 1


def test_without_a_writable_cache_it_works_all_the_same(
    unpacked: Unpacked, monkeypatch: pytest.MonkeyPatch, k1_totals: tuple[int, int]
) -> None:
    monkeypatch.setenv("LANESCOPE_CACHE_DIR", "/proc/nowhere")
    assert kernels(unpacked("k1")) == k1_totals
    assert kernels(unpacked("k1"), use_cache=False) == k1_totals


def test_no_cache_leaves_nothing(
    unpacked: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANESCOPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    kernels(unpacked("k1"), use_cache=False)
    assert not (tmp_path / "cache").exists()


CHILD = "import sys, lanescope; lanescope.attribute(sys.argv[1]).close()"


def test_a_kill_at_any_point_leaves_the_next_run_right(
    unpacked: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, k1_totals: tuple[int, int]
) -> None:
    monkeypatch.setenv("LANESCOPE_CACHE_DIR", str(tmp_path))
    path = unpacked("k1")
    seen: set[str] = set()
    for wanted in ("api.parquet", "kernels.parquet", "names.parquet", "work.parquet"):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)])
        while child.poll() is None:  # killed as soon as that table appears
            built = {name for _, _, files in os.walk(tmp_path) for name in files}
            if wanted in built:
                seen.add(wanted)
                break
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
        child.wait()
        for entry in tmp_path.iterdir():
            if not entry.name.startswith(".lanescope-"):
                assert cache.is_whole(entry)
    assert seen
    assert kernels(path) == k1_totals
    assert not list(tmp_path.glob(".*")), "the next run clears up after the dead"


def test_a_source_that_changes_while_it_is_read_is_refused(
    unpacked: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hash is taken beside the reading: they may be of different files."""
    monkeypatch.setenv("LANESCOPE_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "trace.sqlite"
    shutil.copy(unpacked("k1"), path)
    other = tmp_path / "other.sqlite"
    shutil.copy(unpacked("k1"), other)

    def swap() -> None:
        other.replace(path)

    with pytest.raises(UnusableInput, match="changed while it was read"):
        open_trace(path, begins=swap)
    assert not list((tmp_path / "cache").iterdir())


def test_a_folder_whose_table_changes_in_place_is_refused(
    unpacked: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANESCOPE_CACHE_DIR", str(tmp_path / "cache"))
    folder = parquet_folder(unpacked("k1"), tmp_path / "parquet")
    table = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"

    def cut() -> None:
        half = pq.read_table(table)
        pq.write_table(half.slice(0, half.num_rows // 2), table)

    with pytest.raises(UnusableInput, match="changed while it was read"):
        open_trace(folder, begins=cut)
    assert not list((tmp_path / "cache").iterdir())


def test_two_processes_may_stage_the_same_trace_at_once(
    unpacked: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, k1_totals: tuple[int, int]
) -> None:
    monkeypatch.setenv("LANESCOPE_CACHE_DIR", str(tmp_path))
    path = unpacked("k1")
    children = [subprocess.Popen([sys.executable, "-c", CHILD, str(path)]) for _ in range(3)]
    assert [c.wait() for c in children] == [0, 0, 0]
    assert [e.name for e in tmp_path.iterdir()] == [
        cache.folder(
            tmp_path,
            json.loads(next(tmp_path.glob("*/stage.json")).read_text())["sha256"],
            path.stat().st_size,
        ).name
    ]
    assert kernels(path) == k1_totals


def test_a_full_disk_is_one_line_and_leaves_nothing(
    unpacked: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=False
    ).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        monkeypatch.setenv("LANESCOPE_CACHE_DIR", str(small))
        with pytest.raises(UnusableInput, match="no space left"):
            kernels(unpacked("k1"))
        assert not list(small.iterdir())
    finally:
        subprocess.run(["umount", small], check=True)


def _held(path: Path) -> int:
    """How many of this process's files are `path`."""
    return sum(fd.resolve() == path for fd in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's /proc")
@pytest.mark.parametrize("broken", [False, True])
def test_a_source_is_let_go(broken: bool, tmp_path: Path) -> None:
    """Thousands of traces in one process would run out of open files."""
    path = tmp_path / "k1.sqlite"
    path.write_bytes(lzma.decompress(trace_path("k1").read_bytes()))
    if broken:
        path.write_bytes(path.read_bytes()[:40_000])
        with pytest.raises(UnusableInput):
            lanescope.attribute(path, use_cache=False)
    else:
        lanescope.attribute(path, use_cache=False).close()
    assert _held(path) == 0
