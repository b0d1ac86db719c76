"""A DuckDB connection with limits, and the SQL modules it runs.

SQL lives in `sql/<question>/<name>.sql`; a module creates the table or view of its own name. Values
come in as variables or as registered tables, never by pasting text.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb

from lanescope.attribution import limits, rooms
from lanescope.schemas.errors import UnusableInput, UsageError

_SPILL_FOLDER = "LANESCOPE_SPILL_DIR"


def spill_folder(staged: Path) -> Path:
    """A new room for what does not fit into memory, in `LANESCOPE_SPILL_DIR` if that is set.

    Otherwise beside the staged tables. To be removed with `rooms.remove`.
    """
    root = os.environ.get(_SPILL_FOLDER)
    if root:
        try:
            Path(root).mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise UsageError(
                f"{_SPILL_FOLDER}: {root} cannot be made ({exc.strerror})", "name another"
            ) from exc
    place = Path(root) if root else staged.parent
    try:
        return rooms.make(place, "spill")
    except OSError as exc:
        raise UnusableInput(
            f"{place}: cannot be written ({exc.strerror})",
            f"set {_SPILL_FOLDER} to a folder with room",
        ) from exc


def temporary_places() -> list[Path]:
    """Where, beside the cache, there may be rooms."""
    named = os.environ.get(_SPILL_FOLDER)
    return [Path(tempfile.gettempdir()), *([Path(named)] if named else [])]


def limit_reached(exc: BaseException) -> UnusableInput | None:
    """What DuckDB's error says of memory or disk, with the remedy; None if it is about neither."""
    text = " ".join(str(exc).split())
    more = f"set {limits.MEMORY_VARIABLE} to more"
    folder = f"set {_SPILL_FOLDER} to a folder with more room, or {more}"
    if isinstance(exc, duckdb.OutOfMemoryException):
        if "max_temp_directory_size" in text:
            return UnusableInput("what does not fit into memory fills the spill folder", folder)
        held = f"{limits.memory_limit() >> 20} MiB"
        return UnusableInput(f"out of memory: the work may hold {held}, which is too little", more)
    if isinstance(exc, duckdb.IOException) and "No space left" in text:
        return UnusableInput(f"no space left to spill to ({text[:200]})", folder)
    return None


def connect(spill: Path) -> duckdb.DuckDBPyConnection:
    """A connection in memory that spills to `spill` and reads nothing from the network."""
    con = duckdb.connect(
        config={
            "memory_limit": f"{limits.memory_limit() >> 20}MiB",
            "temp_directory": str(spill),
            "max_temp_directory_size": f"{limits.spill_limit(spill) >> 10}KiB",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
    )
    con.execute("SET enable_progress_bar = false")
    return con


#: What DuckDB keeps while others work.
_MEMORY_ASIDE = 192 << 20
#: A trace for whose kernels the limit has so many bytes each keeps its tables in memory: at 1 GiB
#: up to ten million kernels.
_KERNEL_BYTES = 100


def is_large(kernels: int) -> bool:
    """Whether the tables of a trace and what NumPy needs do not fit into memory at once."""
    return kernels * _KERNEL_BYTES > limits.memory_limit()


def step_aside(con: duckdb.DuckDBPyConnection) -> None:
    """Have DuckDB move most of its tables to the spill folder: NumPy needs the memory next.

    Only for a large trace: moving it costs time.
    """
    least = min(_MEMORY_ASIDE, limits.memory_limit())
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
