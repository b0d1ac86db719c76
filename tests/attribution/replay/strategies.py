"""Inputs for property tests: passes of one layer, and the product's own view of them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from lanescope.attribution.replay.policies import layer_misses, policy
from lanescope.attribution.replay.trace import LayerRequests, RoutingTrace, layer_requests


def passes(max_experts: int = 12, max_steps: int = 40, max_width: int = 6) -> st.SearchStrategy:
    """Lists of passes; ids may repeat within a pass, passes may have different widths."""
    return st.integers(1, max_experts).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, n - 1), min_size=1, max_size=max_width),
            min_size=1,
            max_size=max_steps,
        )
    )


def trace_of(steps: list[list[int]], n_experts: int | None = None) -> RoutingTrace:
    """One layer, top-1: a pass of n ids is a pass of n tokens."""
    flat = [e for ids in steps for e in ids]
    return RoutingTrace(
        experts=np.array(flat, np.uint16).reshape(1, -1, 1),
        step_starts=np.append(0, np.cumsum([len(ids) for ids in steps])).astype(np.int64),
        prefill=np.zeros(len(steps), np.bool_),
        layers=(0,),
        n_experts=n_experts or max(flat) + 1,
        step_ids=np.arange(len(steps), dtype=np.int64),
    )


def requests_of(steps: list[list[int]], n_experts: int | None = None) -> LayerRequests:
    return layer_requests(trace_of(steps, n_experts), 0)


def misses_of(
    steps: list[list[int]], name: str, slots: int, n_experts: int | None = None
) -> list[int]:
    requests = requests_of(steps, n_experts)
    scored = np.ones(requests.steps, np.bool_)
    return list(layer_misses(requests, policy(name), slots, scored))
