"""The law that the levels of a row copy follow, and its most believable constants.

The time of a copy that moves m rows of one tensor is

    t(m) = latency + per_row * (m ** q + knee ** q) ** (1 / q)        m >= 1

per_row being the row's bytes over the link, `knee` the number of rows needed to fill the link
(below it one row costs almost the same as several), `latency` common to all tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.copies.mixture import Floats

#: latency of a dependent read over a host link plus a launch, ns: centre and spread (log units)
LATENCY_NS, LATENCY_SPREAD = 3000.0, 0.5
#: how sharp the bend at the knee is: centre and spread (log units)
SHARPNESS, SHARPNESS_SPREAD = 4.0, 0.3
#: rows that fill the link: centre and spread (log units)
KNEE, KNEE_SPREAD = 0.5, 2.0
#: the tensors share one link: spread of their rates; and how far these may lie above and below the
#: rate of a plain copy (log units)
RATE_SPREAD, ABOVE_PEAK, BELOW_PEAK = 0.03, 0.02, 0.2
#: how far a level may be from the law: share of its duration, and ns
LAW_SHARE, LAW_NS = 0.03, 150.0
#: bounds of latency (ns) and sharpness; of per_row and knee (log units)
LATENCY_BOUNDS, SHARPNESS_BOUNDS, LOG_BOUNDS = (200.0, 50_000.0), (2.2, 30.0), (-12.0, 25.0)
#: rounds of the search for the constants, and the relative gain that ends it
ROUNDS, GAIN = 60, 1e-9

#: counts of rows: whole numbers, in an array or not
Counted = Sequence[int] | NDArray[Any]


@dataclass(frozen=True)
class Facts:
    """What is known about the lane beside the durations. All optional."""

    routed_rows: int | None = None
    row_bytes: tuple[int, ...] | None = None  # in the order of the tensors
    link_peak: float | None = None  # decimal GB/s of a plain pinned copy


@dataclass(frozen=True)
class Law:
    """Constants of t(m): ns, rows; arrays are (C,)."""

    latency: float
    sharpness: float
    per_row: Floats
    knee: Floats

    def time(self, count: Counted) -> Floats:
        """Duration (ns) of each tensor's copy for counts >= 1: shape (len(count), C)."""
        m = np.asarray(count, dtype=float)[:, None]
        q = self.sharpness
        # the larger of the two is taken out so that no power overflows
        top = np.maximum(m, self.knee)
        bend = top * ((m / top) ** q + (self.knee / top) ** q) ** (1 / q)
        return np.asarray(self.latency + self.per_row * bend)


def fit_law(mu: Floats, count: Counted, facts: Facts) -> tuple[Law, float]:
    """Most believable constants for levels `mu` (K, C; ns) at `count` (K,), and their cost.

    The cost is minus the log of likelihood times priors, up to a constant common to all namings of
    the same clusters.
    """
    tensors, last = mu.shape[1], float(count[-1])
    residuals = _Residuals(mu, np.asarray(count, dtype=float), facts)
    spread = (mu[-1] - mu[0]) / max(last - count[0], 1)
    per_row = np.maximum(spread, mu[-1] / (4 * last) if len(count) > 1 else mu[-1] / last)
    start = np.concatenate([[np.log(LATENCY_NS), np.log(SHARPNESS)], np.log(per_row)])
    ends = [np.log(b) for b in (LATENCY_BOUNDS, SHARPNESS_BOUNDS)]
    ends += [np.array(LOG_BOUNDS)] * (2 * tensors)
    lower, upper = np.array(ends).T
    trials = []
    for knee in (0.4, 3.0):  # two starts: a link that one row fills, and one that it does not
        guess = np.concatenate([start, np.full(tensors, np.log(knee))])
        if knee > last:
            guess[2 : 2 + tensors] = np.log(mu[-1] / knee)
        trials.append(least_squares(residuals, np.clip(guess, lower, upper), lower, upper))
    best, cost = min(trials, key=lambda trial: trial[1])
    return residuals.law(best), cost


class _Residuals:
    """What a choice of constants has against it, in sigmas, with its slopes.

    theta: log latency, log sharpness, log per_row (C), log knee (C).
    """

    def __init__(self, mu: Floats, count: Floats, facts: Facts) -> None:
        self._log_mu, self._count, self._facts = np.log(mu), count[:, None], facts
        self._scale = 1 / np.hypot(LAW_SHARE, LAW_NS / mu)
        self._tensors = mu.shape[1]
        self._prior = self._prior_terms()
        self._log_bytes = None
        if facts.row_bytes is not None:
            self._log_bytes = np.log(np.array(facts.row_bytes, dtype=float))

    def law(self, theta: Floats) -> Law:
        """The law with the constants `theta`."""
        split = 2 + self._tensors
        return Law(
            float(np.exp(theta[0])),
            float(np.exp(theta[1])),
            np.exp(theta[2:split]),
            np.exp(theta[split:]),
        )

    def __call__(self, theta: Floats) -> tuple[Floats, Floats]:
        """Residuals (R,) and their derivatives by theta (R, 2 + 2 C)."""
        parts = [self._levels(theta), self._priors(theta), *self._rates(theta)]
        return np.concatenate([v for v, _ in parts]), np.concatenate([s for _, s in parts])

    def _levels(self, theta: Floats) -> tuple[Floats, Floats]:
        """Log of the law's level over the level seen, and its derivatives: K * C of them."""
        law, m = self.law(theta), self._count
        q, c = law.sharpness, self._tensors
        top = np.maximum(m, law.knee)  # taken out so that no power overflows
        rows, fill = (m / top) ** q, (law.knee / top) ** q
        bend = top * (rows + fill) ** (1 / q)
        time = law.latency + law.per_row * bend
        moving = law.per_row * bend / time
        filling = fill / (rows + fill)
        sharper = (1 - filling) * np.log(m) + filling * np.log(law.knee) - np.log(bend)
        slope = np.zeros((len(m), c, 2 + 2 * c))
        slope[:, :, 0] = law.latency / time
        slope[:, :, 1] = moving * sharper
        each = np.arange(c)
        slope[:, each, 2 + each] = moving
        slope[:, each, 2 + c + each] = moving * filling
        value = (self._log_mu - np.log(time)) * self._scale
        slope *= -self._scale[:, :, None]
        return value.ravel(), slope.reshape(-1, 2 + 2 * c)

    def _prior_terms(self) -> tuple[NDArray[np.int64], Floats, Floats, Floats]:
        """Which constants have a prior, its centres and spreads, and the slopes of these."""
        c = self._tensors
        at = np.array([0, 1, *range(2 + c, 2 + 2 * c)], dtype=np.int64)
        centre = np.log([LATENCY_NS, SHARPNESS, *[KNEE] * c])
        spread = np.array([LATENCY_SPREAD, SHARPNESS_SPREAD, *[KNEE_SPREAD] * c])
        slope = np.zeros((len(at), 2 + 2 * c))
        slope[np.arange(len(at)), at] = 1 / spread
        return at, centre, spread, slope

    def _priors(self, theta: Floats) -> tuple[Floats, Floats]:
        at, centre, spread, slope = self._prior
        return (theta[at] - centre) / spread, slope

    def _rates(self, theta: Floats) -> list[tuple[Floats, Floats]]:
        """With known bytes of a row: equal rates of the tensors, near a plain copy's."""
        if self._log_bytes is None:
            return []
        c = self._tensors
        rate = self._log_bytes - theta[2 : 2 + c]  # log GB/s of each tensor
        slope = np.zeros((c, len(theta)))
        slope[:, 2 : 2 + c] = (1 / c - np.eye(c)) / RATE_SPREAD
        out = [((rate - rate.mean()) / RATE_SPREAD, slope)]
        if self._facts.link_peak:
            over = rate.mean() - np.log(self._facts.link_peak)
            scale = ABOVE_PEAK if over > 0 else BELOW_PEAK
            slope = np.zeros((1, len(theta)))
            slope[0, 2 : 2 + c] = -1 / (c * scale)
            out.append((np.array([over / scale]), slope))
        return out


def least_squares(
    residuals: Callable[[Floats], tuple[Floats, Floats]],
    start: Floats,
    lower: Floats,
    upper: Floats,
) -> tuple[Floats, float]:
    """Minimize half the sum of squares within bounds. Returns the place and the cost there.

    Levenberg and Marquardt's method with the diagonal scaling, projected on the bounds; a
    coordinate that a bound holds leaves the step. Our own for the import it saves: a general
    optimizer takes longer to load than all fits of a trace take together.
    """
    theta, damping = start, 1e-3
    value, slope = residuals(theta)
    cost = 0.5 * float(value @ value)
    for _ in range(ROUNDS):
        gradient = value @ slope
        held = ((theta <= lower) & (gradient > 0)) | ((theta >= upper) & (gradient < 0))
        free = np.flatnonzero(~held)
        if not len(free):
            break
        curve = slope[:, free].T @ slope[:, free]
        lift = np.maximum(curve.diagonal(), 1e-12)
        step = np.zeros(len(theta))
        step[free] = np.linalg.solve(curve + damping * np.diag(lift), -gradient[free])
        moved = np.clip(theta + step, lower, upper)
        new_value, new_slope = residuals(moved)
        new_cost = 0.5 * float(new_value @ new_value)
        if not new_cost < cost:
            damping *= 8
            if damping > 1e12:
                break
            continue
        settled = cost - new_cost <= GAIN * cost
        theta, value, slope, cost = moved, new_value, new_slope, new_cost
        damping = max(damping / 8, 1e-12)
        if settled:
            break
    return theta, cost
