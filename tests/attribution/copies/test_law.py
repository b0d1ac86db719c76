"""The fit of the law: its slopes, its optimum, its bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares

from lanescope.attribution.copies import law
from lanescope.attribution.copies.law import Facts, Law


def _levels(seed: int) -> tuple[np.ndarray, np.ndarray, Facts]:
    """Levels of a law with planted constants, 2 % beside it, and what is known of the lane."""
    rng = np.random.default_rng(seed)
    tensors, count = int(rng.integers(1, 4)), np.cumsum(rng.integers(1, 3, rng.integers(2, 12)))
    per_row = rng.uniform(200, 90_000, tensors)
    knee = np.exp(rng.normal(-0.5, 1, tensors))
    planted = Law(float(rng.uniform(1000, 8000)), float(rng.uniform(2.5, 8)), per_row, knee)
    mu = planted.time(count) * np.exp(rng.normal(0, 0.02, (len(count), tensors)))
    size = tuple(int(x) for x in per_row * 400) if seed % 2 else None
    return mu, count, Facts(None, size, 400.0 if seed % 4 == 1 else None)


def _one(mu: np.ndarray, count: np.ndarray, facts: Facts) -> Callable[[np.ndarray], Any]:
    """Residuals and slopes of one choice of constants."""
    all_of_them = law._Residuals(mu, count.astype(float)[None], facts)

    def residuals(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = all_of_them(theta[None], np.array([0]))
        return value[0], slope[0]

    return residuals


@given(st.integers(0, 10_000))
def test_slopes_are_those_of_the_residuals(seed: int) -> None:
    mu, count, facts = _levels(seed)
    residuals = _one(mu, count, facts)
    theta = np.concatenate([[8.0, 1.3], np.log(mu[-1] / count[-1]), np.full(mu.shape[1], -0.6)])
    _, slope = residuals(theta)
    for at in range(len(theta)):
        step = np.zeros(len(theta))
        step[at] = 1e-5
        numeric = (residuals(theta + step)[0] - residuals(theta - step)[0]) / 2e-5
        assert slope[:, at] == pytest.approx(numeric, rel=1e-4, abs=1e-5)


@given(st.integers(0, 10_000))
def test_no_worse_than_a_general_optimizer(seed: int) -> None:
    mu, count, facts = _levels(seed)
    found, cost = law.fit_law(mu, count, facts)
    residuals = _one(mu, count, facts)
    constants = [[found.latency, found.sharpness], found.per_row, found.knee]
    start = np.log(np.concatenate(constants))
    lower = np.array([np.log(200.0), np.log(2.2), *[-12.0] * (2 * mu.shape[1])])
    upper = np.array([np.log(50_000.0), np.log(30.0), *[25.0] * (2 * mu.shape[1])])
    start = np.clip(start, lower + 1e-9, upper - 1e-9)
    other = least_squares(lambda t: residuals(t)[0], start, bounds=(lower, upper), max_nfev=200)
    assert cost <= other.cost + 0.01


@given(st.integers(0, 10_000))
def test_together_as_alone(seed: int) -> None:
    """A search does not depend on those beside it."""
    mu, count, facts = _levels(seed)
    counts = [count + more for more in range(4)]
    for (_, cost), other in zip(law.fit_laws(mu, counts, facts), counts, strict=True):
        assert cost == pytest.approx(law.fit_law(mu, other, facts)[1], rel=1e-6)


def test_bounds_hold() -> None:
    """Levels with no latency at all push it to its bound, not beyond."""
    count = np.arange(1, 9)
    found, _ = law.fit_law(np.outer(count, [10.0, 20.0]), count, Facts())
    assert found.latency >= 200 * (1 - 1e-12)
