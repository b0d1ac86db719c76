"""Quantiles against the library's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from lanescope.attribution.copies import regression


@given(st.floats(0.5, 0.999), st.integers(1, 100_000))
def test_t_quantiles(p: float, dof: int) -> None:
    assert regression.t_quantile(p, dof) == pytest.approx(
        float(stdtrit(dof, p)), rel=2e-6, abs=1e-9
    )
