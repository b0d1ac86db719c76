"""How much memory and disk the work may take: what is named, or a share of what there is."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from lanescope.schemas.errors import UsageError

#: Each names another limit: bytes, or a number with KB, MB, GB, KiB, MiB or GiB.
MEMORY_VARIABLE, SPILL_VARIABLE = "LANESCOPE_MEMORY", "LANESCOPE_SPILL_MOST"
_UNITS = {"": 1} | {f"{p}b": 1000**n for n, p in enumerate("kmg", 1)}
_UNITS |= {f"{p}ib": 1024**n for n, p in enumerate("kmg", 1)}
#: This share of what the machine (or its cgroup) has, and no more than this; the rest spills.
_MEMORY_SHARE = 0.25
_MEMORY_MOST = 1 << 30
_MEMORY_LEAST = 64 << 20
#: Of the disk's free space; the rest is for what is staged and written meanwhile.
_SPILL_SHARE = 0.75


def memory_limit() -> int:
    """Bytes DuckDB may use: `LANESCOPE_MEMORY`, or a quarter of what the machine or its cgroup has.

    At most 1 GiB unless named. Raises `UsageError` for a value that is no size.
    """
    named = os.environ.get(MEMORY_VARIABLE)
    if named:
        return max(_MEMORY_LEAST, _bytes(MEMORY_VARIABLE, named))
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(min(min([total, *cgroup_limits()]) * _MEMORY_SHARE, _MEMORY_MOST))


def spill_limit(folder: Path) -> int:
    """Bytes that may be spilled to `folder`: `LANESCOPE_SPILL_MOST`, or three quarters of the free.

    Raises `UsageError` for a value that is no size.
    """
    named = os.environ.get(SPILL_VARIABLE)
    return (
        _bytes(SPILL_VARIABLE, named)
        if named
        else int(shutil.disk_usage(folder).free * _SPILL_SHARE)
    )


def cgroup_limits(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> list[int]:
    """The memory limits, in bytes, of the process's cgroup and of those around it (v1 and v2).

    root: where cgroups are mounted; own: lines `number:controllers:path`. In a container the path
    may be one of the host's, which is not seen there: the limits at the root are the container's.
    """
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    places = {(root, "memory.max"), (root, "memory.high")}
    places.add((root / "memory", "memory.limit_in_bytes"))
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # v2; in a hybrid setup it is mounted below
            for top in (root, root / "unified"):
                places |= {(g, n) for g in _up(top, path) for n in ("memory.max", "memory.high")}
        elif "memory" in controllers.split(","):
            places |= {(g, "memory.limit_in_bytes") for g in _up(root / "memory", path)}
    found = [_number(group / name) for group, name in places]
    return [limit for limit in found if limit is not None]


def _up(top: Path, path: str) -> list[Path]:
    """The group of that path, and those around it."""
    parts = [p for p in path.split("/") if p not in ("", "..")]
    return [top.joinpath(*parts[:n]) for n in range(len(parts) + 1)]


def _number(file: Path) -> int | None:
    """What the file says; None for `max`, or where there is no such file."""
    try:
        text = file.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _bytes(variable: str, text: str) -> int:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise UsageError(f"{variable}: {text!r} is no size", "give bytes, or say 2GB, 512MiB")
    return int(float(found[1]) * unit)
