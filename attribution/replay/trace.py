"""A routing trace in memory, and its views that a replay walks over."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.replay.jit import jit
from lanescope.schemas.errors import UsageError

Ids = NDArray[np.uint16]
Ints = NDArray[np.int64]

#: passes of more tokens than this that are prefill read experts from host memory
BYPASS_OVER = 16


@dataclass(frozen=True)
class RoutingTrace:
    """Which experts every token asked for in every cached layer.

    `experts` has shape (layers, tokens, top-k). `step_starts` (steps + 1) holds the first token of
    each pass; the tokens of pass s are `step_starts[s]` to `step_starts[s + 1]` less one.
    `prefill` (steps) marks prefill passes. `layers` are the model's layer numbers.
    `step_ids` are the pass numbers as the file had them.
    """

    experts: Ids
    step_starts: Ints
    prefill: NDArray[np.bool_]
    layers: tuple[int, ...]
    n_experts: int
    step_ids: Ints
    bypass_over: int = BYPASS_OVER
    source: str = ""

    @property
    def tokens(self) -> int:
        """Tokens over all passes."""
        return int(self.experts.shape[1])

    @property
    def top_k(self) -> int:
        """Experts a token asks for in one layer."""
        return int(self.experts.shape[2])

    @property
    def steps(self) -> int:
        """Passes, prefill included."""
        return len(self.step_starts) - 1

    def cached_steps(self) -> NDArray[np.bool_]:
        """The passes that go through the cache: all but prefill over `bypass_over` tokens."""
        return ~(self.prefill & (np.diff(self.step_starts) > self.bypass_over))

    def regrouped(self, tokens_per_step: int) -> RoutingTrace:
        """The same tokens in passes of `tokens_per_step` (the last may be shorter).

        What a longer verification would ask for if every drafted token were accepted. Prefill
        passes cannot be regrouped.
        """
        if tokens_per_step < 1:
            raise UsageError(f"a step of {tokens_per_step} tokens", "give 1 or more")
        if self.prefill.any():
            raise UsageError("the trace has prefill passes, whose tokens cannot be regrouped")
        starts = np.append(np.arange(0, self.tokens, tokens_per_step, dtype=np.int64), self.tokens)
        return replace(
            self,
            step_starts=starts,
            prefill=np.zeros(len(starts) - 1, dtype=np.bool_),
            step_ids=np.arange(len(starts) - 1, dtype=np.int64),
        )

    def every(self, n: int) -> RoutingTrace:
        """A subsample: each n-th verification step alone, no prefill. It breaks the reuse that a
        cache lives from."""
        keep = np.flatnonzero(~self.prefill)[::n]
        lengths = np.diff(self.step_starts)
        chosen = np.repeat(np.isin(np.arange(self.steps), keep), lengths)
        return replace(
            self,
            experts=np.ascontiguousarray(self.experts[:, chosen]),
            step_starts=np.append(0, np.cumsum(lengths[keep])).astype(np.int64),
            prefill=self.prefill[keep],
            step_ids=self.step_ids[keep],
        )


@dataclass(frozen=True)
class LayerRequests:
    """What one layer is asked for, pass by pass, each expert once a pass.

    `experts` holds the distinct experts of all passes that go through the cache, ascending within
    a pass; those of pass s are `starts[s]` to `starts[s + 1]` less one. `routed` are the routed
    rows of each pass (tokens x top-k, repeats counted).
    """

    experts: Ids
    starts: Ints
    routed: Ints
    n_experts: int

    @property
    def steps(self) -> int:
        """Passes that go through the cache."""
        return len(self.starts) - 1

    @property
    def largest(self) -> int:
        """Distinct experts of the widest pass."""
        return int(np.diff(self.starts).max(initial=0))


def layer_requests(trace: RoutingTrace, layer_index: int) -> LayerRequests:
    """The requests of one layer, without the passes that bypass the cache."""
    cached = trace.cached_steps()
    ids = trace.experts[layer_index].reshape(-1)
    starts = trace.step_starts * trace.top_k
    experts, ends = _distinct(ids, starts, cached, trace.n_experts)
    return LayerRequests(
        experts=experts,
        starts=ends,
        routed=np.diff(starts)[cached],
        n_experts=trace.n_experts,
    )


@jit
def _distinct(
    ids: Ids, starts: Ints, cached: NDArray[np.bool_], n_experts: int
) -> tuple[Ids, Ints]:
    """The distinct ids of each pass, ascending, packed; and where each pass begins."""
    steps = len(starts) - 1
    out = np.empty(len(ids), np.uint16)
    ends = np.zeros(cached.sum() + 1, np.int64)
    seen = np.full(n_experts, -1, np.int64)
    n = 0
    kept = 0
    for s in range(steps):
        if not cached[s]:
            continue
        first = n
        for i in range(starts[s], starts[s + 1]):
            expert = ids[i]
            if seen[expert] == s:
                continue
            seen[expert] = s
            j = n
            while j > first and out[j - 1] > expert:
                out[j] = out[j - 1]
                j -= 1
            out[j] = expert
            n += 1
        kept += 1
        ends[kept] = n
    return out[:n].copy(), ends
