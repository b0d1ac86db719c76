"""A DuckDB connection with limits, and the SQL modules it runs.

SQL lives in `sql/<question>/<name>.sql`; a module creates the table or view of its own name. Values
come in as variables or as registered tables, never by pasting text.
"""

from __future__ import annotations

import os
import re
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb

from lanescope.attribution import rooms
from lanescope.schemas.errors import UsageError

#: This share of what the machine (or its cgroup) has, and no more than this; the rest spills.
_MEMORY_SHARE = 0.25
_MEMORY_MOST = 1 << 30


#: Names another limit: bytes, or a number with KB, MB, GB, KiB, MiB or GiB.
MEMORY_VARIABLE = "LANESCOPE_MEMORY"
_UNITS = {
    "": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_LEAST = 64 << 20


def memory_limit() -> int:
    """Bytes DuckDB may use: `LANESCOPE_MEMORY`, or a quarter of what the machine or its cgroup has.

    At most 1 GiB unless named. Raises `UsageError` for a value that is no size.
    """
    named = os.environ.get(MEMORY_VARIABLE)
    if named:
        return max(_LEAST, _bytes(named))
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return int(min(total * _MEMORY_SHARE, _MEMORY_MOST))


def _bytes(text: str) -> int:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise UsageError(
            f"{MEMORY_VARIABLE}: {text!r} is no size", "give bytes, or say 2GB, 512MiB"
        )
    return int(float(found[1]) * unit)


def spill_folder(staged: Path) -> Path:
    """A new room for what does not fit into memory, in `LANESCOPE_SPILL_DIR` if that is set.

    Otherwise beside the staged tables. To be removed with `rooms.remove`.
    """
    root = os.environ.get("LANESCOPE_SPILL_DIR")
    if root:
        try:
            Path(root).mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise UsageError(
                f"LANESCOPE_SPILL_DIR: {root} cannot be made ({exc.strerror})", "name another"
            ) from exc
    return rooms.make(Path(root) if root else staged.parent, "spill")


def temporary_places() -> list[Path]:
    """Where, beside the cache, there may be rooms."""
    named = os.environ.get("LANESCOPE_SPILL_DIR")
    return [Path(tempfile.gettempdir()), *([Path(named)] if named else [])]


def connect(spill: Path) -> duckdb.DuckDBPyConnection:
    """A connection in memory that spills to `spill` and reads nothing from the network."""
    con = duckdb.connect(
        config={
            "memory_limit": f"{memory_limit() >> 20}MiB",
            "temp_directory": str(spill),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
    )
    con.execute("SET enable_progress_bar = false")
    return con


#: What DuckDB keeps while others work.
_MEMORY_ASIDE = 192 << 20


def step_aside(con: duckdb.DuckDBPyConnection) -> None:
    """Have DuckDB move most of its tables to the spill folder: NumPy needs the memory next."""
    least = min(_MEMORY_ASIDE, memory_limit())
    con.execute(f"SET memory_limit = '{least >> 20}MiB'")


@cache
def sql(module: str) -> str:
    """The text of a SQL module, by `question/name`."""
    return files("lanescope.attribution.sql").joinpath(f"{module}.sql").read_text(encoding="utf-8")


def run(con: duckdb.DuckDBPyConnection, module: str) -> None:
    """Run a SQL module: it creates the table or view of its own name."""
    con.execute(sql(module))


def first(con: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    """The only row of a query. (A result left half-read blocks the connection in DuckDB 2.)"""
    row: tuple[Any, ...] = con.execute(query).fetchall()[0]
    return row


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    """The rows of a small query, as dictionaries."""
    cursor = con.execute(query)
    names = [d[0] for d in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def set_variable(con: duckdb.DuckDBPyConnection, name: str, value: int | bool) -> None:
    """Give SQL modules a value: `getvariable('name')`. Views take no prepared parameters."""
    if not name.isidentifier():
        raise ValueError(name)
    con.execute(f"SET VARIABLE {name} = {value if isinstance(value, bool) else int(value)}")
