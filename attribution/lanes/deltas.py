"""What a step of one lane takes more or less than a step of another, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from lanescope.attribution.lanes.bootstrap import RESAMPLES, Difference, Series, compare
from lanescope.attribution.lanes.comparable import Verdict, lengths
from lanescope.attribution.lanes.lane import Ints, Key, Lane
from lanescope.schemas.documents.comparison import (
    Bar,
    Certainty,
    CountDelta,
    KernelChange,
    MetricDelta,
    Noise,
    TokenDelta,
    Waterfall,
)

WHOLE = ("wall", "busy", "sum", "idle")
TOP_KERNELS = 15
#: steps of both lanes above which a quarter of the resamples serves
LONG = 10_000
#: kernels that move a step by less than this share of the wall are no news
KERNEL_SHARE = 1e-4


def metrics_of(a: Lane, b: Lane, buckets: bool) -> list[str]:
    """The figures that are compared: of the whole step, then the GPU sum of every bucket."""
    if not buckets:
        return list(WHOLE)
    names = {**a.bucket_sum, **b.bucket_sum}
    size = {n: _sum(a, n) / max(a.steps, 1) + _sum(b, n) / max(b.steps, 1) for n in names}
    return [*WHOLE, *sorted(names, key=lambda n: (-size[n], n))]


def _sum(lane: Lane, bucket: str) -> int:
    values = lane.bucket_sum.get(bucket)
    return 0 if values is None else int(values.sum())


def _column(lane: Lane, metric: str) -> Ints:
    if metric in WHOLE:
        return {"wall": lane.wall, "busy": lane.busy, "sum": lane.total, "idle": lane.idle}[metric]
    return lane.bucket_sum.get(metric, np.zeros(lane.steps, dtype=np.int64))


def series(lane: Lane, metrics: Sequence[str], by_request: bool) -> Series:
    """Steps x metrics in ns, request after request."""
    keys: list[Key] = [(p, d, r if by_request else -1) for p, d, r in lane.keys]
    order = sorted(range(len(keys)), key=lambda i: keys[i])  # stable: steps stay in order
    values = np.stack([_column(lane, m) for m in metrics], axis=1).astype(np.float64)
    counts = lengths(lane, by_request)
    return Series(values[order], tuple(counts[k] for k in sorted(counts)))


def differences(
    verdict: Verdict, metrics: Sequence[str], scale: tuple[float, float] = (1, 1)
) -> list[Difference]:
    """candidate - incumbent of each metric in ns/step; `scale` divides either side."""
    a = series(verdict.incumbent, metrics, verdict.by_request)
    b = series(verdict.candidate, metrics, verdict.by_request)
    return compare(
        Series(a.values / scale[0], a.lengths),
        Series(b.values / scale[1], b.lengths),
        verdict.paired,
        resamples_for(len(a.values) + len(b.values)),
    )


def resamples_for(steps: int) -> int:
    """How many resamples: fewer for very long lanes, whose means hardly stray."""
    return RESAMPLES if steps <= LONG else RESAMPLES // 4


def noise(lane: Lane, metrics: Sequence[str], by_request: bool) -> dict[str, float]:
    """A lane against itself: one half of its steps less the other, in ns/step.

    Of each request the first half goes to one side and the second to the other, changing over from
    request to request, so that both sides hold every request, and early and late steps alike.
    """
    whole = series(lane, metrics, by_request)
    halves: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for number, steps in enumerate(whole.requests()):
        cut = len(steps) // 2
        halves[number % 2].append(steps[:cut])
        halves[1 - number % 2].append(steps[cut:])
    one, two = (np.concatenate(h) for h in halves)
    if not len(one) or not len(two):
        return {}
    return dict(zip(metrics, (two.mean(axis=0) - one.mean(axis=0)).tolist(), strict=True))


def metric_deltas(verdict: Verdict) -> list[MetricDelta]:
    """Every compared figure, with interval, sign and certainty."""
    a, b = verdict.incumbent, verdict.candidate
    metrics = metrics_of(a, b, verdict.buckets)
    floors = [noise(lane, metrics, verdict.by_request) for lane in (a, b)]
    out = []
    for metric, d in zip(metrics, differences(verdict, metrics), strict=True):
        totals = int(_column(a, metric).sum()), int(_column(b, metric).sum())
        exact = Fraction(totals[1], b.steps) - Fraction(totals[0], a.steps)
        certainty: Certainty = "certain" if d.sure() else "unclear"
        if verdict.same_capture or (exact == 0 and d.low == d.high == 0):
            certainty = "identical"
        out.append(
            MetricDelta(
                metric=metric,
                incumbent_total_ns=totals[0],
                candidate_total_ns=totals[1],
                incumbent_ms=totals[0] / a.steps / 1e6,
                candidate_ms=totals[1] / b.steps / 1e6,
                delta_ms=float(exact) / 1e6,
                low_ms=d.low / 1e6,
                high_ms=d.high / 1e6,
                delta_pct=100 * float(exact) * a.steps / totals[0] if totals[0] else None,
                sign="0" if exact == 0 else "+" if exact > 0 else "-",
                certainty=certainty,
                p=d.p,
                p_family=d.p_family,
                median_incumbent_ms=d.median_a / 1e6,
                median_candidate_ms=d.median_b / 1e6,
                median_delta_ms=d.median_delta / 1e6,
                median_low_ms=d.median_low / 1e6,
                median_high_ms=d.median_high / 1e6,
                noise=Noise(
                    incumbent_ms=floors[0][metric] / 1e6, candidate_ms=floors[1][metric] / 1e6
                )
                if all(metric in f for f in floors)
                else None,
            )
        )
    return out


def token_deltas(verdict: Verdict, accepted: tuple[float, float]) -> list[TokenDelta]:
    """The same per accepted token: a step's time divided by the tokens it yields."""
    metrics = metrics_of(verdict.incumbent, verdict.candidate, verdict.buckets)
    return [
        TokenDelta(
            metric=metric,
            incumbent_ms=d.mean_a / 1e6,
            candidate_ms=d.mean_b / 1e6,
            delta_ms=d.delta / 1e6,
            low_ms=d.low / 1e6,
            high_ms=d.high / 1e6,
        )
        for metric, d in zip(metrics, differences(verdict, metrics, accepted), strict=True)
    ]


def waterfall(a: Lane, b: Lane) -> Waterfall:
    """From a mean step of one lane to one of the other, in whole ns that add up exactly.

    Exclusive bucket time and idle time make the wall, in each step and so in the mean. The means
    are fractions; the running level is rounded, not each bar, so that nothing is lost on the way.
    """
    names = {**a.bucket_exclusive, **b.bucket_exclusive}
    parts: dict[str, Fraction] = {}
    for name in names:
        sides = [
            Fraction(int(lane.bucket_exclusive[name].sum()), lane.steps)
            if name in lane.bucket_exclusive
            else Fraction(0)
            for lane in (a, b)
        ]
        parts[name] = sides[1] - sides[0]
    ordered = sorted(parts, key=lambda n: (-abs(parts[n]), n))
    parts["idle"] = Fraction(int(b.idle.sum()), b.steps) - Fraction(int(a.idle.sum()), a.steps)
    level = Fraction(int(a.wall.sum()), a.steps)
    start = previous = round(level)
    bars = []
    for name in [*ordered, "idle"]:
        level += parts[name]
        bars.append(Bar(bucket=name, delta_ns=round(level) - previous))
        previous = round(level)
    return Waterfall(from_ns=start, to_ns=previous, bars=bars)


def kernel_changes(a: Lane, b: Lane) -> list[KernelChange]:
    """The kernels that appeared, vanished or changed most, per step."""
    least = KERNEL_SHARE * float(a.wall.mean())
    found = []
    for key in {**a.names.sum_ns, **b.names.sum_ns}:
        sides = [lane.names.sum_ns.get(key, 0) / lane.all_steps for lane in (a, b)]
        counts = [lane.names.launches.get(key, 0) / lane.all_steps for lane in (a, b)]
        appeared, vanished = key not in a.names.sum_ns, key not in b.names.sum_ns
        if abs(sides[1] - sides[0]) < least and not appeared and not vanished:
            continue
        found.append(
            KernelChange(
                name=key[1],
                bucket=key[0],
                change="appeared" if appeared else "vanished" if vanished else "changed",
                incumbent_ms=sides[0] / 1e6,
                candidate_ms=sides[1] / 1e6,
                delta_ms=(sides[1] - sides[0]) / 1e6,
                incumbent_launches=counts[0],
                candidate_launches=counts[1],
            )
        )
    found.sort(key=lambda k: (-abs(k.delta_ms), k.name))
    return found[:TOP_KERNELS]


def counts(verdict: Verdict) -> list[CountDelta]:
    """Launches, waits, prefill, phases, misses and link, as each attribution states them."""
    a, b = verdict.incumbent, verdict.candidate
    rows = [_stated(lane, verdict.buckets) for lane in (a, b)]
    out = []
    for what, unit in {**rows[0], **rows[1]}:
        one, two = rows[0].get((what, unit)), rows[1].get((what, unit))
        delta = two - one if one is not None and two is not None else None
        out.append(CountDelta(what=what, unit=unit, incumbent=one, candidate=two, delta=delta))
    return out


def _stated(lane: Lane, buckets: bool) -> dict[tuple[str, str], float | None]:
    doc, out = lane.document, {}
    if doc.steps is not None:
        out["kernels", "a step"] = doc.steps.kernels.mean
        if doc.steps.period_ms is not None:
            out["step to step", "ms"] = doc.steps.period_ms.mean
    if doc.launches is not None:
        out["graph launches", "a step"] = doc.launches.graph_launches_per_step
        out["kernel launch calls", "a step"] = doc.launches.kernel_launch_calls_per_step
        out["host time in launch calls", "ms/step"] = doc.launches.launch_ms_per_step
        out["host time in waits", "ms/step"] = doc.launches.wait_ms_per_step
    if buckets:
        for bucket, launches in lane.bucket_launches.items():
            out[f"launches of {bucket}", "a step"] = launches / lane.all_steps
    for phase in doc.phases:
        if phase.phase == "decode" and phase.part not in {"", "verify"} and phase.instances:
            key = (f"decode {phase.part}", "ms an instance")
            out[key] = phase.sum_ns / phase.instances / 1e6
    if doc.prefill is not None:
        out["prefill", "ms a request"] = doc.prefill.sum_ms_per_instance
    return {**out, **_of_copies(lane)}


def _of_copies(lane: Lane) -> dict[tuple[str, str], float | None]:
    """What the document says of misses and the link, where it does."""
    out: dict[tuple[str, str], float | None] = {}
    misses = getattr(lane.document, "misses", None)
    if misses is not None:
        out["misses", "a layer-step"] = misses.per_layer_step.estimate
        if misses.hit_rate is not None:
            out["hit rate", ""] = misses.hit_rate.estimate
    link = getattr(lane.document, "link", None)
    if link is not None:
        out["link, marginal", "GB/s"] = link.marginal_GBps
        out["link, effective", "GB/s"] = link.effective_GBps
    return out
