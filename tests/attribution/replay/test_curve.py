"""Curves by stack distance against replays at every size; plans against every division."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.attribution.replay.curve import curves, lru_curves, static_curve
from lanescope.attribution.replay.generate import Recipe, generate
from lanescope.attribution.replay.plan import (
    Limits,
    divide,
    from_hit_curves,
    miss_curves,
    misses_at,
    slots_in,
    uniform,
)
from lanescope.attribution.replay.planning import plan
from lanescope.attribution.replay.policies import replay
from lanescope.schemas.errors import UsageError

from . import reference
from .strategies import misses_of, passes, requests_of


@given(passes())
def test_the_lru_curve_is_the_reference_at_every_size(steps: list[list[int]]) -> None:
    """Sizes too small for a whole pass included."""
    requests = requests_of(steps)
    everything = np.ones(requests.steps, np.bool_)
    (curve,) = lru_curves(requests, [everything])
    expected = [sum(reference.lru(steps, slots)) for slots in range(requests.n_experts + 1)]
    assert curve.tolist() == expected


@given(passes())
def test_halves_of_a_curve_add_up(steps: list[list[int]]) -> None:
    requests = requests_of(steps)
    early = np.arange(requests.steps) < requests.steps // 2
    whole, first, second = lru_curves(requests, [early | ~early, early, ~early])
    assert (first + second == whole).all()


@given(passes())
def test_the_static_curve_is_the_static_replay(steps: list[list[int]]) -> None:
    requests = requests_of(steps)
    curve = static_curve(requests, np.ones(requests.steps, np.bool_))
    expected = [sum(misses_of(steps, "static", slots)) for slots in range(requests.n_experts + 1)]
    assert curve.tolist() == expected


def test_curves_of_a_trace_are_its_replays() -> None:
    recipe = Recipe(tokens=500, layers=2, experts=32, top_k=4, tokens_per_step=2, repeat=0.3)
    trace = generate(recipe)
    found = curves(trace, ["lfu"], warmup=20)
    for i, slots in enumerate(found.points):
        at = dict.fromkeys(trace.layers, slots)
        run, _ = replay(trace, at, ["lru", "static", "lfu"], warmup=20)
        lru, static, lfu = run.policies
        assert found.lru_hit_rate[slots] == pytest.approx(lru.hit_rate, abs=1e-12)
        assert found.static_hit_rate[slots] == pytest.approx(static.hit_rate, abs=1e-12)
        assert found.other_hit_rates["lfu"][i] == pytest.approx(lfu.hit_rate, abs=1e-12)
        assert sum(layer.lru[slots] for layer in found.layers) == lru.misses


CURVE = st.lists(st.integers(0, 50), min_size=4, max_size=6).map(
    lambda drops: np.append(0, np.cumsum(drops))[::-1].astype(float)
)


@given(
    st.lists(CURVE, min_size=1, max_size=4),
    st.integers(0, 20),
    st.integers(0, 2),
    st.integers(1, 2),
)
def test_a_division_is_the_best_of_all(
    rows: list[np.ndarray], budget: int, low: int, granule: int
) -> None:
    width = min(map(len, rows))
    misses = np.stack([row[:width] for row in rows])
    limits = Limits(low, width - 1, granule)
    budget = max(budget, low * len(rows))
    choices = itertools.product(limits.options(), repeat=len(rows))
    best = min(misses_at(misses, slots) for slots in choices if sum(slots) <= budget)
    planned = divide(misses, budget, limits)
    assert sum(planned) <= budget
    assert misses_at(misses, planned) == pytest.approx(best)
    equal = uniform(len(rows), budget, limits)
    assert sum(equal) <= budget
    assert misses_at(misses, planned) <= misses_at(misses, equal) + 1e-12


@given(st.lists(CURVE, min_size=2, max_size=5), st.integers(0, 20))
def test_on_convex_curves_the_greedy_rule_finds_the_same(
    rows: list[np.ndarray], budget: int
) -> None:
    """A slot at a time to the layer that gains most."""
    width = min(map(len, rows))
    convex = [np.append(0, np.cumsum(np.sort(-np.diff(row[:width]))))[::-1] for row in rows]
    misses = np.stack(convex)
    slots = [0] * len(rows)
    for _ in range(min(budget, len(rows) * (width - 1))):
        gains = [
            misses[i, s] - misses[i, s + 1] if s + 1 < width else -1.0 for i, s in enumerate(slots)
        ]
        slots[int(np.argmax(gains))] += 1
    planned = divide(misses, budget, Limits(0, width - 1))
    assert misses_at(misses, planned) == pytest.approx(misses_at(misses, slots))


def test_the_planner_wins_the_known_margin_on_a_skewed_case() -> None:
    """Two layers that ask for 8 of 32 experts and two that ask for all evenly, 16 slots each.

    The narrow layers need 8 slots and never miss again; the wide ones hit in proportion to theirs.
    Uniform 16: wide layers hit 16/32. Planned 8 and 24: they hit 24/32. With top-4 picks the gain
    is 2 of 4 layers x 4 picks x 8/32 = half a miss per layer-step over all four layers.
    """
    narrow = generate(
        Recipe(tokens=6000, layers=2, experts=32, top_k=4, local=1.0, working_set=8, seed=1)
    )
    wide = generate(Recipe(tokens=6000, layers=2, experts=32, top_k=4, seed=2))
    from dataclasses import replace as changed

    trace = changed(
        narrow, experts=np.concatenate([narrow.experts, wide.experts]), layers=(0, 1, 2, 3)
    )
    found = miss_curves(trace, warmup=500)
    limits = Limits(found.largest, 32)
    planned = divide(found.whole, 64, limits)
    assert planned[:2] == [8, 8]
    assert sum(planned[2:]) == 48
    gain = misses_at(found.whole, uniform(4, 64, limits)) - misses_at(found.whole, planned)
    assert gain == pytest.approx(0.5, abs=0.03)


def test_a_budget_below_one_step_is_refused() -> None:
    with pytest.raises(UsageError, match="the budget must be 16 or more"):
        divide(np.ones((2, 20)), 15, Limits(8, 19))


def test_curves_from_points_go_straight_between_them() -> None:
    found = from_hit_curves({3: {4: 0.4, 8: 0.8}, 5: {4: 0.2, 8: 1.0}}, 10.0)
    assert found.layers == (3, 5)
    assert found.whole[0, [0, 2, 4, 6, 8]].tolist() == pytest.approx([10, 8, 6, 4, 2])
    assert found.whole[1, 6] == pytest.approx(4.0)


def test_memory_left_by_the_context_becomes_slots() -> None:
    """249.8 GiB less 24 GiB of KV (98,304 B a token) and a reserve, in rows of 20.25 MiB."""
    hbm, reserve = round(249.8 * 2**30), 80 * 2**30
    row = 21_233_664
    assert slots_in(hbm, reserve, 98_304, 262_144, row) == (hbm - reserve - 24 * 2**30) // row


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_a_planned_map_replays_to_the_misses_it_promised(seed: int, per_step: int) -> None:
    recipe = Recipe(
        tokens=120, layers=3, experts=16, top_k=2, tokens_per_step=per_step, repeat=0.4, seed=seed
    )
    trace = generate(recipe)
    found = miss_curves(trace)
    planned = divide(found.whole, 30, Limits(found.largest, 16))
    run, _ = replay(trace, dict(zip(trace.layers, planned, strict=True)), ["lru"])
    assert run.policies[0].misses_per_layer_step == pytest.approx(misses_at(found.whole, planned))


def test_a_plan_made_of_noise_is_called_one() -> None:
    """Layers that are all alike: what the plan gains on the trace, it does not keep."""
    trace = generate(Recipe(tokens=300, layers=6, experts=32, top_k=2))
    found = miss_curves(trace, warmup=50)
    made = plan(found, "alike", Limits(2, 32), budget=96)
    planned, equal = made.divisions
    assert planned.misses_per_layer_step < equal.misses_per_layer_step
    assert planned.held_out is not None
    assert equal.held_out is not None
    assert planned.held_out >= equal.held_out
    assert [w.code for w in made.warnings] == ["plan-not-held-out"]
