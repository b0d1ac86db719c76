"""Experts in common: between steps, between tokens, between a layer and the next; against chance.

Two chances stand beside every overlap: of experts drawn evenly (the size of the other set over the
number of experts: top-k / experts for tokens), and of experts drawn independently, each as often
as this trace asks for it. An overlap above the second is a signal that a predictor could use; one
between the two is popularity alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.replay import kernels
from lanescope.attribution.replay.jit import each
from lanescope.attribution.replay.policies import Mask, Scope, popularity
from lanescope.attribution.replay.trace import LayerRequests, RoutingTrace, layer_requests
from lanescope.schemas.documents.replay import Overlap

Floats = NDArray[np.float64]

_WINDOWS = 100


@dataclass(frozen=True)
class Overlaps:
    """The overlaps of a trace, and their means by layer (none where there is nothing to compare).

    `cross_layer` is between the experts of one token in a layer and in the next one.
    """

    step_to_step: Overlap | None
    token_to_token: Overlap | None
    cross_layer: Overlap | None
    step_by_layer: tuple[float | None, ...]
    cross_by_layer: tuple[float | None, ...]


def overlaps(trace: RoutingTrace, requests: list[LayerRequests], scope: Scope) -> Overlaps:
    """`requests` are those of each layer, over the passes through the cache."""
    tokens = _token_by_token(trace, scope)
    by_token = each(lambda index: layer_requests(tokens, index), range(len(tokens.layers)))
    every = np.ones(tokens.steps, np.bool_)
    steps = each(lambda layer: _with_the_one_before(layer, scope.scored), requests)
    neighbours = each(lambda layer: _with_the_one_before(layer, every), by_token)
    crossing = each(lambda pair: _between(*pair), itertools.pairwise(by_token))
    of_steps = _rates(requests, scope.scored)
    of_tokens = _rates(by_token, every)
    return Overlaps(
        step_to_step=_overlap(steps, of_steps, of_steps),
        token_to_token=_overlap(neighbours, of_tokens, of_tokens),
        cross_layer=_overlap(crossing, of_tokens[1:], of_tokens[:-1]),
        step_by_layer=tuple(float(s.mean()) if len(s) else None for s in steps),
        cross_by_layer=(*(float(c.mean()) for c in crossing), None),
    )


def _token_by_token(trace: RoutingTrace, scope: Scope) -> RoutingTrace:
    """The tokens of the scored passes, each a pass of its own."""
    scored = np.zeros(trace.steps, np.bool_)
    scored[np.flatnonzero(scope.cached)[scope.scored]] = True
    chosen = np.repeat(scored, np.diff(trace.step_starts))
    n = int(chosen.sum())
    return replace(
        trace,
        experts=np.ascontiguousarray(trace.experts[:, chosen]),
        step_starts=np.arange(n + 1, dtype=np.int64),
        prefill=np.zeros(n, np.bool_),
        step_ids=np.arange(n, dtype=np.int64),
    )


def _with_the_one_before(layer: LayerRequests, scored: Mask) -> Floats:
    """Share of each scored pass's distinct experts that the pass before asked for too."""
    before = np.append([-1], np.arange(layer.steps - 1))
    return _shares(layer, layer, before)[scored & (before >= 0)]


def _between(above: LayerRequests, below: LayerRequests) -> Floats:
    """Share of each pass's distinct experts that the layer above asked for too."""
    return _shares(below, above, np.arange(below.steps))


def _shares(layer: LayerRequests, other: LayerRequests, pairing: NDArray[np.int64]) -> Floats:
    common = kernels.common_with(
        layer.experts, layer.starts, other.experts, other.starts, pairing, layer.n_experts
    )
    shares: Floats = common / np.diff(layer.starts)
    return shares


def _rates(requests: list[LayerRequests], scored: Mask) -> Floats:
    """How often a scored pass asks for each expert (layers, n_experts)."""
    rates: Floats = np.stack([popularity(layer, scored) for layer in requests]) / scored.sum()
    return rates


def _overlap(shares: list[Floats], ours: Floats, others: Floats) -> Overlap | None:
    """The mean over layers and passes; its error from the spread between windows of time.

    `ours` and `others` are the rates (layers, n_experts) of the sets compared.
    """
    if not shares or not len(shares[0]):  # a single layer, or a single pass
        return None
    per_pass = np.mean(np.stack(shares), axis=0)
    windows = np.array_split(per_pass, min(_WINDOWS, len(per_pass)))
    means = np.array([w.mean() for w in windows])
    return Overlap(
        overlap=float(per_pass.mean()),
        standard_error=float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else None,
        chance_even=float(others.sum(axis=1).mean()) / others.shape[1],
        chance_popularity=float((ours * others).sum() / ours.sum()),
    )
