"""Memory and disk are bounded: by cgroups of both versions, by what is named, and in one line."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from lanescope.attribution import engine, limits, rooms
from lanescope.schemas.errors import UsageError

MIB = 1 << 20


def _cgroup(root: Path, said: str, files: dict[str, str]) -> list[int]:
    """The limits seen where /proc/self/cgroup says `said` and the mount holds `files`."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    own = root / "own"
    own.write_text(said)
    return sorted(limits.cgroup_limits(root, own))


V2 = "0::/user.slice/job-7.scope\n"
V1 = "12:cpu,cpuacct:/\n5:memory:/slurm/job_7/step_0\n0::/init.scope\n"


@pytest.mark.parametrize(
    ("said", "files", "found"),
    [
        (V2, {"user.slice/job-7.scope/memory.max": "1000"}, [1000]),
        (V2, {"user.slice/memory.max": "500", "user.slice/job-7.scope/memory.max": "max"}, [500]),
        (V2, {"user.slice/job-7.scope/memory.high": "300"}, [300]),
        (V2, {"memory.max": "700", "other.slice/memory.max": "1"}, [700]),  # a container's root
        ("0::/../../host.slice\n", {"memory.max": "700"}, [700]),
        (V1, {"memory/slurm/job_7/memory.limit_in_bytes": "400"}, [400]),
        (V1, {"memory/memory.limit_in_bytes": "9223372036854771712"}, [9223372036854771712]),
        (V1, {"unified/init.scope/memory.max": "200"}, [200]),  # both at once
        ("", {}, []),
    ],
)
def test_cgroups(tmp_path: Path, said: str, files: dict[str, str], found: list[int]) -> None:
    assert _cgroup(tmp_path, said, files) == found


@pytest.mark.parametrize(
    ("text", "size"), [("2GiB", 2 << 30), ("1.5 gb", 1_500_000_000), ("134217728", 128 * MIB)]
)
def test_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, size: int) -> None:
    for variable in (limits.MEMORY_VARIABLE, limits.SPILL_VARIABLE):
        monkeypatch.setenv(variable, text)
    assert limits.memory_limit() == limits.spill_limit(tmp_path) == size
    monkeypatch.setenv(limits.SPILL_VARIABLE, "much")
    with pytest.raises(UsageError, match="LANESCOPE_SPILL_MOST: 'much' is no size"):
        limits.spill_limit(tmp_path)


def test_a_share_of_the_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(limits.MEMORY_VARIABLE, raising=False)
    monkeypatch.setattr(limits, "cgroup_limits", lambda: [2048 * MIB, 512 * MIB])
    assert limits.memory_limit() == 128 * MIB
    monkeypatch.setattr(limits, "cgroup_limits", list)
    assert limits.memory_limit() <= 1024 * MIB


SORT = "CREATE TABLE t AS SELECT hash(range) AS h FROM range(12000000) ORDER BY h"


def test_the_spill_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.MEMORY_VARIABLE, "64MiB")
    monkeypatch.setenv(limits.SPILL_VARIABLE, "1MiB")
    with (
        rooms.room(tmp_path, "spill") as spill,
        engine.connect(spill) as con,
        pytest.raises(duckdb.Error) as failed,
    ):
        con.execute(SORT)
    limit = engine.limit_reached(failed.value)
    assert "fills the spill folder" in str(limit)
    assert "LANESCOPE_SPILL_DIR" in str(limit)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_are_not_about_limits() -> None:
    assert engine.limit_reached(duckdb.IOException("no such file")) is None
    assert engine.limit_reached(ValueError("x")) is None
    full = duckdb.IOException('Could not write file "s/x.tmp": No space left on device')
    assert "no space left to spill to" in str(engine.limit_reached(full))
