"""From misses to milliseconds: the line that `lanescope model` fitted, read back."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import t as _t

from lanescope.schemas.documents.replay import Interval
from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.findings import Abstention, Finding, ReplayAbstained, ReplayWarning


@dataclass(frozen=True)
class CostModel:
    """step time = `base_ms` + `ms_per_miss` x (misses per layer-step).

    `measured` is the range of misses per layer-step that the fit saw, `centre` their mean: a fitted
    line is surest there, and the slope's interval turns around it. `level_ms` is the half-width of
    the interval of the step time at the centre.
    """

    base_ms: Interval
    ms_per_miss: Interval
    measured: tuple[float, float] | None = None
    centre: float | None = None
    level_ms: float = 0.0
    #: names of further terms of the fit; they are taken as 0
    terms: tuple[str, ...] = ()

    def ms_per_step(self, misses: float) -> Interval:
        """Step time at so many misses per layer-step.

        Where the centre is not known, the ends are the worst cases of the two coefficients.
        """
        slope = self.ms_per_miss
        estimate = self.base_ms.estimate + slope.estimate * misses
        if self.centre is None:
            low = self.base_ms.low + slope.low * misses
            high = self.base_ms.high + slope.high * misses
        else:
            away = misses - self.centre
            turns = sorted([(end - slope.estimate) * away for end in (slope.low, slope.high)])
            low = estimate - math.hypot(turns[0], self.level_ms)
            high = estimate + math.hypot(turns[1], self.level_ms)
        return Interval(estimate=estimate, low=low, high=high)

    @property
    def slope_alone(self) -> bool:
        """Whether intervals show the slope's uncertainty and nothing of the level's."""
        return self.centre is None and self.base_ms.low == self.base_ms.high

    def outside(self, misses: float) -> bool:
        """Whether the fit never saw so many, or so few."""
        return self.measured is not None and not (self.measured[0] <= misses <= self.measured[1])


_REMEDY = "give the file of `lanescope model`"


def tokens_per_s(ms: Interval, accepted: float | None) -> Interval | None:
    """Tokens per second at `accepted` tokens a step; none where that is not known."""
    if accepted is None or ms.low <= 0:
        return None
    return Interval(
        estimate=1000 * accepted / ms.estimate,
        low=1000 * accepted / ms.high,
        high=1000 * accepted / ms.low,
    )


def reservations(model: CostModel, misses: list[float]) -> tuple[Finding, ...]:
    """Where predictions leave the measured range, or say less than they seem to."""
    found = []
    if model.slope_alone and model.ms_per_miss.low < model.ms_per_miss.high:
        text = "base_ms comes without an interval, so these intervals are the slope's alone"
        found.append(ReplayWarning.SLOPE_ONLY.finding(text))
    if model.terms:
        text = f"the model also depends on {', '.join(model.terms)}, taken as 0 here"
        found.append(ReplayWarning.MODEL_TERMS.finding(text))
    outside = [m for m in misses if model.outside(m)]
    if not outside or model.measured is None:
        return tuple(found)
    low, high = model.measured
    return (
        *found,
        ReplayWarning.OUTSIDE_MEASURED.finding(
            f"{len(outside)} of {len(misses)} predictions are at {min(outside):.2f} to "
            f"{max(outside):.2f} misses per layer-step; "
            f"the model was fitted on {low:.2f} to {high:.2f}"
        ),
    )


def acceptance_unknown() -> Abstention:
    """Why there is no rate."""
    return ReplayAbstained.RATE.because(
        "a step of more than one token yields as many as are accepted"
    )


def read_cost_model(path: Path) -> CostModel:
    """The model in a file of `lanescope model`, or in an `attribution.json`.

    Looks for `base_ms` and `ms_per_miss` (a number or {estimate, low, high}), at the top, under
    `model` or under `fit`; for the range in `misses_range` or the used `points`. Raises
    UnusableInput.
    """
    try:
        body = json.loads(path.read_text())
    except OSError as exc:
        raise UnusableInput(f"{path}: {exc.strerror}", _REMEDY) from exc
    except ValueError as exc:
        raise UnusableInput(f"{path}: not JSON: {exc}", _REMEDY) from exc
    points = _points(body)
    terms = body.get("terms") if isinstance(body, dict) else None
    for key in ("model", "fit"):
        if isinstance(body, dict) and isinstance(body.get(key), dict):
            body = body[key]
    if not isinstance(body, dict):
        raise UnusableInput(f"{path}: no cost model in it", _REMEDY)
    centre = None
    level = 0.0
    if points:
        weights = [steps for _, steps in points]
        centre = sum(m * w for m, w in points) / sum(weights)
        rmse, n = body.get("rmse_ms"), body.get("n")
        if isinstance(rmse, int | float) and isinstance(n, int) and n > 2:
            level = float(_t.ppf(0.975, n - 2)) * rmse / math.sqrt(n)
    return CostModel(
        _interval(path, body, "base_ms"),
        _interval(path, body, "ms_per_miss"),
        _range(body, points),
        centre,
        level,
        tuple(terms) if isinstance(terms, dict) else (),
    )


def _points(body: Any) -> list[tuple[float, float]]:
    """Misses and steps of the points that a fit over windows used."""
    found = body.get("points") if isinstance(body, dict) else None
    rows = [p for p in found or [] if isinstance(p, dict) and p.get("used", True)]
    return [
        (float(p["misses"]), float(p.get("steps") or 1.0))
        for p in rows
        if isinstance(p.get("misses"), int | float)
    ]


def _interval(path: Path, body: dict[str, Any], key: str) -> Interval:
    value = body.get(key)
    ends = value if isinstance(value, dict) else {"estimate": value}
    estimate = ends.get("estimate")
    if isinstance(estimate, bool) or not isinstance(estimate, int | float):
        raise UnusableInput(
            f"{path}: {key} is {value!r}", "a cost model has numbers base_ms and ms_per_miss"
        )
    low, high = ends.get("low"), ends.get("high")
    return Interval(
        estimate=estimate,
        low=estimate if low is None else low,
        high=estimate if high is None else high,
    )


def _range(body: dict[str, Any], points: list[tuple[float, float]]) -> tuple[float, float] | None:
    value = body.get("misses_range")
    if isinstance(value, list) and len(value) == 2 and None not in value:
        return float(value[0]), float(value[1])
    if points:
        return min(m for m, _ in points), max(m for m, _ in points)
    return None
