"""The typed answer: misses, link and cost model of an analysed trace, and the layer-step table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lanescope.attribution.copies import aggregate, link, traffic
from lanescope.attribution.copies.aggregate import Reading
from lanescope.attribution.copies.estimate import Group, Stated, groups, tensor_names
from lanescope.attribution.copies.load import CopyTables, elsewhere, load
from lanescope.attribution.copies.load import stated as stated_by
from lanescope.attribution.copies.mixture import Floats
from lanescope.attribution.frames import steps_frame
from lanescope.schemas.documents.misses import (
    CopyTensor,
    Drift,
    Identifiability,
    Interval,
    LayerMisses,
    Level,
    Link,
    Misses,
    RequestMisses,
    StepMisses,
    TensorRate,
)
from lanescope.schemas.documents.model import CostModel
from lanescope.schemas.findings import Abstention, CopyAbstained, CopyWarning, Finding

if TYPE_CHECKING:
    from lanescope.attribution.attribute import Analysis

#: worst layers named; share of sure layer-steps for the verdicts
WORST, EXACT_FROM, PARTLY_FROM = 5, 0.9, 0.5
#: share of copies disturbed that is worth a warning
DISTURBED_NOTICE = 0.1
SURE = 0.95


@dataclass
class CopiesResult:
    """What this room has to say; every part may be missing, `abstained` then says why."""

    misses: Misses | None = None
    link: Link | None = None
    model: CostModel | None = None
    layer_steps: pd.DataFrame | None = None
    #: expected count of every row of `layer_steps`
    means: Floats | None = None
    warnings: list[Finding] = field(default_factory=list)
    abstained: list[Abstention] = field(default_factory=list)


@dataclass
class Learned:
    """What the row copies alone say: `result` without what needs the rest of the trace."""

    result: CopiesResult
    groups: list[Group] = field(default_factory=list)
    reads: list[Reading] = field(default_factory=list)


def prepare(analysis: Analysis) -> Callable[[], Learned | None]:
    """Fetch the row copies of a trace whose kernels are placed; what is returned learns from them.

    That needs DuckDB no more, so another thread may do it; None where no verification step holds a
    row copy. `finish` makes the result of it.
    """
    loaded = load(analysis)
    if loaded is None:
        return lambda: None
    told = stated_by(analysis)
    return lambda: learn(loaded(), told)


def learn(tables: CopyTables, stated: Stated) -> Learned:
    """Estimate and aggregate; everything that cannot be told is left out and named."""
    out = CopiesResult()
    found = groups(tables.take_launches(), tables.memory, tables.take_busy(), stated)
    found = [g for g in found if _picked(g).any()]
    if not found:
        why = "the durations of the row copies fit no believable levels"
        out.abstained += [
            a.because(why) for a in (CopyAbstained.MISSES, CopyAbstained.LINK, CopyAbstained.MODEL)
        ]
        return Learned(out)
    reads = [aggregate.reading(g) for g in found]
    picks = [_picked(g) for g in found]
    out.misses = _misses(found, reads, picks, stated)
    out.link = _link(found, picks, stated, traffic.plain_copy_rate(tables.memory))
    out.layer_steps = layer_step_frame(found, stated)
    out.means = np.concatenate([r.mean for r in reads])
    return Learned(out, found, reads)


def finish(analysis: Analysis, learned: Learned | None) -> CopiesResult:
    """The result, with copies of other phases and what a miss costs a step."""
    others = elsewhere(analysis)
    if learned is None:
        pattern = analysis.profile.row_copies.pattern
        why = f"no kernel in the trace moves rows ({pattern})"
        if others:
            why = f"kernels that move rows ({pattern}) lie in no verification step"
        return CopiesResult(abstained=[CopyAbstained.MISSES.because(why)])
    out = learned.result
    if out.misses is not None:
        out.misses.outside_decode = others
        _notices(out, learned.groups, stated_by(analysis))
        from lanescope.attribution.copies import costmodel

        costmodel.attach(out, learned.groups, learned.reads, steps_frame(analysis))
    return out


def _picked(group: Group) -> np.ndarray:
    measured = group.steps.frame["measured"].to_numpy(dtype=bool)
    return measured if measured.any() else np.zeros(len(measured), dtype=bool)


# -- misses ------------------------------------------------------------------------------------


def _misses(
    found: list[Group],
    reads: list[Reading],
    picks: list[np.ndarray],
    stated: Stated,
) -> Misses:
    whole = aggregate.mean(reads, picks)
    main = max(range(len(found)), key=lambda i: picks[i].sum())
    group = found[main]
    routed = _common_routed(found)
    per_layer = [
        row for g, r, p in zip(found, reads, picks, strict=True) for row in _layers(g, r, p)
    ]
    order = sorted(per_layer, key=lambda row: -_value(row.per_step))
    totals = _step_totals(found, reads, picks)
    identity = _identifiability(found, picks)
    if identity.verdict == "not":
        whole = Interval(estimate=None, low=whole.low, high=whole.high)
    return Misses(
        per_layer_step=whole,
        hit_rate=_hit(whole, routed),
        routed_rows=routed,
        routed_rows_basis=group.routed_basis if routed else "",
        layer_steps=sum(int(p.sum()) for p in picks),
        layers=group.steps.structure.layers,
        copies_per_layer_step=group.steps.structure.copies,
        structure_basis=group.steps.structure.basis,
        tensors=_tensors(found, picks, stated),
        levels=_levels(group, picks[main], tensor_names(stated, group.steps.ns.shape[1])),
        per_layer=per_layer,
        worst_layers=list(dict.fromkeys(row.layer for row in order))[:WORST],
        per_step=StepMisses(
            mean=float(totals.mean()),
            p50=float(np.quantile(totals, 0.5)),
            p95=float(np.quantile(totals, 0.95)),
            min=round(float(totals.min())),
            max=round(float(totals.max())),
        ),
        by_request=[
            row for g, r, p in zip(found, reads, picks, strict=True) for row in _requests(g, r, p)
        ],
        drift=_drift(found, reads, picks),
        identifiability=identity,
        disturbed_share=float(
            np.mean(
                np.concatenate(
                    [
                        (g.answer.disturbed[p] > 0.5).ravel()
                        for g, p in zip(found, picks, strict=True)
                    ]
                )
            )
        ),
        outside_decode={},
    )


def _common_routed(found: list[Group]) -> int | None:
    values = {g.facts.routed_rows for g in found}
    return values.pop() if len(values) == 1 else None


def _value(interval: Interval) -> float:
    return interval.estimate if interval.estimate is not None else interval.high


def _hit(misses: Interval, routed: int | None) -> Interval | None:
    """1 - misses / routed rows."""
    if not routed:
        return None
    return Interval(
        estimate=None if misses.estimate is None else 1 - misses.estimate / routed,
        low=1 - misses.high / routed,
        high=1 - misses.low / routed,
    )


def _layers(group: Group, read: Reading, pick: np.ndarray) -> list[LayerMisses]:
    layer = group.steps.frame["layer"].to_numpy()
    rows = []
    for number in np.unique(layer[pick]):
        interval = aggregate.mean([read], [pick & (layer == number)])
        hit = _hit(interval, group.facts.routed_rows)
        rows.append(
            LayerMisses(
                process=group.process,
                layer=int(number),
                per_step=interval,
                hit_rate=hit.estimate if hit else None,
            )
        )
    return rows


def _requests(group: Group, read: Reading, pick: np.ndarray) -> list[RequestMisses]:
    frame = group.steps.frame
    if "request" not in frame:
        return []
    request = frame["request"].to_numpy()
    rows = []
    for number in np.unique(request[pick]):
        if number < 0:
            continue
        inside = pick & (request == number)
        interval = aggregate.mean([read], [inside])
        hit = _hit(interval, group.facts.routed_rows)
        rows.append(
            RequestMisses(
                process=group.process,
                request=int(number),
                steps=int(frame["step"][inside].nunique()),
                per_layer_step=interval,
                hit_rate=hit.estimate if hit else None,
            )
        )
    return rows


def _step_totals(found: list[Group], reads: list[Reading], picks: list[np.ndarray]) -> np.ndarray:
    parts = []
    for group, read, pick in zip(found, reads, picks, strict=True):
        sums = pd.Series(read.mean[pick]).groupby(group.steps.frame["step"].to_numpy()[pick]).sum()
        parts.append(sums.to_numpy())
    return np.concatenate(parts)


def _drift(found: list[Group], reads: list[Reading], picks: list[np.ndarray]) -> Drift | None:
    from lanescope.attribution.copies import regression

    index, value = [], []
    for group, read, pick in zip(found, reads, picks, strict=True):
        step = group.steps.frame["step"].to_numpy()[pick]
        means = pd.Series(read.mean[pick]).groupby(step).mean()
        index.append(np.arange(len(means)))
        value.append(means.to_numpy())
    x, y = np.concatenate(index).astype(float), np.concatenate(value)
    if len(y) < 10:
        return None
    line = regression.fit(x, y)
    if line is None:
        return None
    slope, low, high = line.slope()
    half = x < np.median(x)
    return Drift(
        first_half=float(y[half].mean()),
        second_half=float(y[~half].mean()),
        per_100_steps=Interval(estimate=100 * slope, low=100 * low, high=100 * high),
    )


def _tensors(found: list[Group], picks: list[np.ndarray], stated: Stated) -> list[CopyTensor]:
    group = found[0]
    names = tensor_names(stated, group.steps.ns.shape[1])
    same = [g for g in found if g.steps.ns.shape[1] == len(names)]
    steps = sum(int(g.steps.frame["step"][p].nunique()) for g, p in zip(found, picks, strict=True))
    rows = []
    for i, name in enumerate(names):
        ns = np.concatenate(
            [g.steps.ns[p, i] for g, p in zip(found, picks, strict=True) if g in same]
        )
        ordered = np.sort(ns)
        rows.append(
            CopyTensor(
                tensor=name,
                grid=group.grids[i],
                row_bytes=(stated.row_bytes or {}).get(name),
                launches_per_step=len(ns) / steps,
                mean_us=float(ns.mean()) / 1e3,
                p50_us=_rank(ordered, 0.50) / 1e3,
                p95_us=_rank(ordered, 0.95) / 1e3,
                max_us=float(ordered[-1]) / 1e3,
                under_10us=float((ns < 10_000).mean()),
            )
        )
    return rows


def _rank(ordered: np.ndarray, share: float) -> float:
    """Nearest rank, as everywhere in the document."""
    return float(ordered[max(0, int(np.ceil(share * len(ordered))) - 1)])


def _levels(group: Group, pick: np.ndarray, names: tuple[str, ...]) -> list[Level]:
    chain = group.chain
    mass = group.answers[0][1].mass(pick)
    top = int(np.flatnonzero(mass >= 0.5).max()) if (mass >= 0.5).any() else 0
    rows = []
    for count in range(top + 1):
        us = np.exp(chain.mu[count]) / 1e3
        rows.append(
            Level(
                misses=count,
                layer_steps=float(mass[count]),
                us=dict(zip(names, us.tolist(), strict=True)),
                spread_us=dict(zip(names, (us * chain.sigma[count]).tolist(), strict=True)),
                basis="seen" if mass[count] >= 3 else "law",
            )
        )
    return rows


def _identifiability(found: list[Group], picks: list[np.ndarray]) -> Identifiability:
    sure = np.concatenate([g.answer.confidence[p] for g, p in zip(found, picks, strict=True)])
    share = float((sure >= SURE).mean())
    merged = sorted({tuple(s) for g in found for s in g.named.best.spread})
    shifts: dict[str, float] = {}
    for group in found:
        best = group.answers[0][1]
        for p, other in group.answers[1:]:
            shift = round(float(np.median(other.mean - best.mean)))
            if shift and p >= 0.005:
                shifts[f"{shift:+d}"] = max(shifts.get(f"{shift:+d}", 0.0), p)
    strange = any(g.strange for g in found)
    if strange:
        verdict, reason = "not", "the levels follow no law that a copy over a link could have"
    elif share >= EXACT_FROM and not shifts:
        verdict, reason = "exact", "the levels stand apart"
    elif share >= PARTLY_FROM:
        verdict = "partly"
        reason = "some counts cannot be told apart; their intervals are wide"
    else:
        verdict = "not"
        reason = "most layer-steps lie on levels that several counts share"
        if not merged:
            reason = "the levels overlap, or where they begin cannot be told"
    return Identifiability(
        verdict=verdict,  # type: ignore[arg-type]
        reason=reason,
        confident_share=share,
        shifts=shifts,
        merged=[list(m) for m in merged],
    )


# -- link --------------------------------------------------------------------------------------


def _link(
    found: list[Group],
    picks: list[np.ndarray],
    stated: Stated,
    reference: tuple[float, str] | None,
) -> Link:
    """Rates need the bytes of a row; the split of the time does not."""
    group = max(found, key=lambda g: len(g.steps.ns))
    names = tensor_names(stated, group.steps.ns.shape[1])
    steps = 0
    parts = []
    for g, pick in zip(found, picks, strict=True):
        steps += int(g.steps.frame["step"][pick].nunique())
        mass = g.answers[0][1].mass()
        row_ns = link.per_row(g.chain, g.named.best.law, mass)
        parts.append((link.split(g.steps.ns, g.answers[0][1], pick, g.chain, row_ns), row_ns))
    per_step = 1e6 * max(steps, 1)
    rates = _rates(found, picks, names, group) if group.facts.row_bytes else []
    total = sum(float(s.total.sum()) for s, _ in parts)
    counted = _counted(rates)
    moved = sum(
        float(g.answers[0][1].mean[p].sum() * sum(g.facts.row_bytes))
        for g, p in zip(found, picks, strict=True)
        if g.facts.row_bytes
    )
    peak = stated.link_peak or (reference[0] if reference else None)
    basis = stated.link_peak_basis or "stated" if stated.link_peak else (reference or (0, ""))[1]
    return Link(
        marginal_GBps=counted.marginal_GBps if counted else None,
        effective_GBps=moved / total if moved and total else None,
        saturated_GBps=counted.saturated_GBps if counted else None,
        reference_GBps=peak,
        reference_basis=basis if peak else "",
        counted_tensors=[counted.tensor] if counted else [],
        by_tensor=rates,
        bytes_per_step=moved / steps if moved and steps else None,
        copy_ms_per_step=total / per_step,
        byte_ms_per_step=sum(float(s.bytes_.sum()) for s, _ in parts) / per_step,
        overhead_ms_per_step=sum(float(s.overhead.sum()) for s, _ in parts) / per_step,
        contention_ms_per_step=sum(float(s.contention.sum()) for s, _ in parts) / per_step,
    )


def _counted(rates: list[TensorRate]) -> TensorRate | None:
    """The tensor with the largest rows: launches and latency weigh least there."""
    return max(rates, key=lambda r: r.row_bytes) if rates else None


def _rates(
    found: list[Group], picks: list[np.ndarray], names: tuple[str, ...], group: Group
) -> list[TensorRate]:
    pick = picks[found.index(group)]
    answer = group.answers[0][1]
    slopes = link.slopes(group.steps.ns, answer, pick)
    mass = group.answers[0][1].mass()
    law = group.named.best.law
    row_ns = link.per_row(group.chain, law, mass)
    seen = np.flatnonzero(mass >= 3)
    out = []
    for i, name in enumerate(names):
        assert group.facts.row_bytes is not None
        size = group.facts.row_bytes[i]
        total = float(np.nansum(group.steps.ns[pick, i]))
        full = (seen > 1.25 * law.knee[i]).sum() >= 2
        if not np.isfinite(slopes[i]) or slopes[i] <= 0:
            continue
        out.append(
            TensorRate(
                tensor=name,
                row_bytes=size,
                marginal_GBps=size / float(slopes[i]),
                effective_GBps=float(answer.mean[pick].sum()) * size / total,
                saturated_GBps=size / float(row_ns[i]) if full else None,
                by_count={
                    str(m): m * size / float(np.exp(group.chain.mu[m, i])) for m in seen if m > 0
                },
            )
        )
    return out


# -- table and notices -------------------------------------------------------------------------


def layer_step_frame(found: list[Group], stated: Stated) -> pd.DataFrame:
    """One row a layer-step, as in layer_steps.parquet.

    process, device, step, layer, measured; misses (estimate), low, high (95 %), confidence (0..1),
    disturbed (whether a copy was slowed by something else), start_ns, copy_ns_TENSOR.
    """
    parts = []
    for group in found:
        names = tensor_names(stated, group.steps.ns.shape[1])
        low, high = group.answer.interval
        keys = ("process", "device", "step", "layer", "measured", "start_ns")
        part = {name: group.steps.frame[name].to_numpy() for name in keys}
        part["misses"], part["low"], part["high"] = group.answer.estimate, low, high
        part["confidence"] = group.answer.confidence
        part["disturbed"] = np.asarray((group.answer.disturbed > 0.5).any(axis=1))
        for i, name in enumerate(names):
            part[f"copy_ns_{name}"] = group.steps.ns[:, i].astype(np.int64)
        parts.append(pd.DataFrame(part, copy=False))
    return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)


def _notices(out: CopiesResult, found: list[Group], stated: Stated) -> None:
    assert out.misses is not None
    for text in dict.fromkeys(t for g in found for t in g.contradictions):
        out.warnings.append(CopyWarning.CONTRADICTION.finding(text))
    left = sum(g.steps.left_out for g in found)
    if left:
        out.warnings.append(
            CopyWarning.LEFT_OUT.finding(f"{left:,} row copies belong to no whole layer-step")
        )
    if out.misses.disturbed_share > DISTURBED_NOTICE:
        out.warnings.append(
            CopyWarning.DISTURBED.finding(
                f"{out.misses.disturbed_share:.0%} of the row copies were slowed by other traffic"
                " or kernels"
            )
        )
    prefill = out.misses.outside_decode.get("prefill", 0)
    if prefill:
        out.warnings.append(
            CopyWarning.IN_PREFILL.finding(
                f"{prefill:,} row copies belong to prefill (prompts below the bypass threshold)"
            )
        )
    identity = out.misses.identifiability
    if identity.verdict == "not":
        out.abstained.append(
            CopyAbstained.MISSES.because(
                f"{identity.reason}; the mean lies between {out.misses.per_layer_step.low:.2f} and"
                f" {out.misses.per_layer_step.high:.2f}"
            )
        )
    elif identity.verdict == "partly":
        out.abstained.append(
            CopyAbstained.EXACT_COUNTS.because(
                f"{identity.reason} ({identity.confident_share:.1%} of the layer-steps are sure)"
            )
        )
    if out.misses.routed_rows is None:
        out.abstained.append(
            CopyAbstained.HIT_RATE.because("the routed rows of a layer-step are not known")
        )
    if out.link is not None and not out.link.by_tensor:
        out.abstained.append(CopyAbstained.LINK.because("the bytes of a row are not known"))
