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


def fit_laws(mu: Floats, counts: Sequence[Counted], facts: Facts) -> list[tuple[Law, float]]:
    """The most believable constants of levels `mu` (K, C; ns) at each of `counts`, and their cost.

    The cost is minus the log of likelihood times priors, up to a constant common to all namings of
    the same clusters. All are searched for at once: the arrays are small, a call costs more.
    """
    tensors = mu.shape[1]
    ends = [np.log(b) for b in (LATENCY_BOUNDS, SHARPNESS_BOUNDS)]
    ends += [np.array(LOG_BOUNDS)] * (2 * tensors)
    lower, upper = np.array(ends).T
    # two starts: a link that one row fills, and one that it does not
    starts = [_start(mu, count, knee) for count in counts for knee in (0.4, 3.0)]
    residuals = _Residuals(mu, np.repeat(np.asarray(counts, dtype=float), 2, axis=0), facts)
    places, costs = least_squares(residuals, np.clip(starts, lower, upper), lower, upper)
    best = 2 * np.arange(len(counts)) + (costs[1::2] < costs[::2])
    return [(_law_of(places[b]), float(costs[b])) for b in best]


def fit_law(mu: Floats, count: Counted, facts: Facts) -> tuple[Law, float]:
    """`fit_laws` for one naming of the levels."""
    return fit_laws(mu, [count], facts)[0]


def _start(mu: Floats, count: Counted, knee: float) -> Floats:
    """Constants near those of levels `mu` at `count`, by eye."""
    tensors, last = mu.shape[1], float(count[-1])
    spread = (mu[-1] - mu[0]) / max(last - count[0], 1)
    per_row = np.maximum(spread, mu[-1] / (4 * last) if len(count) > 1 else mu[-1] / last)
    if knee > last:
        per_row = mu[-1] / knee
    constants = [[LATENCY_NS, SHARPNESS], per_row, np.full(tensors, knee)]
    return np.asarray(np.log(np.concatenate(constants)))


def _law_of(theta: Floats) -> Law:
    """The law with the constants `theta` (2 + 2 C,): log latency, sharpness, per_row, knee."""
    split = 2 + (len(theta) - 2) // 2
    latency, sharpness = np.exp(theta[:2])
    return Law(float(latency), float(sharpness), np.exp(theta[2:split]), np.exp(theta[split:]))


class _Residuals:
    """What choices of constants have against them, in sigmas, with the slopes.

    B choices at once, each at counts of its own. theta (B, 2 + 2 C): log latency, log sharpness,
    log per_row (C), log knee (C).
    """

    def __init__(self, mu: Floats, count: Floats, facts: Facts) -> None:
        """`mu` (K, C) are the levels of all, `count` (B, K) what they stand for."""
        self._log_mu, self._count, self._facts = np.log(mu), count[:, :, None], facts
        self._scale = 1 / np.hypot(LAW_SHARE, LAW_NS / mu)
        self._tensors = mu.shape[1]
        self._prior = self._prior_terms()
        self._log_bytes = None
        if facts.row_bytes is not None:
            self._log_bytes = np.log(np.array(facts.row_bytes, dtype=float))

    def __call__(self, theta: Floats, which: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Residuals (W, R) of the choices `which` and derivatives by theta (W, R, 2 + 2 C)."""
        parts = [self._levels(theta, which), self._priors(theta), *self._rates(theta)]
        return (
            np.concatenate([v for v, _ in parts], axis=1),
            np.concatenate([s for _, s in parts], axis=1),
        )

    def _levels(self, theta: Floats, which: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Log of the law's level over the level seen, and its derivatives: K * C of them."""
        m, c = self._count[which], self._tensors
        constants = np.exp(theta)[:, None, :]
        latency, q = constants[:, :, :1], constants[:, :, 1:2]
        per_row, knee = constants[:, :, 2 : 2 + c], constants[:, :, 2 + c :]
        top = np.maximum(m, knee)  # taken out so that no power overflows
        rows, fill = (m / top) ** q, (knee / top) ** q
        bend = top * (rows + fill) ** (1 / q)
        time = latency + per_row * bend
        moving = per_row * bend / time
        filling = fill / (rows + fill)
        log_knee = theta[:, None, 2 + c :]
        sharper = (1 - filling) * np.log(m) + filling * log_knee - np.log(bend)
        slope = np.zeros((*time.shape, 2 + 2 * c))
        slope[..., 0] = latency / time
        slope[..., 1] = moving * sharper
        each = np.arange(c)
        slope[:, :, each, 2 + each] = moving
        slope[:, :, each, 2 + c + each] = moving * filling
        value = (self._log_mu - np.log(time)) * self._scale
        slope *= -self._scale[:, :, None]
        return value.reshape(len(theta), -1), slope.reshape(len(theta), -1, 2 + 2 * c)

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
        return (theta[:, at] - centre) / spread, np.broadcast_to(slope, (len(theta), *slope.shape))

    def _rates(self, theta: Floats) -> list[tuple[Floats, Floats]]:
        """With known bytes of a row: equal rates of the tensors, near a plain copy's."""
        if self._log_bytes is None:
            return []
        c, (choices, constants) = self._tensors, theta.shape
        rate = self._log_bytes - theta[:, 2 : 2 + c]  # log GB/s of each tensor
        mean = rate.mean(axis=1, keepdims=True)
        slope = np.zeros((choices, c, constants))
        slope[:, :, 2 : 2 + c] = (1 / c - np.eye(c)) / RATE_SPREAD
        out = [((rate - mean) / RATE_SPREAD, slope)]
        if self._facts.link_peak:
            over = mean - np.log(self._facts.link_peak)
            scale = np.where(over > 0, ABOVE_PEAK, BELOW_PEAK)
            slope = np.zeros((choices, 1, constants))
            slope[:, :, 2 : 2 + c] = -1 / (c * scale[:, :, None])
            out.append((over / scale, slope))
        return out


def least_squares(
    residuals: Callable[[Floats, NDArray[np.int64]], tuple[Floats, Floats]],
    start: Floats,
    lower: Floats,
    upper: Floats,
) -> tuple[Floats, Floats]:
    """Minimize half the sum of squares within bounds, from each of the places `start` (B, P).

    Returns where each search ends (B, P) and the cost there (B,). Levenberg and Marquardt's method
    with the diagonal scaling, projected on the bounds; a coordinate that a bound holds leaves the
    step. Our own for the import it saves (a general optimizer takes longer to load than all fits of
    a trace take together), and to search from many places at once.
    """
    theta, damping = np.array(start), np.full(len(start), 1e-3)
    value, slope = residuals(theta, np.arange(len(theta)))
    cost = _half_square(value)
    going = np.arange(len(theta))
    for _ in range(ROUNDS):
        gradient = (value[going, None, :] @ slope[going])[:, 0]
        place = theta[going]
        free = ~((place <= lower) & (gradient > 0) | (place >= upper) & (gradient < 0))
        step = _step(slope[going], gradient, free, damping[going])
        moved = np.clip(place + step, lower, upper)
        new_value, new_slope = residuals(moved, going)
        new_cost = _half_square(new_value)
        better = new_cost < cost[going]
        settled = better & (cost[going] - new_cost <= GAIN * cost[going])
        to = going[better]
        theta[to], value[to], slope[to] = moved[better], new_value[better], new_slope[better]
        cost[to] = new_cost[better]
        scale = np.where(better, np.maximum(damping[going] / 8, 1e-12), damping[going] * 8)
        damping[going] = scale
        going = going[~settled & (scale <= 1e12) & free.any(axis=1)]
        if not len(going):
            break
    return theta, cost


def _half_square(value: Floats) -> Floats:
    return np.asarray(0.5 * np.einsum("br,br->b", value, value))


def _step(slope: Floats, gradient: Floats, free: NDArray[np.bool_], damping: Floats) -> Floats:
    """The damped step of each search, 0 in the coordinates that are not free."""
    slope = np.where(free[:, None, :], slope, 0.0)
    curve = slope.transpose(0, 2, 1) @ slope
    diagonal = np.einsum("bpp->bp", curve)
    diagonal += np.where(free, damping[:, None] * np.maximum(diagonal, 1e-12), 1.0)
    return np.asarray(np.linalg.solve(curve, np.where(free, -gradient, 0.0)[..., None])[..., 0])
