"""More than two lanes: the step over an axis, and one cost model through all lanes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lanescope.attribution.lanes.lane import Lane
from lanescope.schemas.documents.comparison import LaneModel, Trend, TrendPoint
from lanescope.schemas.findings import Abstention

#: two slopes of one cost further apart than this share are said to differ
AGREE = 0.05


def misses_of(lane: Lane) -> float | None:
    """Mean misses per layer-step, as the attribution estimates them."""
    misses = getattr(lane.document, "misses", None)
    return None if misses is None else misses.per_layer_step.estimate


def axis_of(lanes: Sequence[Lane]) -> str | None:
    """The one number in which the lanes' own facts differ; None if there is none, or several."""
    keys = {k for lane in lanes for k in lane.facts}
    moving = []
    for key in sorted(keys):
        values = [lane.facts.get(key) for lane in lanes]
        if len(set(values)) > 1:
            moving.append((key, values))
    if len(moving) != 1:
        return None
    key, values = moving[0]
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return key if numeric else None


def trend(
    lanes: Sequence[Lane], axis: str | None, values: Sequence[float] | None, buckets: bool
) -> Trend | Abstention:
    """The mean step over the axis: least squares through the lanes' means."""
    if values is None:
        axis = axis or axis_of(lanes)
        if axis is None:
            return Abstention(
                what="trend",
                why="the lanes do not say in which one number they differ",
                remedy="--axis NAME=VALUE,VALUE,... in the lanes' order",
            )
        found = [lane.facts.get(axis) for lane in lanes]
        if not all(isinstance(v, int | float) for v in found):
            return Abstention(
                what="trend",
                why=f"not every lane says its {axis}",
                remedy=f"--axis {axis}=VALUE,VALUE,... in the lanes' order",
            )
        values = [float(v) for v in found if isinstance(v, int | float)]
    x = np.array(values, dtype=np.float64)
    if len(set(values)) < 2:
        return Abstention(what="trend", why=f"all lanes have the same {axis}", remedy="")
    wall = np.array([lane.wall.mean() / 1e6 for lane in lanes])
    order = np.argsort(x, kind="stable")
    steps = np.diff(wall[order])
    rises, falls = bool((steps > 0).all()), bool((steps < 0).all())
    names = list({b: None for lane in lanes for b in lane.bucket_sum}) if buckets else []
    slopes = {}
    for name in names:
        means = [
            lane.bucket_sum[name].mean() / 1e6 if name in lane.bucket_sum else 0.0 for lane in lanes
        ]
        slopes[name] = _slope(x, np.array(means))
    return Trend(
        axis=axis or "axis",
        points=[
            TrendPoint(lane=lane.name, x=float(v), wall_ms=float(w), misses=misses_of(lane))
            for lane, v, w in zip(lanes, values, wall, strict=True)
        ],
        wall_slope_ms=_slope(x, wall),
        direction="rises" if rises else "falls" if falls else "neither",
        bucket_slopes_ms=slopes,
    )


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    centred = x - x.mean()
    return float(centred @ (y - y.mean()) / (centred @ centred))


def model(lanes: Sequence[Lane]) -> LaneModel | Abstention:
    """step_ms = base + slope x misses per layer-step, through the lanes' means, by steps."""
    misses = [misses_of(lane) for lane in lanes]
    if any(m is None for m in misses):
        without = ", ".join(n.name for n, m in zip(lanes, misses, strict=True) if m is None)
        return Abstention(
            what="cost model",
            why=f"no misses are known of {without}",
            remedy="a profile that names the row copies, so that misses can be estimated",
        )
    x = np.array(misses, dtype=np.float64)
    y = np.array([lane.wall.mean() / 1e6 for lane in lanes])
    weights = np.array([lane.steps for lane in lanes], dtype=np.float64)
    middle_x, middle_y = np.average(x, weights=weights), np.average(y, weights=weights)
    spread = float((weights * (x - middle_x) ** 2).sum())
    if len(lanes) < 3 or spread == 0:
        return Abstention(
            what="cost model",
            why="two parameters need three lanes of different misses",
            remedy="compare more lanes of the axis",
        )
    slope = float((weights * (x - middle_x) * (y - middle_y)).sum() / spread)
    base = float(middle_y - slope * middle_x)
    left = float((weights * (y - base - slope * x) ** 2).sum())
    whole = float((weights * (y - middle_y) ** 2).sum())
    inside = {lane.name: s for lane in lanes if (s := _window_slope(lane)) is not None}
    return LaneModel(
        base_ms=base,
        ms_per_miss=slope,
        r2=1 - left / whole if whole else 1.0,
        n=len(lanes),
        window_slopes=inside,
        verdict=_verdict(slope, inside),
    )


def _window_slope(lane: Lane) -> float | None:
    found = getattr(lane.document, "model", None)
    if found is None or getattr(found, "ms_per_miss", None) is None:
        return None
    estimate = getattr(found.ms_per_miss, "estimate", None)
    return None if estimate is None else float(estimate)


def _verdict(slope: float, inside: dict[str, float]) -> str:
    if not inside:
        return "no lane has a model of its own window to hold the slope against"
    far = {n: s for n, s in inside.items() if abs(s - slope) > AGREE * abs(slope)}
    if not far:
        return "the slope between lanes agrees with the slope within each window to 5 %"
    said = ", ".join(f"{n} {s:.3f}" for n, s in far.items())
    return (
        f"the slope between lanes ({slope:.3f} ms a miss) is not that within the windows ({said}): "
        "between lanes more than the misses changes with the axis, or a window's misses vary too "
        "little, and with errors, to tell a slope"
    )
