"""The cost model across windows or lanes: one point a window, and what may be said from them.

Which windows are left out is part of the result. A rule may look at anything that was set or
counted beside the response; one that looks at the step time or the throughput chooses the answer
and is refused. A slope between lanes is not a slope within them: both are fitted and told apart.
"""

from __future__ import annotations

import csv
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.attribution.copies import regression
from lanescope.attribution.copies.costmodel import as_fit, slope_rate
from lanescope.attribution.copies.regression import Line
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.documents.misses import Interval
from lanescope.schemas.documents.model import (
    Fit,
    ModelDocument,
    Point,
    Prediction,
    WhatIf,
    Within,
)
from lanescope.schemas.errors import UnusableInput, UsageError

#: columns that are the response or follow from it: no rule may choose windows by them
RESPONSE = re.compile(
    r"(^|_)(step_ms|wall|gpu|ms|ns|tok_s|tps|rate|throughput|latency|itl|tpot)($|_)"
)
_RULE = re.compile(r"^\s*(\w+)\s*(<=|>=|==|!=|<|>)\s*(.+?)\s*$")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
#: a lane needs this many windows for a slope of its own
FEWEST_IN_LANE = 4


@dataclass
class Window:
    """One window: means over its steps, and what else is known of it (`facts`, for rules)."""

    name: str
    lane: str
    misses: float
    step_ms: float
    steps: int | None = None
    facts: dict[str, str | float] = field(default_factory=dict)
    left_out_by: str = ""
    #: fit over the steps inside this window, where there is one
    inside: Fit | None = None


def load_document(path: Path) -> AttributionDocument:
    """An attribution by its folder or its attribution.json. Raises `UnusableInput`."""
    file = path / "attribution.json" if path.is_dir() else path
    try:
        return AttributionDocument.model_validate_json(file.read_text(encoding="utf-8"))
    except OSError as exc:
        raise UnusableInput(
            f"{file}: cannot be read ({exc.strerror})",
            "give a folder of lanescope attribute",
        ) from exc
    except ValueError as exc:
        text = str(exc).splitlines()[0]
        raise UnusableInput(
            f"{file}: no attribution document ({text})", "run lanescope attribute first"
        ) from exc


def window_of(path: Path) -> tuple[Window, AttributionDocument]:
    """The point of one attribution. Raises `UnusableInput` where it holds no misses or steps."""
    doc = load_document(path)
    name = path.name if path.is_dir() else path.parent.name
    if doc.steps is None or doc.steps.wall_ms is None:
        raise UnusableInput(f"{path}: no steps with a wall time in it", "see its abstentions")
    if doc.misses is None or doc.misses.per_layer_step.estimate is None:
        raise UnusableInput(f"{path}: no steps with misses in it", "see its abstentions")
    inside = None
    if doc.model is not None:
        model = doc.model
        inside = Fit(
            base_ms=model.base_ms, ms_per_miss=model.ms_per_miss, r2=model.r2,
            rmse_ms=model.rmse_ms, n=model.n,
        )  # fmt: skip
    label = name.removesuffix(".lanescope")
    window = Window(
        name=label,
        lane=label,
        misses=doc.misses.per_layer_step.estimate,
        step_ms=doc.steps.wall_ms.mean,
        steps=doc.steps.measured,
        facts={"profile": doc.profile, "routed_rows": float(doc.misses.routed_rows or 0)},
        inside=inside,
    )
    return window, doc


def windows_of_table(path: Path) -> list[Window]:
    """The points of a CSV: columns name, misses_per_layer_step (or misses), step_ms; steps, lane.

    Raises `UnusableInput` naming the line and the column.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as exc:
        raise UnusableInput(f"{path}: cannot be read ({exc})", "give a CSV file") from exc
    out = []
    for number, row in enumerate(rows, 2):
        misses = row.get("misses_per_layer_step") or row.get("misses")
        facts: dict[str, str | float] = {
            k: _value(v) for k, v in row.items() if k and isinstance(v, str)
        }
        out.append(
            Window(
                name=row.get("name") or f"line {number}",
                lane=row.get("lane") or row.get("kind") or "all",
                misses=_number(path, number, "misses_per_layer_step", misses),
                step_ms=_number(path, number, "step_ms", row.get("step_ms")),
                steps=int(_number(path, number, "steps", row["steps"]))
                if row.get("steps")
                else None,
                facts=facts,
            )
        )
    if not out:
        raise UnusableInput(f"{path}: no rows", "give a CSV with a row a window")
    return out


def _number(path: Path, line: int, column: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise UnusableInput(
            f"{path}: line {line}: column {column} is {text!r}, no number", "correct the table"
        )
    return value


def _steps(path: Path, line: int, text: str | None) -> int | None:
    return int(_number(path, line, "steps", text)) if text else None


def _value(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def leave_out(windows: list[Window], rule: str) -> None:
    """Mark the windows that a rule `column OP value` leaves out.

    Raises `UsageError` for a rule on the response, on an unknown column, or that is no rule.
    """
    found = _RULE.match(rule)
    if found is None:
        raise UsageError(f"--leave-out {rule!r}: no rule", "write e.g. 'steps < 300'")
    column, sign, text = found.groups()
    if RESPONSE.search(column.lower()):
        raise UsageError(
            f"--leave-out {rule!r}: {column} is the response or follows from it",
            "choose windows by what was set or counted, never by how fast they were",
        )
    wanted = _value(text.strip("'\""))
    for window in windows:
        own: dict[str, str | float] = {
            **window.facts, "name": window.name, "lane": window.lane, "misses": window.misses,
        }  # fmt: skip
        if window.steps is not None:
            own["steps"] = float(window.steps)
        if column not in own:
            raise UsageError(
                f"--leave-out {rule!r}: window {window.name} has no {column}",
                f"it has {', '.join(sorted(own))}",
            )
        try:
            hit = _COMPARE[sign](own[column], wanted)
        except TypeError as exc:
            raise UsageError(f"--leave-out {rule!r}: compares text with a number") from exc
        if hit and not window.left_out_by:
            window.left_out_by = rule


@dataclass(frozen=True)
class Question:
    """What is asked of the fit beside itself."""

    rules: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    layers: int | None = None
    row_bytes: int | None = None
    routed_rows: int | None = None
    accepted: float | None = None
    hit_rates: tuple[float, ...] = ()
    at_misses: tuple[float, ...] = ()
    extrapolate: bool = False


def model(windows: list[Window], ask: Question) -> ModelDocument:
    """Fit the used windows and answer the questions.

    Raises `UsageError` for refused rules and for predictions outside the measured range without
    `extrapolate`; `UnusableInput` for fewer than three usable windows.
    """
    for rule in ask.rules:
        leave_out(windows, rule)
    used = [w for w in windows if not w.left_out_by]
    if len(used) < 3 + len(ask.terms):
        raise UnusableInput(
            f"{len(used)} windows are left, too few for a line", "give more windows, or fewer rules"
        )
    x = np.array([[w.misses, *(_term(w, t) for t in ask.terms)] for w in used])
    y = np.array([w.step_ms for w in used])
    known = all(w.steps for w in used)
    weights = np.array([float(w.steps or 1) for w in used]) if known else None
    line = regression.fit(x, y, weights, robust=False)
    if line is None:
        raise UnusableInput("the windows do not span a line", "give windows with other misses")
    within = _within(used)
    residual = iter(line.residual.tolist())
    return ModelDocument(
        fit=as_fit(line),
        weights="steps" if known else "each window alike",
        terms={t: float(line.beta[2 + i]) for i, t in enumerate(ask.terms)},
        slope_GBps=slope_rate(ask.layers or 0, ask.row_bytes, float(line.beta[1])),
        counted_bytes=ask.row_bytes,
        points=[
            Point(
                name=w.name, lane=w.lane, misses=w.misses, step_ms=w.step_ms, steps=w.steps,
                used=not w.left_out_by, left_out_by=w.left_out_by,
                residual_ms=None if w.left_out_by else next(residual),
            )
            for w in windows
        ],
        rules=list(ask.rules),
        within=within,
        verdict=_verdict(line, used, within),
        predictions=_predictions(line, used, ask),
        what_if=_what_if(line, used, ask),
    )  # fmt: skip


def _term(window: Window, name: str) -> float:
    value = window.facts.get(name)
    if not isinstance(value, float):
        raise UsageError(
            f"--term {name}: window {window.name} has no such number", "see its columns"
        )
    return value


def _within(used: list[Window]) -> list[Within]:
    out = []
    for lane in dict.fromkeys(w.lane for w in used):
        own = [w for w in used if w.lane == lane]
        line = None
        if len(own) >= FEWEST_IN_LANE:
            line = regression.fit(
                np.array([w.misses for w in own]), np.array([w.step_ms for w in own]), robust=False
            )
        if line is not None:
            fitted: Fit | None = as_fit(line)
        else:
            fitted = own[0].inside if len(own) == 1 else None
        out.append(
            Within(
                lane=lane,
                n=len(own) if line is not None or fitted is None else fitted.n,
                ms_per_miss=fitted.ms_per_miss if fitted else None,
                r2=fitted.r2 if fitted else None,
            )
        )
    return out


def _verdict(line: Line, used: list[Window], within: list[Within]) -> str:
    """Where the slope lives."""
    _, low, high = line.slope()
    if low <= 0 <= high:
        return "no slope: the interval holds zero"
    lanes = {w.lane for w in used}
    told = [w for w in within if w.ms_per_miss is not None]
    if len(lanes) == 1:
        return "one lane: the slope is within it"
    if not told:
        return "the slope is between lanes; whether it holds within them was not measured"
    holds = [w for w in told if w.ms_per_miss is not None and w.ms_per_miss.low > 0]
    if len(holds) == len(told):
        return "the slope is between lanes and within every lane that could be fitted"
    if not holds:
        return "the slope exists between lanes and not within them: they differ in more than misses"
    return f"the slope is between lanes, and within {', '.join(w.lane for w in holds)} alone"


def _predictions(line: Line, used: list[Window], ask: Question) -> list[Prediction]:
    asked: list[tuple[float, float | None]] = [(m, None) for m in ask.at_misses]
    for rate in ask.hit_rates:
        if not ask.routed_rows:
            raise UsageError("a hit rate needs the routed rows of a layer-step", "--routed-rows N")
        asked.append(((1 - rate) * ask.routed_rows, rate))
    return [_prediction(line, used, ask, m, rate) for m, rate in asked]


def _prediction(
    line: Line, used: list[Window], ask: Question, misses: float, rate: float | None
) -> Prediction:
    seen = [w.misses for w in used]
    inside = min(seen) <= misses <= max(seen)
    if not inside and not ask.extrapolate:
        raise UsageError(
            f"{misses:.2f} misses per layer-step lie outside the measured {min(seen):.2f} to"
            f" {max(seen):.2f}",
            "--extrapolate says so in the answer and goes on",
        )
    means = [float(np.mean([_term(w, t) for w in used])) for t in ask.terms]
    value, low, high = line.at(np.array([misses, *means]), point=True)
    ms = Interval(estimate=value, low=low, high=high)
    return Prediction(
        misses=misses, hit_rate=rate, ms=ms, tok_s=per_second(ms, ask.accepted), inside_range=inside
    )


def per_second(ms: Interval, accepted: float | None) -> Interval | None:
    """Tokens a second of a step time: 1000 x accepted tokens a step / ms."""
    if not accepted or ms.estimate is None or ms.low <= 0:
        return None
    return Interval(
        estimate=1000 * accepted / ms.estimate,
        low=1000 * accepted / ms.high,
        high=1000 * accepted / ms.low,
    )


def _what_if(line: Line, used: list[Window], ask: Question) -> list[WhatIf]:
    mean = float(np.mean([w.misses for w in used]))
    low = min(w.misses for w in used)
    terms = [float(np.mean([_term(w, t) for w in used])) for t in ask.terms]
    rows = []
    for case, at in (("every miss free", 0.0), ("half the misses", mean / 2)):
        value = line.at(np.array([at, *terms]), point=True)
        ms = Interval(estimate=value[0], low=value[1], high=value[2])
        beyond = "" if at >= low else f"; outside the measured range (from {low:.2f} on)"
        rows.append(
            WhatIf(
                case=case,
                assumption=f"the line holds at {at:.2f} misses per layer-step{beyond}",
                ms=ms,
                tok_s=per_second(ms, ask.accepted),
            )
        )
    return rows
