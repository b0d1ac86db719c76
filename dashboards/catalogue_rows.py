"""Rows of the catalogue as a list shows them: a page at a time, whatever the number of windows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from lanescope.dashboards.names import shown
from lanescope.schemas.catalogue.models import AttributionRow, GateRow, Rung, Window

#: What each list shows: columns of its model, in order.
LISTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "windows": (
        Window,
        ("id", "run", "incumbent", "candidate", "axis", "state", "outcome", "started_ns", "folder"),
    ),
    "attributions": (
        AttributionRow,
        ("id", "lane", "steps", "wall_ms", "created_ns", "trace_sha256", "folder"),
    ),
    "ladder": (Rung, ("id", "ladder", "name", "change", "status", "gate", "note", "created_ns")),
    "gates": (GateRow, ("id", "window_id", "verdict", "post_hoc", "rules_sha256", "created_ns")),
}


def heading(column: str) -> str:
    """A column's name for readers."""
    return column.removesuffix("_ns").replace("_", " ").replace(" ms", " (ms)")


def cell(column: str, value: Any) -> str | int | float:
    """A value as a list shows it; names as text, times as UTC."""
    if value is None:
        return ""
    if column.endswith("_ns"):
        return f"{datetime.fromtimestamp(value / 1e9, UTC):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        round(value, 4)
        if isinstance(value, float)
        else value
        if isinstance(value, int)
        else shown(str(value))
    )


def rows(
    session: Session, name: str, page: int, size: int, order: str = "id", down: bool = True
) -> tuple[list[dict[str, Any]], int]:
    """One page of a list, and how many rows there are."""
    model, columns = LISTS[name]
    by: InstrumentedAttribute[Any] = getattr(model, order if order in columns else "id")
    query = select(model).order_by(by.desc() if down else by, model.id.desc())
    total = session.scalar(select(func.count()).select_from(model)) or 0
    found = session.scalars(query.limit(size).offset(page * size))
    return [{c: cell(c, getattr(row, c)) for c in columns} for row in found], total


def folders(session: Session, ids: list[int]) -> list[tuple[str, str]]:
    """Lane and folder of attributions, in the order of `ids`."""
    found = {r.id: (r.lane, r.folder) for r in session.scalars(
        select(AttributionRow).where(AttributionRow.id.in_(ids))
    )}  # fmt: skip
    return [found[i] for i in ids if i in found]


def running(session: Session, but: set[str]) -> list[dict[str, Any]]:
    """Windows that have not ended, the latest first, each with the receipts it has written.

    but: runs that are shown already.
    """
    query = select(Window).where(Window.outcome.is_(None)).order_by(Window.started_ns.desc())
    return [
        {"run": shown(w.run), "state": shown(w.state), "receipts": receipts(Path(w.folder))}
        for w in session.scalars(query.where(Window.run.not_in(but)).limit(5))
    ]


def receipts(folder: Path) -> list[dict[str, Any]]:
    """State, status, seconds and error of a window's receipts that can be read, in order."""
    out = []
    for file in sorted((folder / "receipts").glob("*.json")):
        try:
            receipt = json.loads(file.read_text(encoding="utf-8"))
            out.append(
                {k: cell(k, receipt.get(k)) for k in ("state", "status", "seconds", "error")}
            )
        except (OSError, ValueError):  # being written just now: it is there at the next look
            continue
    return out
