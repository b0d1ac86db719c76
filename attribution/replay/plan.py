"""Dividing slots over layers, and memory over slots and context.

Expected misses add up over layers and a layer's depend on its own slots alone, so the best division
is found exactly, by dynamic programming over the layers. (The greedy rule, a slot at a time to the
layer that gains most, is exact on convex curves only; measured ones have bumps.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.replay.curve import lru_curves
from lanescope.attribution.replay.jit import each
from lanescope.attribution.replay.policies import Scope
from lanescope.attribution.replay.trace import RoutingTrace, layer_requests
from lanescope.schemas.errors import UsageError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MissCurves:
    """Expected misses per step of each layer (layers, slots + 1), and of each half of the trace.

    `first` and `second` are over the first and the second half of the scored steps: a division
    planned on one and scored on the other shows what it is worth on traffic it has not seen.
    They are empty where only the whole is known (curves read from a file).
    """

    layers: tuple[int, ...]
    whole: Floats
    first: Floats
    second: Floats
    #: distinct experts of the widest step: fewer slots cannot hold a step
    largest: int
    routed_per_layer_step: float


@dataclass(frozen=True)
class Limits:
    """What a layer may get: from `low` to `high` slots, in multiples of `granule` above `low`."""

    low: int
    high: int
    granule: int = 1

    def options(self) -> list[int]:
        """The slot counts that a layer may get."""
        if not 0 <= self.low <= self.high or self.granule < 1:
            raise UsageError(
                f"slots per layer from {self.low} to {self.high} by {self.granule}",
                "the smallest must not exceed the largest",
            )
        return list(range(self.low, self.high + 1, self.granule))


def miss_curves(trace: RoutingTrace, warmup: int = 0) -> MissCurves:
    """The LRU curves of a trace, as misses per scored step."""
    scope = Scope.of(trace, warmup)
    order = np.cumsum(scope.scored)
    early = scope.scored & (order <= order[-1] // 2)
    masks = [scope.scored, early, scope.scored & ~early]

    def one(index: int) -> tuple[list[Floats], int]:
        requests = layer_requests(trace, index)
        found = lru_curves(requests, masks)
        return [c / max(1, m.sum()) for c, m in zip(found, masks, strict=True)], requests.largest

    by_layer = each(one, range(len(trace.layers)))
    whole, first, second = (np.stack([layer[0][i] for layer in by_layer]) for i in range(3))
    lengths = np.diff(trace.step_starts)[scope.cached][scope.scored]
    return MissCurves(
        trace.layers,
        whole,
        first,
        second,
        max(layer[1] for layer in by_layer),
        float(lengths.mean()) * trace.top_k,
    )


def divide(misses: Floats, budget: int, limits: Limits) -> list[int]:
    """Slots per layer with the fewest misses in sum, at most `budget` of them; exact.

    `misses` has shape (layers, slots + 1). Among equals, later layers get fewer.
    """
    options = np.array(limits.options(), np.int64)
    n_layers = len(misses)
    spare = _granules(n_layers, budget, limits)
    cost = misses[:, options]
    best = np.zeros(spare + 1)  # fewest misses of the layers so far with up to i granules
    took = np.zeros((n_layers, spare + 1), np.int32)
    for layer in range(n_layers):
        total = np.full(spare + 1, np.inf)
        for granules in range(min(len(options), spare + 1)):
            with_it = best[: spare + 1 - granules] + cost[layer, granules]
            better = with_it < total[granules:] - 1e-12
            total[granules:][better] = with_it[better]
            took[layer, granules:][better] = granules
        best = total
    slots = []
    left = spare
    for layer in range(n_layers - 1, -1, -1):
        granules = int(took[layer, left])
        left -= granules
        slots.append(int(options[granules]))
    return slots[::-1]


def _granules(n_layers: int, budget: int, limits: Limits) -> int:
    """How many granules there are to give beyond the least that every layer gets."""
    spare = (budget - n_layers * limits.low) // limits.granule
    if spare < 0:
        raise UsageError(
            f"{budget} slots for {n_layers} layers of at least {limits.low}",
            f"the budget must be {n_layers * limits.low} or more",
        )
    return min(spare, n_layers * (len(limits.options()) - 1))


def uniform(n_layers: int, budget: int, limits: Limits) -> list[int]:
    """The budget in equal parts, as far as granules allow; the first layers get what is left."""
    options = limits.options()
    each_, left = divmod(_granules(n_layers, budget, limits), n_layers)
    return [options[each_ + (1 if i < left else 0)] for i in range(n_layers)]


def misses_at(misses: Floats, slots: Sequence[int]) -> float:
    """Misses per layer-step of a slot map."""
    counts = np.minimum(np.array(slots), misses.shape[1] - 1)
    return float(misses[np.arange(len(slots)), counts].mean())


def from_hit_curves(
    curves: Mapping[int, Mapping[int, float]], routed_per_layer_step: float
) -> MissCurves:
    """Curves given as hit rate by slot count at some counts, straight lines between them.

    Below the first count the line goes to no hits at no slots; beyond the last it stays.
    """
    layers = tuple(sorted(curves))
    largest = max(max(points) for points in curves.values())
    rows = []
    for layer in layers:
        at = sorted(curves[layer])
        hits = np.interp(np.arange(largest + 1), [0, *at], [0.0, *(curves[layer][s] for s in at)])
        rows.append((1 - hits) * routed_per_layer_step)
    nothing = np.zeros((0, 0))
    return MissCurves(layers, np.stack(rows), nothing, nothing, 0, routed_per_layer_step)


def slots_in(hbm: int, reserve: int, kv_per_token: int, context: int, row_bytes: int) -> int:
    """Expert rows that fit the device memory that the reserve and the KV cache leave."""
    return (hbm - reserve - kv_per_token * context) // row_bytes
