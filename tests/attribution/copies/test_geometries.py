"""Other geometries than those of the traces, from a model of our own (`simulator`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lanescope.attribution.copies import aggregate, estimate, link, structure
from lanescope.attribution.copies.estimate import Group, Stated
from lanescope.schemas.documents.misses import Interval
from tests.attribution.copies.simulator import Lane, simulate


def _estimate(lane: Lane, stated: Stated | None = None) -> tuple[Group, np.ndarray]:
    copies, memory, counts = simulate(lane)
    found = estimate.groups(copies, memory, np.zeros(len(copies)), stated or Stated())
    assert len(found) == 1
    return found[0], counts.ravel()


def _mean(group: Group) -> Interval:
    every = np.ones(len(group.steps.ns), dtype=bool)
    return aggregate.mean([aggregate.reading(group)], [every])


def _shares(group: Group, counts: np.ndarray) -> tuple[float, float]:
    low, high = group.answer.interval
    exact = float((group.answer.estimate == counts).mean())
    return exact, float(((low <= counts) & (counts <= high)).mean())


#: name -> (lane, least exact share)
LANES = {
    "one verified token": (Lane(routed=4, mean=1.0, layers=12, steps=80), 0.995),
    "four verified tokens": (Lane(routed=16, mean=5.0, layers=48, steps=25), 0.995),
    "field": (
        Lane(
            layers=75, steps=25, routed=16, mean=4.4, row=12 << 20, link=383, programs=768, rate=2,
            latency=2500, noise=0.01, blocks=True,
        ),
        0.995,
    ),
    "rows of 16 MiB": (Lane(row=16 << 20, layers=8), 0.995),
    "hardly a miss": (Lane(mean=0.15), 0.995),
    "hardly a hit": (Lane(mean=7.0), 0.995),
    "never without a miss": (Lane(mean=5.0, never_zero=True), 0.995),
    "link not filled by four rows": (Lane(programs=6), 0.99),
    "link not filled by seven rows": (Lane(programs=3), 0.99),
    "disturbed": (Lane(disturbed=0.6), 0.99),
    "disturbed and not filled": (Lane(disturbed=0.6, programs=6), 0.95),
    "3 % noise": (Lane(noise=0.03), 0.99),
    "slower link, longer latency": (Lane(link=25, latency=6000, empty=2500), 0.995),
    "two tensors": (Lane(ratios=(1.0, 0.5)), 0.99),
    "one tensor": (Lane(ratios=(1.0,)), 0.99),
    "NVLink, 24 rows": (
        Lane(link=383, row=12 << 20, programs=64, rate=3, routed=24, mean=6, layers=30), 0.995
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LANES)
def test_geometries(name: str) -> None:
    lane, least = LANES[name]
    group, counts = _estimate(lane)
    exact, covered = _shares(group, counts)
    assert group.steps.structure.copies == len(lane.ratios)
    assert group.steps.structure.layers == lane.layers
    assert exact >= least
    assert covered >= 0.93
    interval = _mean(group)
    assert interval.low <= counts.mean() <= interval.high


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("programs", [4, 32])
def test_intervals_hold_over_draws(programs: int, seed: int) -> None:
    """Whatever the draw, also where levels run into each other."""
    lane = Lane(
        layers=16, steps=40, programs=programs, noise=0.02 + 0.01 * seed, disturbed=0.3, seed=seed,
        row=(256 << 10) << seed,
    )  # fmt: skip
    group, counts = _estimate(lane)
    _, covered = _shares(group, counts)
    interval = _mean(group)
    assert covered >= 0.93
    assert interval.low <= counts.mean() <= interval.high


#: levels that cannot be told apart: the answer must be bounds, and hold
HOPELESS = {
    "rows too small for the noise": Lane(row=16 << 10, programs=4),
    "a link that nothing fills": Lane(programs=1, noise=0.02, jitter=300.0),
}


@pytest.mark.parametrize("name", HOPELESS)
def test_levels_that_merge_give_bounds(name: str) -> None:
    group, counts = _estimate(HOPELESS[name])
    _, covered = _shares(group, counts)
    interval = _mean(group)
    assert covered >= 0.93
    assert interval.low <= counts.mean() <= interval.high
    assert (group.answer.confidence >= 0.95).mean() < 0.5
    assert group.named.best.spread or group.named.best.probability < 0.9


@pytest.mark.parametrize("merged", [(1, 2), (2, 3), (3, 4), (1, 2, 3), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_levels_merged_on_purpose(merged: tuple[int, ...]) -> None:
    """Surgery: copies of several counts get durations of the lowest of them."""
    lane = Lane(steps=80)
    copies, memory, counts = simulate(lane)
    rng, of_copy = np.random.default_rng(3), np.repeat(counts.ravel(), 4)
    duration = copies.duration_ns.to_numpy().copy()
    for tensor in range(4):
        own = np.arange(len(copies)) % 4 == tensor
        pool = duration[own & (of_copy == merged[0])]
        into = own & np.isin(of_copy, merged)
        duration[into] = rng.choice(pool, into.sum())
    layer = copies.groupby("step").cumcount() // 4  # the pauses no longer tell it
    changed = copies.assign(duration_ns=duration, layer=layer)
    group = estimate.groups(changed, memory, np.zeros(len(copies)), Stated())[0]
    _, covered = _shares(group, counts.ravel())
    interval = _mean(group)
    assert covered >= 0.93
    assert interval.low <= counts.mean() <= interval.high
    assert group.named.best.spread
    inside = np.isin(counts.ravel(), merged)
    assert (group.answer.confidence[inside] < 0.95).mean() > 0.9


def _row_ns(group: Group) -> np.ndarray:
    mass = group.answers[0][1].mass()
    return link.per_row(group.chain, group.named.best.law, mass)


def _slopes(group: Group) -> np.ndarray:
    return link.slopes(group.steps.ns, group.answer, np.ones(len(group.steps.ns), dtype=bool))


def _with(scale: float = 1.0, added: float = 0.0) -> Group:
    copies, memory, _ = simulate(Lane())
    changed = copies.assign(duration_ns=(copies.duration_ns * scale + added).round().astype(int))
    return estimate.groups(changed, memory, np.zeros(len(copies)), Stated())[0]


def test_doubled_rows_double_the_spacing() -> None:
    small, _ = _estimate(Lane())
    large, counts = _estimate(replace(Lane(), row=4 << 20))
    assert _row_ns(large) == pytest.approx(2 * _row_ns(small), rel=0.03)
    assert (large.answer.estimate == counts).mean() >= 0.995


@pytest.mark.parametrize("scale", [0.5, 2.0, 3.0])
def test_scaled_durations_scale_the_rate(scale: float) -> None:
    plain, changed = _with(), _with(scale=scale)
    ratio = _slopes(changed) / _slopes(plain)
    assert ratio == pytest.approx(scale, rel=0.01)
    assert (changed.answer.estimate == plain.answer.estimate).mean() >= 0.995


def test_an_added_constant_moves_the_overhead_only() -> None:
    plain, changed = _with(), _with(added=2_000.0)
    assert (changed.answer.estimate == plain.answer.estimate).mean() >= 0.995
    before, after = (
        link.split(g.steps.ns, g.answer, np.ones(len(g.steps.ns), dtype=bool), g.chain, _row_ns(g))
        for g in (plain, changed)
    )
    n = len(plain.steps.ns)
    assert after.total - before.total == pytest.approx(np.full(4, 2_000.0 * n), rel=1e-9)
    assert after.bytes_ == pytest.approx(before.bytes_, rel=0.005)
    grown = (after.overhead + after.contention) - (before.overhead + before.contention)
    assert grown.sum() == pytest.approx(4 * 2_000.0 * n, rel=0.06)
    assert _slopes(changed) == pytest.approx(_slopes(plain), rel=0.005)


def test_structure_from_layers_and_from_other_kernels() -> None:
    copies, _, _ = simulate(Lane(layers=10, steps=12))
    place = copies.groupby("step").cumcount()
    told = structure.learn(copies.assign(layer=place // 4 + 3), None, None)
    assert (told.copies, told.layers) == (4, 10)
    assert told.basis == "layer ranges of the capture"
    told = structure.learn(copies.assign(between=np.where(place % 4 == 0, 15, 0)), None, None)
    assert (told.copies, told.layers) == (4, 10)
    assert told.basis == "kernels between the copies"


def test_a_step_cut_by_the_edge_keeps_its_whole_layer_steps() -> None:
    copies, _, _ = simulate(Lane(layers=10, steps=12))
    learnt = structure.learn(copies, None, None)
    cut = copies.iloc[:-6]  # the last step ends within a layer-step
    found = structure.assemble(cut, learnt)
    assert found.left_out == 34
    assert len(found.ns) == 11 * 10
    whole = structure.assemble(copies.iloc[:-8], learnt)
    assert whole.left_out == 0
    assert len(whole.ns) == 12 * 10 - 2


def test_contradicting_facts_are_named() -> None:
    copies, memory, _ = simulate(Lane(layers=10, steps=20))
    stated = Stated(tensors=("a", "b", "c"), layers=9, routed_rows=5)
    group = estimate.groups(copies, memory, np.zeros(len(copies)), stated)[0]
    text = " ".join(group.contradictions)
    assert "3 tensors" in text
    assert "9 layers" in text
    assert "5 routed rows" in text


def test_nothing_to_read_is_no_error() -> None:
    copies, memory, _ = simulate(Lane(layers=2, steps=1))
    same = copies.assign(duration_ns=1000)
    found = estimate.groups(same, memory, np.zeros(len(same)), Stated())
    assert all((g.answer.estimate == 0).all() for g in found)
    empty = copies.iloc[:0]
    assert estimate.groups(empty, memory, np.zeros(0), Stated()) == []
    assert isinstance(copies, pd.DataFrame)
