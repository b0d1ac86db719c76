"""Grow a SQLite export N times along the time axis: `python -m benchmarks.grow IN OUT N`.

Every copy is the trace again, later: times are shifted by the span of the kernels, correlation ids
by their largest, so that launches, ranges and kernels keep finding one another. Rows before the
first range (start-up, graph capture) are not repeated, nor are names or graph nodes: a server that
runs N times as long starts once. IN may be compressed as .xz.
"""

from __future__ import annotations

import lzma
import shutil
import sqlite3
import sys
from pathlib import Path

_PAUSE_NS = 50_000_000
_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "NVTX_EVENTS",
)


def grow(source: Path, target: Path, times: int) -> int:
    """Write `target`; returns its kernels. `target` must not exist."""
    if source.suffix == ".xz":
        with lzma.open(source) as src, target.open("xb") as dst:
            shutil.copyfileobj(src, dst, 1 << 20)
    else:
        shutil.copyfile(source, target)
    con = sqlite3.connect(target)
    try:
        con.execute("PRAGMA journal_mode = OFF")
        con.execute("PRAGMA synchronous = OFF")
        _repeat(con, times)
        con.commit()
        count: int = con.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0]
    finally:
        con.close()
    return count


def _repeat(con: sqlite3.Connection, times: int) -> None:
    span = con.execute('SELECT max("end") - min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL')
    shift = span.fetchone()[0] + _PAUSE_NS
    ids = con.execute("SELECT max(correlationId) + 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME")
    id_shift = ids.fetchone()[0]
    first = con.execute("SELECT min(start) FROM NVTX_EVENTS WHERE eventType = 59").fetchone()[0]
    for table in _TABLES:
        names = [row[1] for row in con.execute(f"PRAGMA table_info({table})")]
        if not names:
            continue
        moved = {"start": shift, "end": shift, "correlationId": id_shift}
        cells = ", ".join(f'"{n}" + :i * {moved[n]}' if n in moved else f'"{n}"' for n in names)
        only = " AND eventType = 59" if table == "NVTX_EVENTS" else ""
        con.execute(
            f"CREATE TEMP TABLE once AS SELECT * FROM {table} WHERE start >= ?{only}", (first,)
        )
        for i in range(1, times):
            con.execute(f"INSERT INTO {table} SELECT {cells} FROM once", {"i": i})
        con.execute("DROP TABLE once")


if __name__ == "__main__":
    print(f"{grow(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])):,} kernels")
