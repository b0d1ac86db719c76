"""The ladder: rungs are added and marked, never changed; standings are worked out when it is read.

So a retraction takes a rung's incumbency away in every later reading, and nobody rewrites history.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from lanescope.schemas.catalogue import Rung, RungMark
from lanescope.schemas.documents.ladder import (
    STATUSES,
    Incumbency,
    LadderDocument,
    Mark,
    Measured,
    RungView,
    Standing,
)
from lanescope.schemas.errors import UsageError

RULE = (
    "a kept rung becomes incumbent when its median of the primary metric beats the incumbent's and "
    "its gate did not fail; a tie (either median lies within the other's repetitions) goes to the "
    "better secondary metrics, then to the reason stated with the rung, else the incumbent stays"
)
GATES = ("pass", "fail", "inconclusive", "invalid")


def add(session: Session, rung: Rung) -> Rung:
    """Append a rung. Raises UsageError for a name that is taken, and for what is no measurement."""
    if not rung.name.strip() or not rung.change.strip():
        raise UsageError("a rung needs a name and a change", "say what one thing was changed")
    if rung.status not in STATUSES:
        raise UsageError(f"status {rung.status}", f"one of {', '.join(STATUSES)}")
    if rung.gate is not None and rung.gate not in GATES:
        raise UsageError(f"gate verdict {rung.gate}", f"one of {', '.join(GATES)}")
    for name, values in rung.metrics.items():
        _measured(name, values)
    taken = select(Rung.id).where(Rung.ladder == rung.ladder, Rung.name == rung.name)
    if session.scalars(taken).first() is not None:
        raise UsageError(
            f"ladder {rung.ladder} has a rung {rung.name}",
            "rungs stay: give the new one a new name",
        )
    session.add(rung)
    try:
        session.flush()
    except IntegrityError as exc:  # another process was quicker
        raise UsageError(f"ladder {rung.ladder} has a rung {rung.name}", "give it a name") from exc
    return rung


def mark(session: Session, ladder: str, rung: str, kind: str, text: str) -> RungMark:
    """Append a correction or a retraction to a rung, by name or number."""
    if not text.strip():
        raise UsageError(f"a {kind} needs its reason", "say what was wrong, with the evidence")
    found = session.scalars(
        select(Rung).where(Rung.ladder == ladder, Rung.name == rung)
    ).one_or_none()
    if found is None and rung.isdigit():
        rows = session.scalars(select(Rung).where(Rung.ladder == ladder).order_by(Rung.id)).all()
        found = rows[int(rung) - 1] if 0 < int(rung) <= len(rows) else None
    if found is None:
        names = session.scalars(select(Rung.name).where(Rung.ladder == ladder).order_by(Rung.id))
        known = ", ".join(names) or "nothing"
        raise UsageError(f"ladder {ladder} has no rung {rung}", f"it has {known}")
    entry = RungMark(rung_id=found.id, kind=kind, text=text)
    session.add(entry)
    session.flush()
    return entry


def read(session: Session, ladder: str, primary: str | None = None) -> LadderDocument:
    """The ladder with every standing. `primary` is the first rung's first metric by default."""
    rungs = session.scalars(select(Rung).where(Rung.ladder == ladder).order_by(Rung.id)).all()
    if not rungs:
        known = ", ".join(session.scalars(select(Rung.ladder).distinct().order_by(Rung.ladder)))
        raise UsageError(f"no ladder {ladder}", f"there are: {known}" if known else "add a rung")
    if primary is None:
        primary = next((name for rung in rungs for name in rung.metrics), None)
    views: list[RungView] = []
    incumbent: RungView | None = None
    reigns: list[Incumbency] = []
    for number, rung in enumerate(rungs, 1):
        view = _view(number, rung)
        view.standing, view.reason = _stand(view, incumbent, primary)
        view.against = incumbent.name if incumbent else None
        view.incumbent = _takes(view)
        views.append(view)
        if view.incumbent:
            if reigns:
                reigns[-1].until_ns = view.created_ns
            value = view.metrics.get(primary or "")
            reigns.append(
                Incumbency(
                    number=number,
                    name=view.name,
                    from_ns=view.created_ns,
                    until_ns=None,
                    value=value.median if value else None,
                )
            )
            incumbent = view
    return LadderDocument(
        schema="lanescope.ladder/1",
        ladder=ladder,
        primary=primary,
        rule=RULE,
        rungs=views,
        incumbents=reigns,
        total_gain_pct=_total(views, reigns, primary),
    )


def _measured(name: str, values: object) -> Measured:
    try:
        return Measured.model_validate(values)
    except ValidationError as exc:
        first = exc.errors()[0]
        raise UsageError(
            f"metric {name}: {'.'.join(map(str, first['loc']))} {first['msg']}",
            "median, then min and max around it, then n",
        ) from exc


def _view(number: int, rung: Rung) -> RungView:
    marks = [Mark.model_validate(m, from_attributes=True) for m in rung.marks]
    return RungView(
        number=number,
        name=rung.name,
        change=rung.change,
        difference=rung.difference,
        metrics={name: _measured(name, values) for name, values in rung.metrics.items()},
        gate=rung.gate,
        status=rung.status,  # type: ignore[arg-type]  # checked by pydantic
        note=rung.note,
        because=rung.because,
        links=[str(link) for link in rung.links],
        created_ns=rung.created_ns,
        marks=marks,
        retracted=any(m.kind == "retraction" for m in marks),
        standing="not measured",
        reason="",
        against=None,
        incumbent=False,
    )


def _stand(view: RungView, incumbent: RungView | None, primary: str | None) -> tuple[Standing, str]:
    """How a rung stands against the incumbent, and the reason; a tie's reason says who takes it."""
    mine = view.metrics.get(primary or "")
    if mine is None:
        return "not measured", f"no {primary} was measured" if primary else "nothing was measured"
    if incumbent is None:
        return "first", "the first one measured"
    theirs = incumbent.metrics.get(primary or "")
    if theirs is None:
        return "first", f"{incumbent.name} has no {primary} to beat"
    gain = mine.gain(theirs)
    within = mine.reaches(theirs.median) or theirs.reaches(mine.median)
    if gain > 0:
        near = "; the medians lie within each other's repetitions" if within else ""
        return "beats", f"{mine.median:g} against {theirs.median:g}{near}"
    if not within and gain < 0:
        return "below", f"{mine.median:g} against {theirs.median:g}"
    return "tie", _break(view, incumbent, primary)


def _break(view: RungView, incumbent: RungView, primary: str | None) -> str:
    shared = [n for n in view.metrics if n != primary and n in incumbent.metrics]
    gains = {n: view.metrics[n].gain(incumbent.metrics[n]) for n in shared}
    if gains and min(gains.values()) >= 0 < max(gains.values()):
        names = ", ".join(
            f"{n} {view.metrics[n].median:g} against {incumbent.metrics[n].median:g}"
            for n in shared
        )
        return f"taken on secondary metrics: {names}"
    if view.because:
        return f"taken on the reason stated: {view.because}"
    return "the incumbent stays"


def _takes(view: RungView) -> bool:
    if view.status != "kept" or view.retracted or view.gate in {"fail", "invalid"}:
        return False
    if view.standing in {"first", "beats"}:
        return True
    return view.standing == "tie" and view.reason.startswith("taken")


def _total(
    views: Sequence[RungView], reigns: Sequence[Incumbency], primary: str | None
) -> float | None:
    if len(reigns) < 2 or primary is None:
        return None
    by_number = {view.number: view for view in views}
    first = by_number[reigns[0].number].metrics.get(primary)
    last = by_number[reigns[-1].number].metrics.get(primary)
    if first is None or last is None or first.median == 0:
        return None
    return 100 * last.gain(first) / abs(first.median)
