"""Densities looked up by duration are the densities worked out for every copy."""

from __future__ import annotations

import numpy as np
import pytest

from lanescope.attribution.copies import counts
from lanescope.attribution.copies.counts import Chain, Observed


def observed(rng: np.random.Generator, n: int) -> Observed:
    """Layer-steps of three tensors; some copies are missing, beside kernels, or share the link."""
    ns = rng.integers(3_000, 9_000, size=(n, 3)).astype(float)
    ns[rng.random((n, 3)) < 0.01] = np.nan
    link = np.where(rng.random((n, 3)) < 0.02, rng.random((n, 3)), 0.0)
    busy = np.where(rng.random((n, 3)) < 0.2, rng.random((n, 3)), 0.0)
    return Observed(np.log(ns), link, busy, rng.integers(0, 5, n))


def chain(rng: np.random.Generator) -> Chain:
    """Five levels, a mix of its own for each of five layers."""
    mix = rng.random((5, 5)) + 0.05
    return Chain(
        mu=np.log(np.linspace(3_000, 9_000, 5))[:, None] + np.array([0.0, 0.02, -0.03]),
        sigma=np.full((5, 3), 0.02),
        mix=mix / mix.sum(axis=1, keepdims=True),
        stretch=np.full((5, 3), 2.0),
        stretch_sigma=np.full((5, 3), 0.35),
        seen=np.full(5, 100.0),
        group=np.arange(5),
    )


@pytest.mark.parametrize("longest", [counts.LONGEST_LOOKED_UP, 1])  # by place, and by sorting
def test_as_worked_out(monkeypatch: pytest.MonkeyPatch, longest: int) -> None:
    rng = np.random.default_rng(0)
    seen, levels = observed(rng, counts.LOOK_UP_FROM + 4_001), chain(rng)
    monkeypatch.setattr(counts, "LONGEST_LOOKED_UP", longest)
    assert counts._LookUp.of(seen, levels) is not None
    looked_up = counts.count(seen, levels)
    monkeypatch.setattr(counts, "LOOK_UP_FROM", len(seen.log_ns) + 1)
    worked_out = counts.count(seen, levels)
    np.testing.assert_array_equal(looked_up.share, worked_out.share)
    np.testing.assert_allclose(looked_up.disturbed, worked_out.disturbed, atol=1e-12)
    np.testing.assert_array_equal(looked_up.estimate, worked_out.estimate)
