"""The figure that a bar is about, out of all the evidence there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from lanescope.schemas.documents.gate import Bar, TaskOutcomes
from lanescope.schemas.documents.speed import (
    Concurrency,
    PairedMetric,
    SourceFile,
    SpeedComparison,
    SpeedLaneSummary,
)
from lanescope.schemas.findings import Abstention, Finding


@dataclass(frozen=True)
class Figure:
    """One figure of an attribution, in ms a verification step: each lane's, and the difference."""

    base: float | None
    candidate: float | None
    delta: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = "ms/step"


@dataclass
class Evidence:
    """All that a gate may look at."""

    base: str
    candidate: str
    speed: SpeedComparison | None = None
    tasks: TaskOutcomes | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    files: Sequence[SourceFile] = ()
    refused: Sequence[Abstention] = ()  # why the attributions are not comparable
    findings: Sequence[Finding] = ()
    same: bool = False  # base and candidate are one and the same data


def of_attribution(metric: str) -> bool:
    """Whether a metric is a figure of attributions."""
    return metric.startswith("bucket:") or metric in {"wall_ms", "busy_ms", "sum_ms", "idle_ms"}


Value = tuple[float | None, float | None, float | None, str, str]


def _nothing(why: str) -> Value:
    return None, None, None, "", why


def value_of(bar: Bar, evidence: Evidence) -> Value:
    """value, interval, unit; or None and why there is none."""
    if bar.metric == "task_losses":
        return _of_tasks(bar, evidence.tasks)
    if bar.metric in evidence.figures:
        return _of_figure(bar, evidence.figures[bar.metric])
    if of_attribution(bar.metric) and evidence.figures:
        known = ", ".join(sorted(evidence.figures))
        return _nothing(f"no such figure; the lanes have {known}")
    speed = evidence.speed
    if speed is None:
        return _nothing("no data that this bar is about was given")
    if bar.metric == "long_wall_ratio":
        if speed.long_wall_ratio is None:
            return _nothing("no long prompts in common")
        return speed.long_wall_ratio, None, None, "", ""
    if "@" in bar.metric:
        return _of_streams(bar, speed)
    if bar.of == "candidate" and not speed.base:
        return _of_alone(bar, speed.candidate)
    paired = next((m for m in speed.metrics if m.metric == bar.metric), None)
    if paired is None:
        said = next((a.why for a in speed.abstained if a.what == bar.metric), "no such metric")
        return _nothing(said)
    return _of_paired(bar, paired)


def _of_alone(bar: Bar, lane: SpeedLaneSummary) -> Value:
    known = {
        "decode_rate": (lane.decode_rate_median, "tok/s"),
        "ttft": (lane.ttft_median_s, "s"),
        "accepted_per_step": (lane.accepted_per_step, "tokens"),
    }
    value, unit = known.get(bar.metric, (None, ""))
    if value is None:
        return _nothing("one lane alone does not say this")
    return value, None, None, unit, ""


def _of_paired(bar: Bar, paired: PairedMetric) -> Value:
    if bar.of in {"candidate", "base"}:
        values = [p.candidate if bar.of == "candidate" else p.base for p in paired.prompts]
        return median(values), None, None, paired.unit, ""
    if bar.of == "difference":
        return median(p.candidate - p.base for p in paired.prompts), None, None, paired.unit, ""
    if bar.statistic in {"wins", "losses"}:
        count = paired.wins if bar.statistic == "wins" else paired.losses
        return float(count), None, None, f"of {len(paired.prompts)} prompts", ""
    low, high = {
        "bootstrap": (paired.low_pct, paired.high_pct),
        "t": (paired.t_low_pct, paired.t_high_pct),
        "launches": (paired.launch_low_pct, paired.launch_high_pct),
    }[bar.interval]
    value = {"point": paired.mean_gain_pct, "lower": low, "upper": high}[bar.statistic]
    if value is None or (bar.inconclusive == "interval" and low is None):
        return _nothing("no relaunches: an interval that covers them was asked for")
    return value, low, high, "%", ""


def _of_streams(bar: Bar, speed: SpeedComparison) -> Value:
    """`aggregate_rate@C` or `steady_rate@C`: medians over repetitions, the gain in per cent."""
    kind, _, count = bar.metric.partition("@")
    if kind not in {"aggregate_rate", "steady_rate"} or not count.isdigit():
        return _nothing("no such metric")

    def of(lanes: Sequence[SpeedLaneSummary]) -> float | None:
        names = {lane.name for lane in lanes}
        rates = [_rate(c, kind) for c in speed.concurrency if _is(c, names, int(count))]
        known = [r for r in rates if r is not None]
        return median(known) if known else None

    base, candidate = of(speed.base), of([speed.candidate])
    if base is None or candidate is None:
        return _nothing(f"no {kind.replace('_', ' ')} at concurrency {count} in both lanes")
    value = {
        "gain": 100 * (candidate / base - 1),
        "difference": candidate - base,
        "candidate": candidate,
        "base": base,
    }[bar.of]
    return value, None, None, "%" if bar.of == "gain" else "tok/s", ""


def _is(entry: Concurrency, names: set[str], count: int) -> bool:
    return entry.lane in names and entry.concurrency == count


def _rate(entry: Concurrency, kind: str) -> float | None:
    return entry.aggregate_tok_s if kind == "aggregate_rate" else entry.steady_tok_s


def _of_tasks(bar: Bar, tasks: TaskOutcomes | None) -> Value:
    if tasks is None:
        return _nothing("no task outcomes were given (--tasks)")
    if bar.statistic in {"wins", "losses"}:
        count = tasks.wins if bar.statistic == "wins" else tasks.losses
        return float(count), None, None, f"of {tasks.tasks} tasks", ""
    share = tasks.losses / tasks.tasks
    value = tasks.loss_share_upper if bar.statistic == "upper" else share
    return value, None, tasks.loss_share_upper, "of the tasks", ""


def _of_figure(bar: Bar, figure: Figure) -> Value:
    if bar.of in {"candidate", "base"}:
        value = figure.candidate if bar.of == "candidate" else figure.base
        return (
            (value, None, None, figure.unit, "") if value is not None else _nothing("no such lane")
        )
    if figure.delta is None or figure.base is None:
        return _nothing("needs two comparable lanes")
    scale, unit = 1.0, figure.unit
    if bar.of == "gain":
        if figure.base == 0:
            return _nothing("the base is 0: no gain in per cent")
        scale, unit = 100 / figure.base, "%"
    low = None if figure.low is None else figure.low * scale
    high = None if figure.high is None else figure.high * scale
    value = {"lower": low, "upper": high}.get(bar.statistic, figure.delta * scale)
    return (value, low, high, unit, "") if value is not None else _nothing("no interval")
