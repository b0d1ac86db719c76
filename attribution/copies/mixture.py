"""Robust clusters of layer-steps: which launches of all tensors sit on the same duration level.

One observation is a layer-step: the logarithms of the durations of its copies, one a tensor.
Every tensor of an observation is either on its level (a normal core) or slowed by something
(an asymmetric tail: disturbance makes a copy slower, hardly ever faster). Clusters are found by
splitting: a set of layer-steps is cut in two when two clusters explain it better and lie apart in
more than one tensor, so that a skewed or disturbed tensor alone never makes a level.

Nothing here knows what a miss is; `levels` gives the clusters their counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: mean relative slow-down of a disturbed copy, and scale of the (rare) faster side, in log units
SLOW_TAIL = 0.4
FAST_TAIL = 0.01
#: no observation is impossible: log density below which the model stops caring
LOG_FLOOR = -20.0
#: noise a copy has anyway: a share of its duration, and the timer's own grain
SIGMA_SHARE = 0.002
SIGMA_NS = 25.0
#: distance of two clusters, in pooled standard deviations over all tensors, that counts as apart
APART = 4.0
#: a stretch without observations is plain from so many times its neighbours' distances, this
#: share of the duration, and these ns on; the widest few are looked at
GAP_TIMES, GAP_SHARE, GAP_NS, GAP_TRIES = 12.0, 0.02, 150.0, 4


@dataclass(frozen=True)
class Clusters:
    """K clusters over C tensors, in ascending order of duration.

    `mu` and `sigma` (K, C) in log nanoseconds, `weight` (K,) sums to one, `share` (n, K) the
    responsibilities of the clusters for each observation, `loglik` the log likelihood.
    """

    mu: Floats
    sigma: Floats
    weight: Floats
    share: Floats
    loglik: float

    @property
    def members(self) -> Floats:
        """Expected number of layer-steps in each cluster."""
        return np.asarray(self.share.sum(axis=0))


def sigma_floor(mu: Floats) -> Floats:
    """Smallest believable standard deviation (log units) of a level at `mu`."""
    return np.asarray(np.hypot(SIGMA_SHARE, SIGMA_NS / np.exp(mu)))


def log_density(y: Floats, mu: Floats, sigma: Floats, slow: Floats) -> tuple[Floats, Floats]:
    """Log density of observations under each cluster, and the probability that the core made it.

    `y` (n, C) with NaN where a launch is missing, `slow` (n, C) the prior probability that a copy
    is slowed. Returns (n, K, C) log densities (0 where missing) and core probabilities.
    """
    density, on_level = _log_density(_columns(y), mu, sigma, _log_prior(slow))
    return density.transpose(2, 0, 1), on_level.transpose(2, 0, 1)


def _log_density(
    y: Floats, mu: Floats, sigma: Floats, log_prior: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """`log_density` of `y` (C, n) under clusters (..., K, C): (..., K, C, n), longest axis last.

    `log_prior`: the logs of the probabilities that a copy is calm, and slowed, (C, n) each.
    """
    log_calm, log_slow = log_prior
    lag = y - mu[..., None]
    core = lag / sigma[..., None]
    core *= core
    core *= -0.5
    core -= (np.log(sigma) + 0.5 * np.log(2 * np.pi))[..., None]
    core += log_calm
    tail = lag * (1 / FAST_TAIL)
    lag *= -1 / SLOW_TAIL
    np.minimum(tail, lag, out=tail)  # the slow side's where the copy is slower, else the fast one's
    tail -= np.log(SLOW_TAIL + FAST_TAIL)
    np.maximum(tail, LOG_FLOOR, out=tail)
    tail += log_slow
    # log(exp(core) + exp(tail)) and core's part of it, with one exponential for both
    over = core - tail
    small = np.abs(over)
    np.negative(small, out=small)
    np.exp(small, out=small)
    total = np.maximum(core, tail)
    total += np.log1p(small)
    on_level = np.where(over > 0, 1.0, small)
    on_level /= 1.0 + small
    missing = np.isnan(y)
    if missing.any():
        total[..., missing] = 0.0
        on_level[..., missing] = 0.0
    return total, on_level


def _columns(rows: Floats) -> Floats:
    """(n, C) as (C, n), each column in one piece."""
    return np.ascontiguousarray(rows.T)


def _log_prior(slow: Floats) -> tuple[Floats, Floats]:
    """Logs of the probabilities that a copy is calm, and slowed, (C, n) each."""
    slow = _columns(slow)
    return np.log1p(-slow), np.log(slow)


def _maximize(y: Floats, weights: Floats, mu: Floats, prior: float) -> tuple[Floats, Floats]:
    """Weighted mean and spread of every cluster; `y` (C, n) without NaN, `weights` (B, K, C, n)."""
    mass = weights.sum(axis=-1)
    mean = np.einsum("bkcn,cn->bkc", weights, y)
    mean = np.where(mass > 1e-6, mean / np.maximum(mass, 1e-12), mu)
    off = y - mean[..., None]
    off *= off
    square = np.einsum("bkcn,bkcn->bkc", weights, off)
    expected = np.hypot(0.008, 60.0 / np.exp(mean))
    variance = (square + prior * expected**2) / (mass + prior)
    return mean, np.maximum(np.sqrt(variance), sigma_floor(mean))


def _expectation(
    y: Floats, log_prior: tuple[Floats, Floats], mu: Floats, sigma: Floats, weight: Floats
) -> tuple[Floats, Floats, Floats]:
    """Responsibilities (B, K, n), core-weighted ones (B, K, C, n) and log likelihoods (B,)."""
    per_tensor, on_level = _log_density(y, mu, sigma, log_prior)
    joint = per_tensor.sum(axis=2)
    joint += np.log(np.maximum(weight, 1e-300))[..., None]
    top = joint.max(axis=1, keepdims=True)
    norm = top + np.log(np.exp(joint - top).sum(axis=1, keepdims=True))
    share = np.exp(joint - norm)
    on_level *= share[:, :, None, :]
    return share, on_level, np.asarray(norm.sum(axis=(1, 2)))


def fit(
    y: Floats, slow: Floats, share: Floats, rounds: int = 30, tolerance: float = 1e-5
) -> Clusters:
    """Expectation-maximization from starting responsibilities `share` (n, K)."""
    return fits(y, slow, share.T[None], rounds, tolerance)[0]


def fits(
    y: Floats, slow: Floats, share: Floats, rounds: int = 30, tolerance: float = 1e-5
) -> list[Clusters]:
    """`fit` from each of the starting responsibilities `share` (B, K, n), all at once."""
    columns, log_prior = _columns(y), _log_prior(slow)
    filled = np.nan_to_num(columns)
    chosen = (share >= 0.5 * share.max(axis=2, keepdims=True))[:, :, None, :] & ~np.isnan(columns)
    mu = np.nan_to_num(_medians(columns, chosen))
    spread = _medians(np.abs(columns - mu[..., None]), chosen)
    sigma = np.maximum(1.48 * np.nan_to_num(spread, nan=0.01), sigma_floor(mu))
    weight = share.mean(axis=2)
    share = share.astype(float)
    loglik = np.full(len(share), -np.inf)
    going = np.arange(len(share))
    for _ in range(rounds):
        share[going], core, now = _expectation(
            columns, log_prior, mu[going], sigma[going], weight[going]
        )
        more = now - loglik[going] >= tolerance * np.maximum(1.0, np.abs(now))
        loglik[going] = now
        if not more.any():
            break
        going = going[more]
        mu[going], sigma[going] = _maximize(filled, core[more], mu[going], prior=2.0)
        weight[going] = share[going].mean(axis=2)
    order = np.argsort(mu.sum(axis=2), axis=1)
    return [
        Clusters(mu[b, o], sigma[b, o], weight[b, o], _columns(share[b, o]), each)
        for b, (o, each) in enumerate(zip(order, loglik.tolist(), strict=True))
    ]


def _medians(values: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Medians over the last axis of the `chosen` ones alone; NaN where there are none."""
    ordered = np.sort(np.where(chosen, values, np.inf), axis=-1)
    count = chosen.sum(axis=-1, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum((count - 1) // 2, 0), axis=-1)
    high = np.take_along_axis(ordered, np.minimum(count // 2, values.shape[-1] - 1), axis=-1)
    return np.asarray(np.where(count > 0, 0.5 * (low + high), np.nan)[..., 0])


def distance(a: Clusters, low: int, high: int) -> tuple[float, int, int]:
    """How far apart two clusters are: (distance in common sigmas, tensors up, tensors down).

    The common sigma is the geometric mean: while sets are still being cut, one side may be a single
    level and the other all the levels above it.
    """
    pooled = np.sqrt(a.sigma[low] * a.sigma[high])
    step = (a.mu[high] - a.mu[low]) / pooled
    return float(np.sqrt((step**2).sum())), int((step > 0.5).sum()), int((step < -0.5).sum())


def _apart(pair: Clusters, low: int = 0, high: int = 1) -> bool:
    gap, up, down = distance(pair, low, high)
    needed = min(2, pair.mu.shape[1])
    return gap > APART and up >= needed and down == 0


def _cuts(y: Floats) -> list[NDArray[np.bool_]]:
    """Candidate cuts of a set in two: by variance and by the widest gap, along each direction."""
    holes = np.isnan(y)
    filled = np.where(holes, np.nanmedian(y, axis=0), y) if holes.any() else y
    spread = filled.std(axis=0)
    scaled = (filled - filled.mean(axis=0)) / np.maximum(spread, 1e-9)
    directions = [*filled.T, scaled.sum(axis=1)]
    cuts: dict[bytes, NDArray[np.bool_]] = {}
    for values in directions:
        ordered = np.sort(values)
        n = len(ordered)
        total, running = ordered.sum(), np.cumsum(ordered)[:-1]
        count = np.arange(1, n)
        between = (running - count * total / n) ** 2 / (count * (n - count))
        gaps = np.diff(ordered)
        for at in {int(between.argmax()), int(gaps.argmax())}:
            cut = values > 0.5 * (ordered[at] + ordered[at + 1])
            cuts[cut.tobytes()] = cut
    return list(cuts.values())


def _empty_gap(y: Floats) -> NDArray[np.bool_] | None:
    """A cut at the widest stretch without observations, where it is plain; None elsewhere.

    Plain: many times the distance of the observations on both sides of it, and beyond the timer.
    """
    best, width = None, 1.0
    for values in y.T:
        ordered = np.sort(values[~np.isnan(values)])
        if len(ordered) < max(6, len(y)):
            continue
        steps = np.diff(ordered)
        for at in np.argsort(steps)[: -GAP_TRIES - 1 : -1]:
            low, high = ordered[at], ordered[at + 1]
            beside = np.concatenate([steps[max(0, at - 8) : at], steps[at + 1 : at + 9]])
            if min(at + 1, len(ordered) - at - 1) < 3 or np.exp(high) - np.exp(low) < GAP_NS:
                continue
            plain = steps[at] / max(GAP_TIMES * float(np.quantile(beside, 0.8)), GAP_SHARE)
            if plain > width:
                best, width = values > 0.5 * (low + high), plain
    return best


def _split(y: Floats, slow: Floats) -> NDArray[np.bool_] | None:
    """The best cut of one set, as a mask of its upper part; None when one cluster will do."""
    n, tensors = y.shape
    if n < 6:
        return None
    gap = _empty_gap(y)
    if gap is not None:
        return gap
    single = fit(y, slow, np.ones((n, 1)))
    penalty = (tensors + 0.5) * np.log(max(n, 20)) + 2.0
    cuts = [cut for cut in _cuts(y) if 0 < cut.sum() < n]
    if not cuts:
        return None
    best, best_gain = None, penalty
    for pair in fits(y, slow, np.stack([[~cut, cut] for cut in cuts]), rounds=15):
        gain = pair.loglik - single.loglik
        if gain > best_gain and pair.members.min() >= 0.9 and _apart(pair):
            best, best_gain = pair.share[:, 1] > 0.5, gain
    return best


def find(y: Floats, slow: Floats) -> Clusters:
    """Clusters of the observations `y` (n, C; log ns), ascending.

    `slow` (n, C) is the prior probability that a copy is slowed by something else.
    """
    leaves, todo = [], [np.arange(len(y))]
    while todo:
        rows = todo.pop()
        cut = _split(y[rows], slow[rows])
        if cut is None or not 0 < cut.sum() < len(rows):
            leaves.append(rows)
        else:
            todo += [rows[~cut], rows[cut]]
    share = np.zeros((len(y), len(leaves)))
    for k, rows in enumerate(leaves):
        share[rows, k] = 1.0
    return _merge(y, slow, fit(y, slow, share, rounds=40))


def _merge(y: Floats, slow: Floats, found: Clusters) -> Clusters:
    """Join neighbours that the common fit no longer keeps apart, and drop empty ones."""
    while found.mu.shape[0] > 1:
        alive = found.members > 0.5
        if not alive.all():
            found = fit(y, slow, found.share[:, alive] + 1e-12)
            continue
        pair = next((k for k in range(len(alive) - 1) if not _apart(found, k, k + 1)), None)
        if pair is None:
            break
        share = np.delete(found.share, pair + 1, axis=1)
        share[:, pair] += found.share[:, pair + 1]
        found = fit(y, slow, share)
    return found
