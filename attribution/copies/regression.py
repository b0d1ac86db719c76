"""Straight lines through step times: robust within a window, weighted across windows.

Formulas: Huber's M-estimator by reweighted least squares with the scale from the median absolute
residual; standard errors from the HC3 sandwich (MacKinnon and White 1985), or the classical ones
where points are few; t quantiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from lanescope.attribution.copies.mixture import Floats

#: Huber's constant: residuals beyond this many scales are weighed down
HUBER = 1.345
#: residuals beyond this many scales are named
FAR = 4.0
#: with fewer points the classical covariance is used: the sandwich needs many
FEW = 20
#: degrees of freedom from which an expansion stands for the exact quantile
MANY = 50


@dataclass(frozen=True)
class Line:
    """y = beta @ (1, x, further terms). `cov` is the covariance of beta, `dof` its degrees."""

    beta: Floats
    cov: Floats
    dof: int
    r2: float
    rmse: float
    residual: Floats
    scale: float

    def slope(self, level: float = 0.95) -> tuple[float, float, float]:
        """(slope, low, high) of the first term."""
        half = self._t(level) * float(np.sqrt(max(self.cov[1, 1], 0.0)))
        return float(self.beta[1]), float(self.beta[1] - half), float(self.beta[1] + half)

    def at(
        self, terms: Floats, level: float = 0.95, point: bool = False
    ) -> tuple[float, float, float]:
        """(value, low, high) at one set of terms; with `point` for a new point, not the line."""
        row = np.concatenate([[1.0], np.atleast_1d(terms)])
        variance = float(row @ self.cov @ row) + (self.rmse**2 if point else 0.0)
        half = self._t(level) * float(np.sqrt(max(variance, 0.0)))
        value = float(row @ self.beta)
        return value, value - half, value + half

    def _t(self, level: float) -> float:
        return t_quantile(0.5 + level / 2, max(self.dof, 1))


def t_quantile(p: float, dof: int) -> float:
    """Quantile of Student's t distribution.

    From `MANY` degrees on by the expansion about the normal quantile (Abramowitz and Stegun
    26.7.5), good to a millionth; the library for fewer takes longer to load than a fit to make.
    """
    if dof < MANY:
        from scipy.special import stdtrit

        return float(stdtrit(dof, p))
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + sum(float(term / dof**k) for k, term in enumerate(terms, 1))


def fit(x: Floats, y: Floats, weights: Floats | None = None, robust: bool = True) -> Line | None:
    """Fit y on x (n,) or (n, terms). None with fewer than terms + 2 points or no spread in x."""
    x = np.asarray(x, float).reshape(len(y), -1)
    design = np.column_stack([np.ones(len(y)), x])
    n, p = design.shape
    prior = np.ones(n) if weights is None else np.asarray(weights, float) / np.mean(weights)
    if n < p + 1 or np.linalg.matrix_rank(design) < p:
        return None
    w = prior.copy()
    beta = np.zeros(p)
    scale = 0.0
    for _ in range(50 if robust else 1):
        root = np.sqrt(w)[:, None]
        new = np.linalg.lstsq(design * root, y * root[:, 0], rcond=None)[0]
        residual = y - design @ new
        scale = 1.4826 * float(np.median(np.abs(residual)))
        moved = np.abs(new - beta).max()
        beta = new
        if not robust or scale == 0 or moved < 1e-10 * max(1.0, np.abs(beta).max()):
            break
        w = prior * np.minimum(1.0, HUBER * scale / np.maximum(np.abs(residual), 1e-300))
    residual = y - design @ beta
    # the part of the points whose pull still grows with their residual: the slope of Huber's psi
    inside = np.abs(residual) <= HUBER * scale if robust and scale > 0 else np.ones(n, dtype=bool)
    bread = np.linalg.pinv((design * (prior * inside)[:, None]).T @ design)
    if n < FEW:
        left = float((w * prior * residual**2).sum() / prior.mean()) / max(n - p, 1)
        return _line(beta, bread * left, prior, y, residual, p, scale)
    leverage = np.einsum("ij,jk,ik->i", design, bread, design) * prior * inside
    meat = design * (w * residual / np.maximum(1 - leverage, 1e-3))[:, None]
    return _line(beta, bread @ (meat.T @ meat) @ bread, prior, y, residual, p, scale)


def _line(
    beta: Floats, cov: Floats, prior: Floats, y: Floats, residual: Floats, p: int, scale: float
) -> Line:
    """The fit with its R2 and its root mean square error."""
    centre = np.average(y, weights=prior)
    total = float((prior * (y - centre) ** 2).sum())
    left = float((prior * residual**2).sum())
    dof = len(y) - p
    return Line(
        beta,
        cov,
        dof,
        1 - left / total if total else 0.0,
        float(np.sqrt(left / max(dof, 1))),
        residual,
        scale,
    )
