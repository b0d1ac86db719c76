"""Misses at every slot count at once.

LRU caches contain one another: what a smaller one holds, a larger one holds too. So one pass that
notes how deep each request lies in the LRU order gives the misses of every size (Mattson et al.,
IBM Systems Journal 9(2), 1970), here with the batch rules of `docs/replay-semantics.md`. Sizes that
cannot hold one whole pass follow rule 5 there and have a loop of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lanescope.attribution.replay import kernels
from lanescope.attribution.replay.jit import each
from lanescope.attribution.replay.policies import (
    Mask,
    Policy,
    Scope,
    layer_misses,
    next_and_first_use,
    policy,
    popularity,
    trace_facts,
)
from lanescope.attribution.replay.trace import Ints, LayerRequests, RoutingTrace, layer_requests
from lanescope.schemas.documents.replay import Curves, LayerCurve

#: slot counts at which a policy without a curve of its own is replayed, as parts of all experts
_POINTS = 16


def lru_curves(requests: LayerRequests, masks: Sequence[Mask]) -> list[Ints]:
    """LRU misses with 0 to n_experts slots (n_experts + 1), summed over each of `masks`."""
    depths = kernels.lru_depths(requests.experts, requests.starts, requests.n_experts)
    widths = np.diff(requests.starts)
    curves = []
    for mask in masks:
        by_depth = np.bincount(
            depths[np.repeat(mask, widths)], minlength=requests.n_experts + 1
        ).astype(np.int64)
        curves.append(by_depth[::-1].cumsum()[::-1])  # a request of depth d misses in d slots
    for curve, mask in zip(curves, masks, strict=True):
        curve[: requests.largest] = kernels.lru_small(
            requests.experts, requests.starts, requests.largest, requests.n_experts, mask
        )
    return curves


def static_curve(requests: LayerRequests, scored: Mask) -> Ints:
    """Misses of the best pin of 0 to n_experts experts (n_experts + 1)."""
    counts = np.sort(popularity(requests, scored))[::-1]
    curve: Ints = counts.sum() - np.append(0, counts.cumsum())
    return curve


def curve_points(n_experts: int) -> list[int]:
    """The slot counts at which policies are replayed one by one."""
    return sorted({round(n_experts * i / _POINTS) for i in range(1, _POINTS + 1)} - {0})


def curves(trace: RoutingTrace, policies: Sequence[str] = (), warmup: int = 0) -> Curves:
    """LRU and the best static pin at every slot count; `policies` at sixteen of them."""
    scope = Scope.of(trace, warmup)
    others = [policy(name) for name in policies if name not in ("lru", "static")]
    points = curve_points(trace.n_experts)
    by_layer = each(
        lambda index: _layer(layer_requests(trace, index), scope, others, points),
        range(len(trace.layers)),
    )
    facts = trace_facts(trace, scope)
    routed = facts.routed_rows / len(trace.layers)
    lru = np.stack([layer[0] for layer in by_layer])
    static = np.stack([layer[1] for layer in by_layer])
    sampled = np.stack([layer[2] for layer in by_layer])
    return Curves(
        schema="lanescope.replay-curve/1",
        trace=facts,
        slots=tuple(range(trace.n_experts + 1)),
        layers=tuple(
            LayerCurve(layer=layer, lru=tuple(lru[i].tolist()), static=tuple(static[i].tolist()))
            for i, layer in enumerate(trace.layers)
        ),
        lru_hit_rate=tuple((1 - lru.mean(axis=0) / routed).tolist()),
        lru_misses_per_layer_step=tuple((lru.mean(axis=0) / facts.scored_steps).tolist()),
        static_hit_rate=tuple((1 - static.mean(axis=0) / routed).tolist()),
        points=tuple(points) if others else (),
        other_hit_rates={
            what.name: tuple((1 - sampled[:, p].mean(axis=0) / routed).tolist())
            for p, what in enumerate(others)
        },
    )


def _layer(
    requests: LayerRequests, scope: Scope, others: Sequence[Policy], points: Sequence[int]
) -> tuple[Ints, Ints, Ints]:
    (lru,) = lru_curves(requests, [scope.scored])
    sampled = np.zeros((len(others), len(points)), np.int64)
    if others:
        uses = next_and_first_use(requests, scope.scored)
        for p, what in enumerate(others):
            for i, slots in enumerate(points):
                misses = layer_misses(requests, what, slots, scope.scored, uses)
                sampled[p, i] = misses[scope.scored].sum()
    return lru, static_curve(requests, scope.scored), sampled
