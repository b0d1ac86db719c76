"""Intervals against formulas, full enumeration and published figures."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from lanescope.attribution.lanes.intervals import (
    bootstrap_mean,
    clopper_pearson_upper,
    t_mean,
    with_launches,
)


def test_clopper_pearson_to_the_published_digits() -> None:
    assert clopper_pearson_upper(1, 100) == pytest.approx(0.046559811453539, abs=1e-13)
    assert clopper_pearson_upper(0, 100) == pytest.approx(0.029513049607040, abs=1e-13)


def test_clopper_pearson_is_where_the_binomial_tail_is_five_per_cent() -> None:
    for losses, n in ((0, 7), (1, 100), (3, 20), (19, 20)):
        bound = clopper_pearson_upper(losses, n)
        assert stats.binom.cdf(losses, n, bound) == pytest.approx(0.05, abs=1e-9)
    assert clopper_pearson_upper(5, 5) == 1.0
    for losses, n in ((1, 0), (-1, 5), (6, 5)):
        with pytest.raises(ValueError, match="losses of"):
            clopper_pearson_upper(losses, n)


def test_the_bootstrap_of_few_is_the_enumeration_of_all_resamples() -> None:
    values = np.array([1.0, 4.0, -2.0, 7.5, 0.25])
    means = np.sort([np.mean(pick) for pick in product(values, repeat=5)])
    interval = bootstrap_mean(values)
    at = np.arange(1, len(means) + 1) / len(means)
    assert interval.low == means[np.searchsorted(at, 0.025 - 1e-12)]
    assert interval.high == means[np.searchsorted(at, 0.975 - 1e-12)]


def test_the_bootstrap_of_many_has_a_seed_and_the_right_width() -> None:
    values = np.random.default_rng(5).normal(size=400)
    one, two = bootstrap_mean(values), bootstrap_mean(values)
    assert one == two
    assert "seed" in one.method
    half = 1.96 * values.std() / 20
    assert one.high - one.low == pytest.approx(2 * half, rel=0.05)


def test_the_t_interval_is_the_textbooks() -> None:
    values = np.array([1.3, 2.2, 3.9, 5.5])
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert (t_mean(values).low, t_mean(values).high) == pytest.approx((low, high))


def test_relaunches_widen_the_interval() -> None:
    gains = np.array([4.42, 4.6, 4.55, 4.71])
    still = with_launches(gains, np.array([100.0, 100.0]), np.array([104.5, 104.5]))
    moved = with_launches(gains, np.array([99.5, 100.5]), np.array([104.0, 105.0]))
    assert still.holds(gains.mean())
    assert moved.high - moved.low > 5 * (still.high - still.low)
    with pytest.raises(ValueError, match="twice"):
        with_launches(gains, np.array([100.0]), np.array([104.5]))
