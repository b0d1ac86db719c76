"""Two lanes paired by prompt: the gain of medians, its intervals, wins; and each control alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from lanescope.attribution.lanes.intervals import Interval, bootstrap_mean, t_mean, with_launches
from lanescope.attribution.lanes.probes import SpeedLane
from lanescope.schemas.documents.speed import (
    Better,
    ControlGain,
    PairedMetric,
    PairedPrompt,
    SpeedRow,
)


@dataclass(frozen=True)
class Metric:
    """A figure of one request, its unit, and which way is better."""

    name: str
    unit: str
    better: Better
    of: Callable[[SpeedLane, SpeedRow], float | None]


def _throughput(_: SpeedLane, row: SpeedRow) -> float | None:
    return row.tokens / row.wall_s


def _ttft(_: SpeedLane, row: SpeedRow) -> float | None:
    return row.ttft_s


def _gap(lane: SpeedLane, row: SpeedRow) -> float | None:
    rate = lane.rate(row)
    return 1000 / rate if rate else None


def _accepted(_: SpeedLane, row: SpeedRow) -> float | None:
    """Tokens a verification step yields: one of its own and the accepted ones."""
    return 1 + row.accepted / row.drafts if row.accepted is not None and row.drafts else None


METRICS = (
    Metric("decode_rate", "tok/s", "higher", lambda lane, row: lane.rate(row)),
    Metric("throughput", "tok/s", "higher", _throughput),
    Metric("ttft", "s", "lower", _ttft),
    Metric("token_gap", "ms", "lower", _gap),
    Metric("wall", "s", "lower", lambda _, row: row.wall_s),
    Metric("accepted_per_step", "tokens", "higher", _accepted),
)


def per_prompt(lane: SpeedLane, metric: Metric) -> dict[str, float]:
    """prompt -> median over its scored repetitions."""
    values: dict[str, list[float]] = {}
    for row in lane.scored():
        value = metric.of(lane, row)
        if value is not None:
            values.setdefault(row.prompt, []).append(value)
    return {prompt: median(v) for prompt, v in values.items()}


def pair(
    metric: Metric,
    controls: Sequence[SpeedLane],
    candidate: SpeedLane,
    common: Sequence[str],
    base_launches: Sequence[SpeedLane],
    candidate_launches: Sequence[SpeedLane],
    floor: float | None,
) -> PairedMetric | None:
    """One metric of the candidate against the controls' mean; None where rows lack it."""
    sides = [per_prompt(lane, metric) for lane in controls]
    new = per_prompt(candidate, metric)
    prompts = [p for p in common if p in new and all(p in side for side in sides)]
    if not prompts:
        return None
    base = np.array([np.mean([side[p] for side in sides]) for p in prompts])
    cand = np.array([new[p] for p in prompts])
    if (base <= 0).any():
        return None
    more = [per_prompt(lane, metric) for lane in candidate_launches]
    if more and all(p in side for side in more for p in prompts):
        launches = [cand, *[np.array([side[p] for p in prompts]) for side in more]]
        cand = np.mean(np.stack(launches), axis=0)
    gains = 100 * (cand / base - 1)
    boot, t = bootstrap_mean(gains), t_mean(gains)
    launch = _launch_interval(
        metric,
        gains,
        base,
        prompts,
        controls,
        candidate,
        base_launches,
        candidate_launches,
        floor,
        boot,
    )
    better = gains > 0 if metric.better == "higher" else gains < 0
    worse = gains < 0 if metric.better == "higher" else gains > 0
    kinds = {r.prompt: r.kind for r in candidate.rows}
    return PairedMetric(
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        prompts=[
            PairedPrompt(prompt=p, kind=kinds.get(p), base=b, candidate=c, gain_pct=g)
            for p, b, c, g in zip(
                prompts, base.tolist(), cand.tolist(), gains.tolist(), strict=True
            )
        ],
        mean_gain_pct=float(gains.mean()),
        low_pct=boot.low,
        high_pct=boot.high,
        interval=boot.method,
        t_low_pct=t.low,
        t_high_pct=t.high,
        launch_low_pct=launch.low if launch else None,
        launch_high_pct=launch.high if launch else None,
        launch_interval=launch.method if launch else None,
        wins=int(better.sum()),
        losses=int(worse.sum()),
        ties=int((~better & ~worse).sum()),
    )


def _launch_interval(
    metric: Metric,
    gains: np.ndarray,
    base: np.ndarray,
    prompts: Sequence[str],
    controls: Sequence[SpeedLane],
    candidate: SpeedLane,
    base_launches: Sequence[SpeedLane],
    candidate_launches: Sequence[SpeedLane],
    floor: float | None,
    boot: Interval,
) -> Interval | None:
    def levels(lanes: Sequence[SpeedLane]) -> np.ndarray:
        """The level of each launch in per cent of the base, mean over prompts."""
        out = []
        for lane in lanes:
            values = per_prompt(lane, metric)
            if all(p in values for p in prompts):
                out.append(
                    float(
                        np.mean([100 * values[p] / b for p, b in zip(prompts, base, strict=True)])
                    )
                )
        return np.array(out)

    old = levels([controls[0], *base_launches])
    new = levels([candidate, *candidate_launches])
    if len(prompts) > 1 and len(old) + len(new) > 2 and len(old) and len(new):
        return with_launches(gains, old, new)
    if floor is not None:
        return Interval(
            boot.low - floor, boot.high + floor, f"{boot.method}, widened by a floor of {floor:g} %"
        )
    return None


def _gain_over(candidate: SpeedLane, base: SpeedLane, common: Sequence[str]) -> list[float]:
    new, old = per_prompt(candidate, METRICS[0]), per_prompt(base, METRICS[0])
    return [100 * (new[p] / old[p] - 1) for p in common if p in new and old.get(p)]


def controls_alone(
    controls: Sequence[SpeedLane], candidate: SpeedLane, common: Sequence[str]
) -> list[ControlGain]:
    """The candidate against each control alone, and each control against their mean."""
    if len(controls) < 2:
        return []
    sides = [per_prompt(lane, METRICS[0]) for lane in controls]
    prompts = [p for p in common if all(p in side for side in sides)]
    out = []
    for lane, side in zip(controls, sides, strict=True):
        gains = _gain_over(candidate, lane, prompts)
        if not gains:
            continue
        level = [100 * (side[p] / float(np.mean([s[p] for s in sides])) - 1) for p in prompts]
        out.append(
            ControlGain(
                control=lane.name,
                mean_gain_pct=float(np.mean(gains)),
                wins=sum(g > 0 for g in gains),
                n=len(gains),
                control_level_pct=float(np.mean(level)),
            )
        )
    return out


def long_wall(
    controls: Sequence[SpeedLane], candidate: SpeedLane, threshold: int
) -> tuple[float | None, int]:
    """Median wall of the long prompts, candidate / base, and how many there are."""

    def walls(lane: SpeedLane) -> dict[str, float]:
        rows = [
            r
            for r in lane.scored()
            if (r.kind or "").lower() == "long" or (r.prompt_tokens or 0) >= threshold
        ]
        return {
            p: median(r.wall_s for r in rows if r.prompt == p) for p in {r.prompt for r in rows}
        }

    new, sides = walls(candidate), [walls(lane) for lane in controls]
    common = [p for p in new if all(p in side for side in sides)]
    if not common:
        return None, 0
    base = [float(np.mean([side[p] for side in sides])) for p in common]
    return median([new[p] for p in common]) / median(base), len(common)
