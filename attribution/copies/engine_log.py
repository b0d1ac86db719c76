"""The engine's own cache statistics, read from its log.

    SLOT_CACHE STATS window 20s: steps/layer=812 misses/step/layer=3.12 HIT=0.610 best=40:0.71
        worst=12:0.41 median_layer_hit=0.62
    SLOT_CACHE STATS window 20s: steps/layer=812 routes/step/layer=16.00 misses/step/layer=3.12 ...

Two spellings are in use, and two pitfalls with them. Printed hit rates may be negative (the first
spelling divides by the routes of one token whatever is verified), so a pattern without a minus sign
loses just the worst windows. And windows weigh by their steps: a line of four warm-up steps is not
a line of four hundred. Printed figures are rounded; half of the last digit is carried along.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lanescope.schemas.documents.misses import EngineHits, Interval
from lanescope.schemas.errors import UnusableInput, UsageError
from lanescope.schemas.findings import CopyWarning, Finding

_NUMBER = r"[-+]?\d+(?:\.\d+)?"
#: The default pattern. A user's own needs the groups `steps` and `misses`; the others may be there.
PATTERN = (
    r"SLOT_CACHE STATS window (?P<seconds>\d+(?:\.\d+)?)s:"
    rf"(?=.*\bsteps/layer=(?P<steps>{_NUMBER}))"
    rf"(?=.*\bmisses/step/layer=(?P<misses>{_NUMBER}))"
    rf"(?:(?=.*\broutes/step/layer=(?P<routes>{_NUMBER})))?"
    rf"(?:(?=.*\bHIT=(?P<hit>{_NUMBER})))?"
    rf"(?:(?=.*\bbest=(?P<best_layer>\d+):(?P<best>{_NUMBER})))?"
    rf"(?:(?=.*\bworst=(?P<worst_layer>\d+):(?P<worst>{_NUMBER})))?"
    rf"(?:(?=.*\bmedian_layer_hit=(?P<median>{_NUMBER})))?"
)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d*(Z|[+-]\d\d:?\d\d)?")
_REQUIRED = ("steps", "misses")


@dataclass(frozen=True)
class Figure:
    """A printed decimal: its value, and half of its last printed digit."""

    value: float
    half: float

    @classmethod
    def of(cls, text: str) -> Figure:
        """Read a decimal as printed: `3.12` is 3.12 +- 0.005."""
        decimals = len(text.partition(".")[2])
        return cls(float(text), 0.5 * 10.0**-decimals if decimals else 0.0)


@dataclass(frozen=True)
class StatsLine:
    """One line: a window of some seconds. `routes` and `hit` where printed."""

    number: int
    time: datetime | None
    steps: float
    misses: Figure
    routes: Figure | None
    hit: Figure | None


def parse(lines: Iterable[str], pattern: str = PATTERN) -> list[StatsLine]:
    """Every line that the pattern finds, in order.

    Raises `UsageError` for a pattern that does not compile or lacks the groups steps and misses.
    """
    try:
        rule = re.compile(pattern)
    except re.error as exc:
        raise UsageError(f"--pattern: not a regular expression: {exc}", "correct it") from exc
    lacking = [g for g in _REQUIRED if g not in rule.groupindex]
    if lacking:
        raise UsageError(
            f"--pattern: no group named {lacking[0]!r}",
            "name (?P<steps>...) and (?P<misses>...)",
        )
    out = []
    for number, line in enumerate(lines, 1):
        found = rule.search(line)
        if found is None:
            continue
        groups = found.groupdict()
        out.append(
            StatsLine(
                number,
                _time(line[: found.start()]),
                float(groups["steps"]),
                Figure.of(groups["misses"]),
                Figure.of(groups["routes"]) if groups.get("routes") else None,
                Figure.of(groups["hit"]) if groups.get("hit") else None,
            )
        )
    return out


def _time(text: str) -> datetime | None:
    """The time that stands before a line (RFC 3339, as container logs write it)."""
    found = _TIME.search(text)
    if found is None:
        return None
    zone = (found.group(2) or "").replace("Z", "+00:00")
    return datetime.fromisoformat(found.group(1).replace(" ", "T") + zone)


def read(path: Path, pattern: str = PATTERN) -> list[StatsLine]:
    """The lines of a log file. Raises `UnusableInput` when it cannot be read or holds none."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = parse(file, pattern)
    except OSError as exc:
        raise UnusableInput(f"{path}: cannot be read ({exc.strerror})", "check the path") from exc
    if not lines:
        raise UnusableInput(
            f"{path}: no line of cache statistics", "give the engine's log, or --pattern"
        )
    return lines


def between(
    lines: list[StatsLine], since: datetime | None, until: datetime | None
) -> list[StatsLine]:
    """The lines of a window of time. Raises `UsageError` when the log carries no times."""
    if since is None and until is None:
        return lines
    if any(line.time is None for line in lines):
        raise UsageError(
            "the log's lines carry no times",
            "write the log with timestamps, or give no times",
        )

    def inside(at: datetime) -> bool:
        early = since is not None and _comparable(at, since) < since
        late = until is not None and _comparable(at, until) > until
        return not early and not late

    return [line for line in lines if line.time is not None and inside(line.time)]


def _comparable(at: datetime, other: datetime) -> datetime:
    """`at` with the other's zone where it has none of its own (and the reverse)."""
    return at.replace(tzinfo=other.tzinfo) if at.tzinfo is None or other.tzinfo is None else at


def summarize(lines: list[StatsLine], routed_rows: int | None) -> tuple[EngineHits, list[Finding]]:
    """Misses and hit rate of some lines, weighted by their steps, against the right denominator.

    hit = 1 - misses / routed rows of an engine step; routed rows are (K + 1) x top-k, from the
    lines themselves where they print routes, else as stated.
    """
    lines = [line for line in lines if line.steps > 0]
    if not lines:
        raise UnusableInput("no line has any steps", "give a log of a window with decode steps")
    weight = sum(line.steps for line in lines)

    def mean(values: list[float]) -> float:
        return sum(v * line.steps for v, line in zip(values, lines, strict=True)) / weight

    misses = mean([line.misses.value for line in lines])
    half = mean([line.misses.half for line in lines])
    printed = [line.routes.value for line in lines if line.routes is not None]
    routes: float | None = None
    basis = ""
    if len(printed) == len(lines):
        routes, basis = mean(printed), "printed by the engine"
    elif routed_rows:
        routes, basis = float(routed_rows), "stated"
    findings = _contradictions(lines, routes, routed_rows)
    hit = None
    if routes:
        hit = Interval(
            estimate=1 - misses / routes,
            low=1 - (misses + half) / routes,
            high=1 - (misses - half) / routes,
        )
    shown = [line.hit.value for line in lines if line.hit is not None]
    plain = sum(shown) / len(shown) if shown else None
    implied = [d for line in lines if (d := implied_routes(line)) is not None]
    return (
        EngineHits(
            lines=len(lines),
            steps=weight,
            misses=Interval(estimate=misses, low=misses - half, high=misses + half),
            misses_unweighted=sum(line.misses.value for line in lines) / len(lines),
            hit_rate=hit,
            routed_rows=routes,
            routed_rows_basis=basis,
            printed_hit=mean([line.hit.value for line in lines if line.hit])
            if len(shown) == len(lines)
            else None,
            printed_hit_unweighted=plain,
            printed_negative=sum(1 for v in shown if v < 0),
            printed_denominator=sorted(implied)[len(implied) // 2] if implied else None,
        ),
        findings,
    )


def implied_routes(line: StatsLine) -> float | None:
    """The denominator that a printed HIT was made with: misses / (1 - HIT)."""
    if line.hit is None or line.hit.value >= 1 or line.misses.value <= 0:
        return None
    return line.misses.value / (1 - line.hit.value)


def contradicts(line: StatsLine, routes: float) -> bool:
    """Whether the printed HIT cannot be 1 - misses / routes, roundings allowed for."""
    if line.hit is None:
        return False
    expected = 1 - line.misses.value / routes
    slack = line.hit.half + line.misses.half / routes + 1e-9
    return abs(line.hit.value - expected) > slack


def _contradictions(
    lines: list[StatsLine], routes: float | None, stated: int | None
) -> list[Finding]:
    out: list[Finding] = []
    if routes is None:
        return out
    wrong = [line for line in lines if contradicts(line, routes)]
    if wrong:
        made = [d for line in wrong if (d := implied_routes(line)) is not None]
        by = f", as if divided by {sorted(made)[len(made) // 2]:.1f}" if made else ""
        out.append(
            CopyWarning.HIT_PRINTED.finding(
                f"{len(wrong)} of {len(lines)} printed HIT values are not 1 - misses / {routes:g}"
                f"{by}"
            )
        )
    if stated and abs(routes - stated) > 0.51:
        out.append(
            CopyWarning.CONTRADICTION.finding(
                f"{stated} routed rows are stated, the engine prints {routes:.2f}"
            )
        )
    return out
