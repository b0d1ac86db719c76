"""Planted structure is found; what cannot be there is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.attribution.replay import kernels
from lanescope.attribution.replay.generate import (
    Recipe,
    expected_overlap,
    expected_pin_hit,
    generate,
)
from lanescope.attribution.replay.policies import layer_misses, policy
from lanescope.attribution.replay.structure import structure
from lanescope.schemas.errors import UnusableInput

from .strategies import passes, requests_of, trace_of

SIZE = {"tokens": 5000, "layers": 4, "experts": 64, "top_k": 4}


def test_uniform_routing_overlaps_by_chance() -> None:
    trace = generate(Recipe(**SIZE))
    found = structure(trace)
    assert found.cross_layer is not None
    for overlap in (found.step_to_step, found.cross_layer):
        assert overlap.chance_even == 4 / 64
        assert overlap.standard_error is not None
        assert abs(overlap.overlap - 4 / 64) < 4 * overlap.standard_error
        assert overlap.chance_popularity == pytest.approx(4 / 64, rel=0.02)
    assert [gap.what for gap in found.abstained] == ["coverage and subsamples"]


@pytest.mark.parametrize("share", [0.1, 0.27, 0.6])
def test_planted_repeats_are_found_step_to_step_and_not_across_layers(share: float) -> None:
    recipe = Recipe(**SIZE, repeat=share)
    found = structure(generate(recipe))
    step, cross = found.step_to_step, found.cross_layer
    assert cross is not None
    assert step.standard_error is not None
    assert cross.standard_error is not None
    assert abs(step.overlap - expected_overlap(recipe, share)) < 4 * step.standard_error
    assert abs(cross.overlap - 4 / 64) < 5 * cross.standard_error


def test_planted_copies_are_found_across_layers_and_not_step_to_step() -> None:
    recipe = Recipe(**SIZE, cross=0.3)
    found = structure(generate(recipe))
    step, cross = found.step_to_step, found.cross_layer
    assert cross is not None
    assert step.standard_error is not None
    assert cross.standard_error is not None
    assert abs(cross.overlap - expected_overlap(recipe, 0.3)) < 4 * cross.standard_error
    assert abs(step.overlap - 4 / 64) < 5 * step.standard_error


def test_popularity_alone_is_told_from_a_signal() -> None:
    """Two tiers, independent tokens: the overlap is above the even chance, and at the other."""
    recipe = Recipe(**SIZE, tiers=((8, 0.5), (56, 0.5)))
    found = structure(generate(recipe)).step_to_step
    # picks of a tier repeat with (picks in it)^2 / its size: 4 x 0.5 each
    expected = (2.0**2 / 8 + 2.0**2 / 56) / 4
    assert found.standard_error is not None
    assert abs(found.overlap - expected) < 4 * found.standard_error
    assert found.chance_popularity == pytest.approx(expected, rel=0.03)
    assert found.chance_even == 4 / 64


def test_expected_overlap_by_hand() -> None:
    """Top-1 of 2: copied with share s, else even: s + (1 - s) / 2."""
    recipe = Recipe(tokens=1, layers=1, experts=2, top_k=1)
    assert expected_overlap(recipe, 0.4) == pytest.approx(0.4 + 0.6 / 2)
    assert expected_overlap(recipe, 0.0) == pytest.approx(0.5)
    assert expected_overlap(recipe, 1.0) == pytest.approx(1.0)


def test_expected_pin_hit_takes_the_popular_first() -> None:
    recipe = Recipe(tokens=1, layers=1, experts=64, top_k=4, tiers=((48, 0.5), (16, 0.5)))
    assert expected_pin_hit(recipe, 8) == pytest.approx(0.25)
    assert expected_pin_hit(recipe, 40) == pytest.approx(0.5 + 0.5 * 24 / 48)


@given(passes(max_width=4), st.integers(4, 12))
def test_the_step_before_predicts_no_lru_miss(steps: list[list[int]], slots: int) -> None:
    """What it asked for is still there. Exactly zero, whatever the trace."""
    found = structure(trace_of(steps, 12), {0: slots})
    by_name = {c.predictor: c for c in found.coverage}
    assert by_name["previous step"].covered == 0
    assert by_name["previous step"].fetched_for_nothing == 0
    assert by_name["oracle"].covered == 1


@given(passes(max_width=4), st.integers(4, 12))
def test_coverage_by_everything_is_the_misses(steps: list[list[int]], slots: int) -> None:
    """All experts predicted for every pass: each miss is covered, and LRU is the one replayed."""
    requests = requests_of(steps, 12)
    scored = np.ones(requests.steps, np.bool_)
    everything = np.tile(np.arange(12, dtype=np.int32), (requests.steps, 1))
    covered, wasted = kernels.lru_covered(
        requests.experts, requests.starts, everything, slots, 12, scored
    )
    misses = layer_misses(requests, policy("lru"), slots, scored)
    assert covered == misses.sum()
    # all that is neither held nor asked for: 12 less held before the pass, less missing
    held = np.minimum(np.cumsum([0, *misses[:-1]]), slots)
    assert wasted == int((12 - held - misses).sum())


def _predictions(path: Path, trace_experts: np.ndarray, shift: int) -> None:
    """The trace's own picks, `shift` steps late, as a predictor file."""
    layers, tokens, _ = trace_experts.shape
    step = np.tile(np.arange(tokens - shift), layers)
    layer = np.repeat(np.arange(layers), tokens - shift)
    picks = trace_experts[:, shift:].reshape(len(step), -1).astype(np.int32)
    names = {f"e{i}": picks[:, i] for i in range(picks.shape[1])}
    pq.write_table(pa.table({"step": step, "layer": layer, **names}), path)


def test_a_predictor_file_is_scored(tmp_path: Path) -> None:
    trace = generate(Recipe(tokens=300, layers=2, experts=32, top_k=4, repeat=0.3))
    slots = dict.fromkeys(trace.layers, 12)
    _predictions(tmp_path / "right.parquet", trace.experts, 0)
    right = structure(trace, slots, predictor=tmp_path / "right.parquet").coverage[1]
    assert (right.covered, right.fetched_for_nothing) == (1, 0)
    _predictions(tmp_path / "early.parquet", trace.experts, 1)
    early = structure(trace, slots, predictor=tmp_path / "early.parquet").coverage[1]
    assert 0 < early.covered < 0.5
    assert early.fetched_for_nothing > 1


def test_predictions_for_another_trace_are_refused(tmp_path: Path) -> None:
    trace = generate(Recipe(tokens=30, layers=2, experts=8, top_k=2))
    longer = generate(Recipe(tokens=31, layers=2, experts=8, top_k=2))
    _predictions(tmp_path / "p.parquet", longer.experts, 0)
    with pytest.raises(UnusableInput, match="step 30, layer 0 is not in the trace"):
        structure(trace, {0: 4, 1: 4}, predictor=tmp_path / "p.parquet")


def test_too_few_slots_for_a_step_abstain() -> None:
    trace = generate(Recipe(tokens=30, layers=2, experts=8, top_k=4))
    found = structure(trace, {0: 3, 1: 8})
    assert found.coverage == ()
    assert [gap.what for gap in found.abstained] == ["coverage"]


def test_working_sets_and_reuse_of_a_cyclic_scan() -> None:
    """Twelve experts in turn: reuse at depth 11, sixteen steps see all twelve."""
    steps = [[e] for _ in range(20) for e in range(12)]
    layer = structure(trace_of(steps)).layers[0]
    assert layer.reuse_p50 == layer.reuse_p90 == 11
    assert layer.never_seen_before == 12
    assert layer.effective_experts == pytest.approx(12)
    assert layer.working_set[:2] == (12, 12)
    assert layer.working_set[3] is None  # shorter than 1,024 steps


def test_a_subsample_loses_the_reuse_that_was_planted() -> None:
    trace = generate(Recipe(tokens=4000, layers=2, experts=64, top_k=4, repeat=0.6))
    whole, half, *_ = structure(trace, dict.fromkeys(trace.layers, 20)).subsamples
    assert (whole.every, half.every) == (1, 2)
    assert half.hit_rate < whole.hit_rate - 0.05


def test_prefill_passes_are_no_part_of_a_subsample() -> None:
    recipe = Recipe(
        tokens=400, layers=2, experts=32, top_k=4, prefill_every=1, prefill_tokens=3, repeat=0.4
    )
    trace = generate(recipe)
    found = structure(trace, dict.fromkeys(trace.layers, 16))
    verified = int((~trace.prefill).sum())
    assert [s.steps for s in found.subsamples] == [
        verified,
        *(-(-verified // n) for n in (2, 4, 8)),
    ]
    assert all(len(layer.reuse_p50_over_time) == 100 for layer in found.layers)


def test_in_steps_of_several_tokens_chance_is_told_for_steps_and_for_tokens() -> None:
    """Even routing, three tokens a step: a step asks for 64 x (1 - (1 - 4/64)^3) experts."""
    found = structure(generate(Recipe(**SIZE, tokens_per_step=3)))
    step, token, cross = found.step_to_step, found.token_to_token, found.cross_layer
    assert step is not None
    assert token is not None
    assert cross is not None
    asked = 1 - (1 - 4 / 64) ** 3
    assert step.chance_even == pytest.approx(asked, rel=0.01)
    assert token.chance_even == cross.chance_even == 4 / 64
    for overlap, chance in ((step, asked), (token, 4 / 64), (cross, 4 / 64)):
        assert overlap.standard_error is not None
        assert abs(overlap.overlap - chance) < 4 * overlap.standard_error + 0.001


def test_planted_repeats_are_found_token_to_token_whatever_the_step() -> None:
    recipe = Recipe(**SIZE, tokens_per_step=2, repeat=0.3)
    found = structure(generate(recipe)).token_to_token
    assert found is not None
    assert found.standard_error is not None
    assert abs(found.overlap - expected_overlap(recipe, 0.3)) < 4 * found.standard_error
