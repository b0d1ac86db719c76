"""The step bootstrap: exact where it must be, and its intervals hold."""

from __future__ import annotations

import numpy as np
import pytest

from lanescope.attribution.lanes.bootstrap import Series, compare, long_run


def ar(rng: np.random.Generator, requests: int, steps: int, rho: float, skew: bool) -> np.ndarray:
    """requests x steps of AR(1) noise, variance 1, normal or lognormal innovations."""
    noise = rng.normal(size=(requests, steps + 40))
    if skew:
        noise = (np.exp(0.8 * noise) - np.exp(0.32)) / np.sqrt((np.exp(0.64) - 1) * np.exp(0.64))
    out = np.empty_like(noise)
    out[:, 0] = noise[:, 0]
    for i in range(1, noise.shape[1]):
        out[:, i] = rho * out[:, i - 1] + np.sqrt(1 - rho**2) * noise[:, i]
    return out[:, 40:]


def series(values: np.ndarray) -> Series:
    return Series(values.reshape(-1, 1), (values.shape[1],) * values.shape[0])


def test_a_lane_against_itself_is_exactly_zero() -> None:
    a = series(ar(np.random.default_rng(1), 4, 35, 0.5, True))
    [d] = compare(a, a, paired=True)
    assert (d.delta, d.low, d.high, d.median_delta, d.p, d.p_family) == (0, 0, 0, 0, 1, 1)
    assert not d.sure()


def test_a_constant_shift_is_certain_and_exact() -> None:
    a = series(np.arange(40.0).reshape(4, 10))
    b = Series(a.values + 2.5, a.lengths)
    [d] = compare(a, b, paired=True)
    assert (d.delta, d.low, d.high, d.median_delta) == (2.5, 2.5, 2.5, 2.5)
    assert d.sure()


def test_the_same_numbers_twice() -> None:
    rng = np.random.default_rng(2)
    a, b = series(ar(rng, 4, 35, 0.3, True)), series(ar(rng, 5, 20, 0.3, True))
    assert compare(a, b, paired=False) == compare(a, b, paired=False)


def test_the_long_run_variance_of_an_autoregression() -> None:
    # sum of autocovariances of AR(1) with variance 1: (1 + rho) / (1 - rho)
    rng = np.random.default_rng(3)
    for rho in (-0.3, 0.0, 0.5, 0.8):
        many = series(ar(rng, 300, 60, rho, False))
        variance, _, _ = long_run(many)
        assert variance[0] == pytest.approx((1 + rho) / (1 - rho), rel=0.1)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("rho", "skew"), [(0.0, True), (0.6, False), (0.6, True)])
def test_intervals_hold_and_no_change_is_rarely_called_one(
    paired: bool, rho: float, skew: bool
) -> None:
    rng = np.random.default_rng(11)
    trials, held, called = 250, 0, 0
    for _ in range(trials):
        a, b = ar(rng, 4, 35, rho, skew), ar(rng, 4, 35, rho, skew) + 0.7
        [d] = compare(series(a), series(b), paired, resamples=300, medians=False)
        held += d.low <= 0.7 <= d.high
        [same] = compare(series(a), series(b - 0.7), paired, resamples=300, medians=False)
        called += same.sure()
    # 93 to 97 % less three standard errors of 250 trials; `benchmarks coverage` runs thousands
    assert 0.93 - 0.05 <= held / trials <= 1.0
    assert called / trials <= 0.06 + 0.045


def test_the_family_is_corrected_for() -> None:
    rng = np.random.default_rng(7)
    called = 0
    for _ in range(100):
        a = np.stack([ar(rng, 4, 35, 0.3, False).ravel() for _ in range(12)], axis=1)
        b = np.stack([ar(rng, 4, 35, 0.3, False).ravel() for _ in range(12)], axis=1)
        found = compare(
            Series(a, (35,) * 4), Series(b, (35,) * 4), True, resamples=300, medians=False
        )
        called += any(d.sure() for d in found)
    assert called / 100 <= 0.06 + 3 * np.sqrt(0.06 * 0.94 / 100)


def test_ragged_requests_and_very_short_ones() -> None:
    rng = np.random.default_rng(8)
    ragged = Series(rng.normal(size=(10, 2)), (1, 2, 7))
    both = compare(ragged, Series(rng.normal(size=(3, 2)), (1, 1, 1)), paired=False)
    assert all(np.isfinite([d.low, d.high, d.median_low, d.median_high]).all() for d in both)
    with pytest.raises(ValueError, match="belong"):
        Series(np.zeros((3, 1)), (1, 1))
    with pytest.raises(ValueError, match="paired"):
        compare(ragged, Series(rng.normal(size=(3, 2)), (3,)), paired=True)
