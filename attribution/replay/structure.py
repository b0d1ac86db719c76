"""What a routing trace has to offer a cache: overlaps, reuse, working sets, predictability."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.replay import kernels
from lanescope.attribution.replay.jit import each
from lanescope.attribution.replay.overlap import Overlaps, overlaps
from lanescope.attribution.replay.policies import (
    Scope,
    check_slots,
    layer_misses,
    policy,
    popularity,
    trace_facts,
)
from lanescope.attribution.replay.predict import Predictions, coverage
from lanescope.attribution.replay.trace import LayerRequests, RoutingTrace, layer_requests
from lanescope.schemas.documents.replay import (
    Coverage,
    LayerStructure,
    Structure,
    Subsample,
)
from lanescope.schemas.errors import UsageError
from lanescope.schemas.findings import Abstention, ReplayAbstained

#: steps over which a working set is counted
SPANS = (16, 64, 256, 1024)
_WINDOWS = 100
_EVERY = (2, 4, 8)


def structure(
    trace: RoutingTrace,
    slots: Mapping[int, int] | None = None,
    warmup: int = 0,
    predictor: Path | None = None,
) -> Structure:
    """Everything about `trace` that decides what a cache can win; misses need a slot map."""
    scope = Scope.of(trace, warmup)
    if not (np.diff(trace.step_starts) > 0).all():
        raise UsageError("the trace has empty steps")
    requests = each(lambda index: layer_requests(trace, index), range(len(trace.layers)))
    common = overlaps(trace, requests, scope)
    layers = each(lambda i: _layer(i, trace, requests[i], scope, common), range(len(requests)))
    covered: tuple[Coverage, ...] = ()
    samples: tuple[Subsample, ...] = ()
    abstained: tuple[Abstention, ...] = ()
    if slots is None:
        abstained = (ReplayAbstained.MISSES.because("misses need to know the slots"),)
    else:
        check_slots(trace, slots)
        tight = [n for n, r in zip(trace.layers, requests, strict=True) if slots[n] < r.largest]
        given = Predictions.read(predictor, trace, scope.cached) if predictor else None
        if tight:
            widest = max(r.largest for r in requests)
            why = f"{len(tight)} layers have fewer slots than the {widest} of the widest step"
            abstained = (ReplayAbstained.COVERAGE.because(why),)
        else:
            covered = coverage(trace, requests, slots, scope, given)
        samples = _subsamples(trace, slots, warmup)
    return Structure(
        schema="lanescope.replay-structure/1",
        trace=trace_facts(trace, scope),
        step_to_step=common.step_to_step,
        token_to_token=common.token_to_token,
        cross_layer=common.cross_layer,
        layers=tuple(layers),
        spans=SPANS,
        coverage=covered,
        subsamples=samples,
        abstained=abstained,
    )


def _layer(
    index: int, trace: RoutingTrace, requests: LayerRequests, scope: Scope, common: Overlaps
) -> LayerStructure:
    depths = kernels.lru_depths(requests.experts, requests.starts, requests.n_experts)
    scored = np.repeat(scope.scored, np.diff(requests.starts))
    known = depths[scored & (depths < requests.n_experts)]
    counts = popularity(requests, scope.scored)
    share = counts[counts > 0] / counts.sum()
    windows = min(_WINDOWS, requests.steps)
    bounds = np.arange(windows + 1) * requests.steps // windows
    return LayerStructure(
        layer=trace.layers[index],
        step_to_step=common.step_by_layer[index],
        cross_layer=common.cross_by_layer[index],
        reuse_p50=float(np.median(known)) if len(known) else None,
        reuse_p90=float(np.quantile(known, 0.9)) if len(known) else None,
        never_seen_before=int((depths[scored] == requests.n_experts).sum()),
        experts_used=int((counts > 0).sum()),
        effective_experts=float(np.exp(-(share * np.log(share)).sum())),
        reuse_p50_over_time=tuple(
            _median(depths[requests.starts[a] : requests.starts[b]], requests.n_experts)
            for a, b in itertools.pairwise(bounds)
        ),
        working_set=tuple(
            _working_set(requests, span) if requests.steps >= span else None for span in SPANS
        ),
        working_set_over_time=tuple(
            kernels.distinct_in_windows(
                requests.experts, requests.starts, bounds, requests.n_experts
            ).tolist()
        ),
    )


def _median(depths: NDArray[np.int32], never: int) -> float | None:
    """The median depth of the requests that came before; none where all are new."""
    known = depths[depths < never]
    return float(np.median(known)) if len(known) else None


def _working_set(requests: LayerRequests, span: int) -> float:
    """Distinct experts in `span` passes, mean over windows side by side."""
    bounds = np.arange(0, requests.steps - requests.steps % span + 1, span)
    return float(
        kernels.distinct_in_windows(
            requests.experts, requests.starts, bounds, requests.n_experts
        ).mean()
    )


def _subsamples(
    trace: RoutingTrace, slots: Mapping[int, int], warmup: int
) -> tuple[Subsample, ...]:
    """LRU on each n-th pass alone, against the whole: what a subsampled trace would have told."""
    found = []
    for every in (1, *_EVERY):
        part = trace if every == 1 else trace.every(every)
        if part.steps <= 1:
            break
        scope = Scope.of(part, warmup // every)
        misses = _lru_misses(part, slots, scope)
        facts = trace_facts(part, scope)
        found.append(
            Subsample(
                every=every,
                steps=facts.scored_steps,
                hit_rate=1 - misses / facts.routed_rows,
                misses_per_layer_step=misses / (facts.scored_steps * len(part.layers)),
            )
        )
    return tuple(found)


def _lru_misses(trace: RoutingTrace, slots: Mapping[int, int], scope: Scope) -> int:
    lru = policy("lru")

    def one(index: int) -> int:
        room = slots[trace.layers[index]]
        misses = layer_misses(layer_requests(trace, index), lru, room, scope.scored)
        return int(misses[scope.scored].sum())

    return sum(each(one, range(len(trace.layers))))
