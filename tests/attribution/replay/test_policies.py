"""The compiled loops against the slow reference, and the orders that hold between policies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.attribution.replay import kernels
from lanescope.attribution.replay.generate import Recipe, generate
from lanescope.attribution.replay.jit import COMPILED
from lanescope.attribution.replay.policies import DEFAULT, next_and_first_use, policy, replay
from lanescope.attribution.replay.trace import layer_requests
from lanescope.schemas.errors import UsageError

from . import reference
from .strategies import misses_of, passes, requests_of, trace_of

SLOTS = st.integers(0, 12)


@given(passes(), SLOTS)
def test_lru_is_the_reference(steps: list[list[int]], slots: int) -> None:
    slots = min(slots, max(map(max, steps)) + 1)
    assert misses_of(steps, "lru", slots) == reference.lru(steps, slots)


@given(passes(), SLOTS)
def test_lfu_is_the_reference(steps: list[list[int]], slots: int) -> None:
    slots = min(slots, max(map(max, steps)) + 1)
    assert misses_of(steps, "lfu", slots) == reference.lfu(steps, slots)


@given(passes(), SLOTS, st.sampled_from([0, 20, 50, 80, 100]))
def test_slru_is_the_reference(steps: list[list[int]], slots: int, share: int) -> None:
    slots = min(slots, max(map(max, steps)) + 1)
    expected = reference.slru(steps, slots, int(share / 100 * slots))
    assert misses_of(steps, f"slru{share}", slots) == expected


@given(passes(), SLOTS, st.sampled_from([0, 25, 50, 75, 100]))
def test_pins_are_the_reference(steps: list[list[int]], slots: int, share: int) -> None:
    slots = min(slots, max(map(max, steps)) + 1)
    assert misses_of(steps, f"pin{share}", slots) == reference.pinned(steps, slots, share / 100)


@settings(max_examples=60)
@given(passes(max_experts=6, max_steps=9, max_width=4), st.integers(0, 6))
def test_belady_is_the_optimum_found_by_trying_everything(
    steps: list[list[int]], slots: int
) -> None:
    slots = min(slots, max(map(max, steps)) + 1)
    assert sum(misses_of(steps, "belady", slots)) == reference.fewest_misses(steps, slots, False)
    best = reference.fewest_misses(steps, slots, True)
    assert sum(misses_of(steps, "belady-demand", slots)) == best


@given(passes(), SLOTS)
def test_no_policy_beats_belady(steps: list[list[int]], slots: int) -> None:
    bound = sum(misses_of(steps, "belady", slots))
    demand = sum(misses_of(steps, "belady-demand", slots))
    assert bound <= demand
    for name in ("lru", "slru80", "slru30", "lfu", "random"):
        assert sum(misses_of(steps, name, slots)) >= demand
    for name in ("static", "pin25", "pin50", "pin75"):
        assert sum(misses_of(steps, name, slots)) >= bound


@given(passes(), SLOTS)
def test_more_slots_never_miss_more(steps: list[list[int]], slots: int) -> None:
    """Pass by pass: a larger LRU cache holds all that a smaller one holds."""
    for name in ("lru", "lfu", "static"):
        small = misses_of(steps, name, slots)
        large = misses_of(steps, name, slots + 1)
        assert all(a >= b for a, b in zip(small, large, strict=True))


@given(passes(max_experts=7), st.integers(0, 7))
def test_static_is_the_best_of_all_static_choices(steps: list[list[int]], slots: int) -> None:
    experts = range(max(map(max, steps)) + 1)
    slots = min(slots, len(experts))
    every = (
        sum(len(set(ids) - set(choice)) for ids in steps)
        for choice in itertools.combinations(experts, slots)
    )
    assert sum(misses_of(steps, "static", slots)) == min(every)


@pytest.mark.parametrize(
    ("layers", "experts", "top_k", "slots"),
    [(3, 64, 4, 32), (2, 64, 4, 20), (2, 256, 8, 96), (4, 32, 2, 5)],
)
@pytest.mark.parametrize("k", [0, 1, 2])
def test_lru_equals_the_reference_in_every_layer_step(
    layers: int, experts: int, top_k: int, slots: int, k: int
) -> None:
    recipe = Recipe(
        tokens=600, layers=layers, experts=experts, top_k=top_k, tokens_per_step=k + 1,
        repeat=0.27, tiers=((experts // 4, 0.5), (experts - experts // 4, 0.5)), seed=k,
    )  # fmt: skip
    trace = generate(recipe)
    _, misses = replay(trace, dict.fromkeys(trace.layers, slots), ["lru"], keep="lru")
    assert misses is not None
    for index in range(layers):
        ids = trace.experts[index]
        bounds = itertools.pairwise(trace.step_starts)
        steps = [ids[a:b].reshape(-1).tolist() for a, b in bounds]
        assert misses[index].tolist() == reference.lru(steps, slots)


def test_a_cyclic_scan_over_one_more_expert_than_slots() -> None:
    """LRU never hits; the optimum that keeps what it fetched misses once in `slots` requests."""
    slots, laps = 7, 9
    steps = [[e] for _ in range(laps) for e in range(slots + 1)]
    assert misses_of(steps, "lru", slots) == [1] * len(steps)
    demand = sum(misses_of(steps, "belady-demand", slots))
    assert demand == slots + 1 + (len(steps) - slots - 1) // slots
    # free to start full and to use a row without keeping it: one miss a lap, like the best pin
    assert sum(misses_of(steps, "belady", slots)) == laps
    assert sum(misses_of(steps, "static", slots)) == laps


def test_uniform_routing_hits_in_proportion_to_the_slots() -> None:
    trace = generate(Recipe(tokens=6000, layers=4, experts=64, top_k=4))
    for slots in (16, 32, 48):
        found, _ = replay(trace, dict.fromkeys(trace.layers, slots), warmup=600)
        rates = {p.policy: p.hit_rate for p in found.policies}
        for name in ("lru", "lfu", "random", "slru80", "pin50"):
            # hits of a step: variance below that of 4 independent draws
            error = 4 * np.sqrt(0.25 / found.trace.routed_rows)
            slack = 0.02 if name == "pin50" else 0.0  # hindsight wins a little even on noise
            assert -error < rates[name] - slots / 64 < error + slack


def test_a_static_pin_meets_its_closed_form() -> None:
    """Tiers of 16 experts with half the picks and 48 with the rest, 24 slots."""
    trace = generate(
        Recipe(tokens=8000, layers=3, experts=64, top_k=4, tiers=((16, 0.5), (48, 0.5)))
    )
    found, _ = replay(trace, dict.fromkeys(trace.layers, 24), ["static"])
    expected = 0.5 + 0.5 * 8 / 48
    error = 4 * np.sqrt(0.25 / found.trace.routed_rows)
    assert abs(found.policies[0].hit_rate - expected) < error + 0.01


def test_prefill_over_the_bypass_leaves_the_cache_alone() -> None:
    """A long prefill pass between two steps changes nothing; a short one is counted apart."""
    base = generate(Recipe(tokens=400, layers=2, experts=32, top_k=4))
    slots = dict.fromkeys(base.layers, 12)
    for size, bypassed in ((17, True), (16, False)):
        recipe = Recipe(
            tokens=400, layers=2, experts=32, top_k=4, prefill_tokens=size, prefill_every=20
        )
        trace = generate(recipe)
        found, misses = replay(trace, slots, ["lru"], keep="lru")
        assert misses is not None
        assert (found.trace.bypassed_passes > 0) == bypassed
        assert (found.policies[0].prefill_misses > 0) != bypassed
        passes_ = [
            trace.experts[0, a:b].reshape(-1).tolist()
            for (a, b), skip in zip(
                itertools.pairwise(trace.step_starts), ~trace.cached_steps(), strict=True
            )
            if not skip
        ]
        assert misses[0].tolist() == reference.lru(passes_, 12)
        scored = ~trace.prefill[trace.cached_steps()]
        assert found.policies[0].misses == int(misses[:, scored].sum())


@settings(max_examples=40)
@given(passes(max_experts=5, max_steps=8, max_width=3), st.integers(1, 4), st.integers(0, 5))
def test_belady_bounds_the_scored_steps_alone(
    steps: list[list[int]], slots: int, warmup: int
) -> None:
    """With a warm-up that costs nothing, the bound is over what is left."""
    warmup = min(warmup, len(steps) - 1)
    found, _ = replay(trace_of(steps), {0: slots}, DEFAULT, warmup)
    by_name = {p.policy: p.misses for p in found.policies}
    assert by_name["belady"] == min(by_name.values())
    free = reference.fewest_misses(steps, slots, False, warmup)
    assert by_name["belady"] == free


def test_distinct_experts_ascend_within_a_pass() -> None:
    trace = generate(Recipe(tokens=99, layers=1, experts=16, top_k=4, tokens_per_step=3))
    requests = layer_requests(trace, 0)
    for s, (a, b) in enumerate(itertools.pairwise(requests.starts)):
        ids = trace.experts[0, 3 * s : 3 * s + 3].reshape(-1)
        assert requests.experts[a:b].tolist() == sorted(set(ids.tolist()))


@pytest.mark.parametrize("name", ["", "pin", "pin101", "lru2", "optimal"])
def test_an_unknown_policy_is_named(name: str) -> None:
    with pytest.raises(UsageError, match="no policy"):
        policy(name)


@pytest.mark.skipif(not COMPILED, reason="numba is not installed: nothing is compiled")
@given(passes(), SLOTS, st.integers(0, 5), st.integers(0, 2**62))
def test_compiled_loops_are_the_python_they_were_made_from(
    steps: list[list[int]], slots: int, which: int, seed: int
) -> None:
    """Random eviction included: the same seed gives the same victims with and without numba."""
    requests = requests_of(steps)
    scored = np.ones(requests.steps, np.bool_)
    uses = next_and_first_use(requests, scored)
    pinned = np.zeros(requests.n_experts, np.bool_)
    args = (which, requests.experts, requests.starts, *uses, pinned, slots, slots // 2, seed)
    compiled = kernels.replay_policy(*args)
    plain = kernels.replay_policy.py_func(*args)  # type: ignore[attr-defined]
    assert compiled.tolist() == plain.tolist()
