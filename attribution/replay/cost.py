"""From misses to milliseconds: the line that `lanescope model` fitted, read back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanescope.schemas.documents.replay import Interval
from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.findings import Abstention, Finding, ReplayAbstained, ReplayWarning


@dataclass(frozen=True)
class CostModel:
    """step time = `base_ms` + `ms_per_miss` x (misses per layer-step).

    `measured` is the range of misses per layer-step that the fit saw, if the file says so.
    """

    base_ms: Interval
    ms_per_miss: Interval
    measured: tuple[float, float] | None = None

    def ms_per_step(self, misses: float) -> Interval:
        """Step time at so many misses per layer-step. The ends of the interval are the worst cases
        of the two coefficients, which errs on the wide side."""
        return Interval(
            estimate=self.base_ms.estimate + self.ms_per_miss.estimate * misses,
            low=self.base_ms.low + self.ms_per_miss.low * misses,
            high=self.base_ms.high + self.ms_per_miss.high * misses,
        )

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
    if model.base_ms.low == model.base_ms.high and model.ms_per_miss.low < model.ms_per_miss.high:
        text = "the model gives base_ms without an interval: the intervals are the slope's alone"
        found.append(ReplayWarning.SLOPE_ONLY.finding(text))
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

    Looks for `base_ms` and `ms_per_miss`, at the top or under `model`; each a number or
    {estimate, low, high}. Raises UnusableInput.
    """
    try:
        body = json.loads(path.read_text())
    except OSError as exc:
        raise UnusableInput(f"{path}: {exc.strerror}", _REMEDY) from exc
    except ValueError as exc:
        raise UnusableInput(f"{path}: not JSON: {exc}", _REMEDY) from exc
    if isinstance(body, dict) and isinstance(body.get("model"), dict):
        body = body["model"]
    if not isinstance(body, dict):
        raise UnusableInput(f"{path}: no cost model in it")
    return CostModel(
        _interval(path, body, "base_ms"), _interval(path, body, "ms_per_miss"), _range(body)
    )


def _interval(path: Path, body: dict[str, Any], key: str) -> Interval:
    value = body.get(key)
    if isinstance(value, dict):
        estimate = value.get("estimate")
        low, high = value.get("low"), value.get("high")
    else:
        estimate, low, high = value, None, None
    if isinstance(estimate, bool) or not isinstance(estimate, int | float):
        raise UnusableInput(
            f"{path}: {key} is {value!r}", "a cost model has numbers base_ms and ms_per_miss"
        )
    return Interval(
        estimate=estimate,
        low=estimate if low is None else low,
        high=estimate if high is None else high,
    )


def _range(body: dict[str, Any]) -> tuple[float, float] | None:
    for key in ("measured_range", "misses_range", "range"):
        value = body.get(key)
        if isinstance(value, dict):
            value = [value.get("low", value.get("min")), value.get("high", value.get("max"))]
        if isinstance(value, list) and len(value) == 2 and None not in value:
            return float(value[0]), float(value[1])
    return None
