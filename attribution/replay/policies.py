"""Policies by name, replayed side by side over every layer of a trace."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.replay import kernels
from lanescope.attribution.replay.cost import (
    CostModel,
    acceptance_unknown,
    reservations,
    tokens_per_s,
)
from lanescope.attribution.replay.jit import each
from lanescope.attribution.replay.trace import Ints, LayerRequests, RoutingTrace, layer_requests
from lanescope.schemas.documents.replay import PolicyResult, Replay, TraceFacts
from lanescope.schemas.errors import UsageError

Misses = NDArray[np.int32]
Mask = NDArray[np.bool_]
Uses = tuple[NDArray[np.int32], NDArray[np.int32]]

#: what `lanescope replay run` shows unless told otherwise
DEFAULT = ("lru", "slru80", "lfu", "random", "static", "pin50", "pin75", "belady-demand", "belady")

#: policy -> what it keeps; `pinN` and `slruN` take a percentage
ABOUT = {
    "lru": "evicts the row asked for longest ago",
    "slruN": "LRU in two segments: N % of the slots are for rows hit at least once since they came",
    "lfu": "evicts the row asked for in the fewest passes so far",
    "random": "evicts any row",
    "static": "holds the rows asked for most often over the scored steps, known in hindsight",
    "pinN": "N % of the slots as in static, LRU in the rest",
    "belady-demand": "evicts the row needed again latest, under the engine's rules",
    "belady": "the bound of all: starts full, and keeps a missed row only where that pays",
}

_KERNELS = {
    "lru": kernels.LRU,
    "lfu": kernels.LFU,
    "random": kernels.RANDOM,
    "belady-demand": kernels.BELADY_DEMAND,
    "belady": kernels.BELADY,
}
_WINDOWS = 100


@dataclass(frozen=True)
class Policy:
    """A policy taken apart: `static`, a pinned share of the slots, or a loop of `kernels`."""

    name: str
    kernel: int
    pinned: float = 0.0
    protected: float = 0.0


def policy(name: str) -> Policy:
    """The policy called `name`; raises UsageError for a name that there is not."""
    if name == "static":
        return Policy(name, kernels.LRU, pinned=1.0)
    if name in _KERNELS:
        return Policy(name, _KERNELS[name])
    parts = re.fullmatch(r"(pin|slru)(\d{1,3})", "slru80" if name == "slru" else name)
    if parts is None or int(parts[2]) > 100:
        raise UsageError(f"no policy {name!r}", f"policies: {', '.join(ABOUT)}")
    share = int(parts[2]) / 100
    if parts[1] == "pin":
        return Policy(name, kernels.LRU, pinned=share)
    return Policy(name, kernels.SLRU, protected=share)


@dataclass(frozen=True)
class Scope:
    """The passes through the cache, and which of them are scored (verification, after warm-up)."""

    cached: Mask
    scored: Mask
    prefill: Mask

    @classmethod
    def of(cls, trace: RoutingTrace, warmup: int = 0) -> Scope:
        """`warmup` verification steps fill the cache and are not scored."""
        cached = trace.cached_steps()
        prefill = trace.prefill[cached]
        verified = np.cumsum(~prefill)
        scored = ~prefill & (verified > warmup)
        if not scored.any():
            raise UsageError(
                f"{int((~prefill).sum())} verification steps, {warmup} of them warm-up",
                "nothing is left to score",
            )
        return cls(cached, scored, prefill)


def popularity(requests: LayerRequests, scored: Mask) -> Ints:
    """In how many scored passes each expert (n_experts) was asked for."""
    weights = np.repeat(scored, np.diff(requests.starts))
    return np.bincount(requests.experts[weights], minlength=requests.n_experts).astype(np.int64)


def most_popular(requests: LayerRequests, scored: Mask, count: int) -> Mask:
    """The `count` experts asked for in the most scored passes; ties go to the smaller id."""
    order = np.argsort(-popularity(requests, scored), kind="stable")
    chosen = np.zeros(requests.n_experts, np.bool_)
    chosen[order[:count]] = True
    return chosen


def layer_misses(
    requests: LayerRequests,
    what: Policy,
    slots: int,
    scored: Mask,
    uses: Uses | None = None,
    seed: int = 0,
) -> Misses:
    """Misses of each pass through the cache of one layer (steps) under one policy."""
    slots = min(slots, requests.n_experts)
    pins = int(what.pinned * slots)
    pinned = most_popular(requests, scored, pins)
    if pins == slots:  # nothing moves: what is not pinned is used from host memory
        absent = np.append(0, np.cumsum(~pinned[requests.experts]))
        return np.diff(absent[requests.starts]).astype(np.int32)
    if uses is None:
        uses = next_and_first_use(requests, scored)
    misses: Misses = kernels.replay_policy(
        what.kernel,
        requests.experts,
        requests.starts,
        *uses,
        pinned,
        slots - pins,
        int(what.protected * slots),
        _mixed(seed),
    )
    return misses


def next_and_first_use(requests: LayerRequests, scored: Mask) -> Uses:
    """What only hindsight knows; computed once for all policies of a layer."""
    found: Uses = kernels.next_uses(requests.experts, requests.starts, requests.n_experts, scored)
    return found


def _mixed(seed: int) -> int:
    """Neighbouring seeds, far apart (the finaliser of splitmix64), cut to 62 bits."""
    z = (seed + 1) * 0x9E3779B97F4A7C15 & (2**64 - 1)
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & (2**64 - 1)
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & (2**64 - 1)
    return (z ^ (z >> 31)) >> 2


def check_slots(trace: RoutingTrace, slots: Mapping[int, int]) -> None:
    """Every layer of the trace needs a slot count."""
    absent = [layer for layer in trace.layers if layer not in slots]
    if absent:
        raise UsageError(
            f"the slot map lacks layer {absent[0]} ({len(absent)} of {len(trace.layers)} layers)",
            "its keys are the model's layer numbers",
        )


def replay(
    trace: RoutingTrace,
    slots: Mapping[int, int],
    policies: Sequence[str] = DEFAULT,
    warmup: int = 0,
    seed: int = 0,
    keep: str | None = None,
) -> tuple[Replay, Misses | None]:
    """All `policies` at the slot map; and of the policy `keep` misses (layers, cached passes)."""
    check_slots(trace, slots)
    chosen = [policy(name) for name in policies]
    scope = Scope.of(trace, warmup)
    window, counts = _windows(int(scope.scored.sum()))

    def one_layer(index: int) -> tuple[Ints, Ints, int, Misses | None]:
        requests = layer_requests(trace, index)
        uses = next_and_first_use(requests, scope.scored)
        sums = np.zeros((len(chosen), len(counts)), np.int64)
        prefill = np.zeros(len(chosen), np.int64)
        kept = None
        for p, what in enumerate(chosen):
            misses = layer_misses(
                requests, what, slots[trace.layers[index]], scope.scored, uses, seed + index
            )
            scored = misses[scope.scored]
            sums[p] = np.bincount(window, weights=scored, minlength=len(counts)).astype(np.int64)
            prefill[p] = misses[scope.prefill].sum()
            kept = misses if what.name == keep else kept
        distinct = int(np.diff(requests.starts)[scope.scored].sum())
        return sums, prefill, distinct, kept

    by_layer = each(one_layer, range(len(trace.layers)))
    sums = np.stack([layer[0] for layer in by_layer])  # layer, policy, window
    facts = trace_facts(trace, scope)
    distinct = sum(layer[2] for layer in by_layer)
    prefill = np.sum([layer[1] for layer in by_layer], axis=0)
    results = tuple(
        _result(name, sums[:, p], int(prefill[p]), distinct, facts, counts)
        for p, name in enumerate(policies)
    )
    document = Replay(
        schema="lanescope.replay/1",
        trace=facts,
        slots={layer: slots[layer] for layer in trace.layers},
        policies=results,
        heat=tuple(tuple((row / counts).tolist()) for row in sums[:, 0]),
    )
    kept = np.stack([k for *_, k in by_layer if k is not None]) if keep in policies else None
    return document, kept


def _windows(scored: int) -> tuple[Ints, Ints]:
    """The window of time of each scored step, and the steps in each."""
    window = np.arange(scored, dtype=np.int64) * min(_WINDOWS, scored) // scored
    return window, np.bincount(window)


def trace_facts(trace: RoutingTrace, scope: Scope) -> TraceFacts:
    """The trace as documents describe it."""
    lengths = np.diff(trace.step_starts)[scope.cached][scope.scored]
    return TraceFacts(
        source=trace.source,
        tokens=trace.tokens,
        steps=trace.steps,
        scored_steps=int(scope.scored.sum()),
        prefill_passes=int(trace.prefill.sum()),
        bypassed_passes=int((~scope.cached).sum()),
        tokens_per_step=(int(lengths.min()), int(lengths.max())),
        layers=trace.layers,
        experts=trace.n_experts,
        top_k=trace.top_k,
        routed_rows=int(lengths.sum()) * trace.top_k * len(trace.layers),
    )


def _result(
    name: str, sums: Ints, prefill: int, distinct: int, facts: TraceFacts, counts: Ints
) -> PolicyResult:
    """`sums` are misses by layer and window."""
    misses = int(sums.sum())
    return PolicyResult(
        policy=name,
        misses=misses,
        misses_per_layer_step=misses / (facts.scored_steps * len(facts.layers)),
        hit_rate=1 - misses / facts.routed_rows,
        distinct_hit_rate=1 - misses / distinct,
        prefill_misses=prefill,
        per_layer=tuple((sums.sum(axis=1) / facts.scored_steps).tolist()),
        over_time=tuple((sums.sum(axis=0) / (counts * len(facts.layers))).tolist()),
    )


def priced(result: Replay, model: CostModel, accepted: float | None = None) -> Replay:
    """`result` with step times by `model`; rates where the tokens of a step are known."""
    if accepted is None and result.trace.tokens_per_step == (1, 1):
        accepted = 1.0
    policies = []
    for found in result.policies:
        ms = model.ms_per_step(found.misses_per_layer_step)
        rate = tokens_per_s(ms, accepted)
        policies.append(found.model_copy(update={"ms_per_step": ms, "tokens_per_s": rate}))
    misses = [found.misses_per_layer_step for found in policies]
    return result.model_copy(
        update={
            "policies": tuple(policies),
            "warnings": (*result.warnings, *reservations(model, misses)),
            "abstained": result.abstained + (() if accepted else (acceptance_unknown(),)),
        }
    )
