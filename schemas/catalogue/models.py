"""What the catalogue holds: one class a table, one row as its docstring says.

Times are integer nanoseconds since the Unix epoch, UTC. Paths are as they were when the row was
written. Whatever has no column of its own lies in the JSON column `facts`.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import JSON, BigInteger, Double, ForeignKey, Index, MetaData, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

#: Named constraints, so that a later migration can drop them on every engine.
NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The base of every table."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {dict[str, Any]: JSON, list[Any]: JSON}  # noqa: RUF012 - SQLAlchemy's own


class Window(Base):
    """One captured window: a candidate profiled while the incumbent was stopped."""

    __tablename__ = "windows"

    id: Mapped[int] = mapped_column(primary_key=True)
    run: Mapped[str] = mapped_column(String(200), unique=True)  # the window's own name
    incumbent: Mapped[str | None]
    candidate: Mapped[str]
    axis: Mapped[str | None]  # the one declared difference between the two lanes
    state: Mapped[str]  # the last state reached
    outcome: Mapped[str | None]  # null while it runs
    exit_code: Mapped[int | None]
    started_ns: Mapped[int] = mapped_column(BigInteger, default=time.time_ns)
    ended_ns: Mapped[int | None] = mapped_column(BigInteger)
    folder: Mapped[str]
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict)

    artifacts: Mapped[list[Artifact]] = relationship(
        back_populates="window", cascade="all, delete-orphan", order_by="Artifact.id"
    )
    attributions: Mapped[list[AttributionRow]] = relationship(back_populates="window")
    gates: Mapped[list[GateRow]] = relationship(back_populates="window")


class Artifact(Base):
    """One file of a window, by content."""

    __tablename__ = "artifacts"

    id: Mapped[int] = mapped_column(primary_key=True)
    window_id: Mapped[int] = mapped_column(ForeignKey("windows.id", ondelete="CASCADE"), index=True)
    kind: Mapped[str]  # report, export, log, receipt, probe ...
    path: Mapped[str]  # relative to the window's folder
    sha256: Mapped[str] = mapped_column(String(64))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    private: Mapped[bool] = mapped_column(default=False)  # may hold secrets: never share

    window: Mapped[Window] = relationship(back_populates="artifacts")


class AttributionRow(Base):
    """One attribution of one trace, with the figures that a list shows."""

    __tablename__ = "attributions"

    id: Mapped[int] = mapped_column(primary_key=True)
    window_id: Mapped[int | None] = mapped_column(
        ForeignKey("windows.id", ondelete="SET NULL"), index=True
    )
    lane: Mapped[str]
    trace_sha256: Mapped[str] = mapped_column(String(64), index=True)
    folder: Mapped[str]
    steps: Mapped[int | None]  # measured verification steps
    wall_ms: Mapped[float | None] = mapped_column(Double)  # mean wall of a measured step
    created_ns: Mapped[int] = mapped_column(BigInteger, default=time.time_ns)
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict)

    window: Mapped[Window | None] = relationship(back_populates="attributions")


class GateRow(Base):
    """One verdict of one rules file over one comparison."""

    __tablename__ = "gates"

    id: Mapped[int] = mapped_column(primary_key=True)
    window_id: Mapped[int | None] = mapped_column(
        ForeignKey("windows.id", ondelete="SET NULL"), index=True
    )
    rules_sha256: Mapped[str] = mapped_column(String(64))
    verdict: Mapped[str]  # pass, fail, inconclusive, invalid
    post_hoc: Mapped[bool] = mapped_column(default=False)
    created_ns: Mapped[int] = mapped_column(BigInteger, default=time.time_ns)
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict)  # the gate document

    window: Mapped[Window | None] = relationship(back_populates="gates")


class Rung(Base):
    """One rung of a ladder: one change, measured. Append-only: the database refuses a change."""

    __tablename__ = "rungs"
    __table_args__ = (Index("uq_rungs_ladder_name", "ladder", "name", unique=True),)

    id: Mapped[int] = mapped_column(primary_key=True)
    ladder: Mapped[str] = mapped_column(String(200), index=True)
    name: Mapped[str] = mapped_column(String(200))
    change: Mapped[str]
    difference: Mapped[dict[str, Any]] = mapped_column(default=dict)  # key -> [before, after]
    #: metric -> {median, min, max, n, unit, better}
    metrics: Mapped[dict[str, Any]] = mapped_column(default=dict)
    gate: Mapped[str | None]  # pass, fail, inconclusive, invalid; null: no gate was run
    status: Mapped[str]  # kept, reverted, closed, blocked
    note: Mapped[str] = mapped_column(default="")
    because: Mapped[str] = mapped_column(default="", server_default="")  # decides a tie
    links: Mapped[list[Any]] = mapped_column(default=list)  # windows, receipts, pages
    created_ns: Mapped[int] = mapped_column(BigInteger, default=time.time_ns)

    marks: Mapped[list[RungMark]] = relationship(back_populates="rung", order_by="RungMark.id")


class RungMark(Base):
    """One later word on a rung: a correction or a retraction. The rung itself stays as it was."""

    __tablename__ = "rung_marks"

    id: Mapped[int] = mapped_column(primary_key=True)
    rung_id: Mapped[int] = mapped_column(ForeignKey("rungs.id"), index=True)
    kind: Mapped[str]  # correction, retraction
    text: Mapped[str]
    created_ns: Mapped[int] = mapped_column(BigInteger, default=time.time_ns)

    rung: Mapped[Rung] = relationship(back_populates="marks")
