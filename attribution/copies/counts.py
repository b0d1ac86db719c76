"""The count of every layer-step, with what is not known about it.

With the levels named, each layer-step is read against all counts at once: every tensor says how
well its duration fits, a disturbed one says little (it can only have become slower), and the counts
seen around it say what to expect. The result is a distribution over counts per layer-step;
estimates, intervals and confidences are read from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.copies.law import Law
from lanescope.attribution.copies.levels import Naming
from lanescope.attribution.copies.mixture import (
    Clusters,
    Floats,
    log_density,
    sigma_floor,
)

#: prior probability that a copy without visible traffic beside it is slowed
SLOW_UNSEEN = 0.02
#: and one that shares the link with a large copy
SLOW_SHARED = 0.95
#: a copy counts as sharing the link from this share of its time on
SHARED_FROM = 0.02
#: the tensors of a disturbed layer-step share one disturbance and are not independent witnesses:
#: their joint evidence counts this much for what is left open
SHARED_WEIGHT = 0.6
#: layer-steps that speak for the whole before a layer's own mix of counts is believed
LAYER_PRIOR = 30.0
#: what an interval holds
LEVEL = 0.95
#: share of doubt that every answer keeps (levels are models): spread over the neighbours
DOUBT = 0.002


@dataclass(frozen=True)
class Observed:
    """The copies of n layer-steps: one row a layer-step, one column a tensor.

    `log_ns` (n, C) log durations, NaN where a launch is missing; `link` (n, C) share of each copy's
    time in which another copy used the host link, `busy` (n, C) in which other kernels ran;
    `layer` (n,) codes 0.. of the layer (or position), used for the mix of counts expected.
    """

    log_ns: Floats
    link: Floats
    busy: Floats
    layer: np.ndarray

    def take(self, rows: np.ndarray | slice) -> Observed:
        """The same for some rows."""
        return Observed(self.log_ns[rows], self.link[rows], self.busy[rows], self.layer[rows])

    @property
    def calm(self) -> np.ndarray:
        """Layer-steps with no large copy beside them."""
        return np.asarray((self.link < SHARED_FROM).all(axis=1))


@dataclass
class Chain:
    """Levels of counts 0..M: `mu`, `sigma` (M+1, C) in log ns, `mix` (layers, M+1).

    `stretch` (M+1, C): how many times longer a copy takes while another copy uses the link;
    `stretch_sigma` its spread (log units). `seen[m]`: layer-steps the level rests on; `top_of[m]`
    is the highest count that sits on the same level as m (m itself unless levels merge).
    """

    mu: Floats
    sigma: Floats
    mix: Floats
    stretch: Floats
    stretch_sigma: Floats
    seen: Floats
    group: np.ndarray
    slow_unseen: float = SLOW_UNSEEN
    slow_busy: float = 0.1


def start(found: Clusters, naming: Naming, top: int, layers: int) -> Chain:
    """Levels for all counts 0..top: from the clusters where seen, from the law elsewhere."""
    tensors = found.mu.shape[1]
    law_log = np.vstack(
        [np.full(tensors, np.log(1000.0)), np.log(naming.law.time(np.arange(1, top + 1)))]
    )
    mu, sigma = law_log.copy(), np.full((top + 1, tensors), 0.02)
    seen = np.zeros(top + 1)
    labels = np.array(naming.labels)
    for count in range(top + 1):
        members = np.flatnonzero(labels == count)
        if len(members):
            share = found.weight[members] / found.weight[members].sum()
            mu[count] = share @ found.mu[members]
            within = found.sigma[members] ** 2 + (found.mu[members] - mu[count]) ** 2
            sigma[count] = np.sqrt(share @ within)
            seen[count] = found.members[members].sum()
    known = np.flatnonzero(seen > 0)
    rows = known[known > 0]
    for tensor in range(tensors):
        if len(rows):
            shift = mu[rows, tensor] - law_log[rows, tensor]
            fill = np.arange(1, top + 1)
            mu[1:, tensor] = law_log[1:, tensor] + np.interp(fill, rows, shift)
            noise = np.interp(fill, rows, sigma[rows, tensor])
            sigma[1:, tensor] = np.where(seen[1:] > 0, sigma[1:, tensor], np.hypot(noise, 0.012))
    if seen[0] == 0:  # never seen: an empty launch is short, how short is not known
        lowest = mu[1].min() if top else np.log(1000.0)
        mu[0], sigma[0] = min(np.log(1100.0), lowest - 0.7), 0.4
    group = np.arange(top + 1)
    for low, high in naming.spread:  # several counts on one level: no telling them apart
        at = labels_of(naming, low)
        mu[low : high + 1], sigma[low : high + 1] = mu[at], sigma[at]
        group[low : high + 1] = low
    mix = np.zeros((layers, top + 1)) + _smooth(seen, group)
    stretch = np.full((top + 1, tensors), 2.0)
    return Chain(mu, sigma, mix, stretch, np.full((top + 1, tensors), 0.35), seen, group)


def labels_of(naming: Naming, low: int) -> int:
    """The label that the spread level starting at `low` carries."""
    return next(label for label in naming.labels if label >= low)


def _smooth(seen: Floats, group: np.ndarray) -> Floats:
    """Expected mix of counts: what was seen, a little of the neighbours, never nothing."""
    mass = seen.copy()
    for low in np.unique(group):
        inside = group == low
        mass[inside] = mass[inside].sum() / inside.sum()
    padded = np.pad(mass, 1)
    mix = mass + 0.01 * (padded[:-2] + padded[2:]) + 0.02
    return np.asarray(mix / mix.sum())


def read(seen: Observed, chain: Chain, support: Floats | None = None) -> tuple[Floats, Floats]:
    """Distribution over counts (n, M+1), and the probability that each copy was slowed (n, C).

    `support` (n,) adds to the prior probability of a slow copy where the copies around it are slow.
    """
    slow = np.where(seen.link >= SHARED_FROM, SLOW_SHARED, chain.slow_unseen)
    slow = np.maximum(slow, np.minimum(0.9, chain.slow_busy) * (seen.busy > SHARED_FROM))
    if support is not None:
        slow = np.maximum(slow, np.clip(support, chain.slow_unseen, 0.6)[:, None])
    density, on_level = log_density(seen.log_ns, chain.mu, chain.sigma, slow)
    shared = np.flatnonzero((seen.link >= SHARED_FROM).any(axis=1))
    if len(shared):
        density[shared] = _shared_density(seen.take(shared), chain, density[shared], slow[shared])
    joint = density.sum(axis=2) + np.log(chain.mix[seen.layer])
    share = _normal(joint)
    disturbed = 1.0 - np.einsum("nm,nmc->nc", share, on_level)
    return share, np.where(np.isnan(seen.log_ns), 0.0, disturbed)


def _shared_density(seen: Observed, chain: Chain, plain: Floats, slow: Floats) -> Floats:
    """Log densities where another copy shares the link: the stretched level joins the mixture.

    A copy that shares for a part f of its time takes level / (1 - f * (1 - 1/stretch)).
    """
    part = seen.link[:, None, :]
    lost = part * (1 - 1 / chain.stretch)
    at = chain.mu - np.log(np.maximum(1 - lost, 1e-3))
    spread = np.hypot(chain.sigma, part * chain.stretch_sigma)
    z = (seen.log_ns[:, None, :] - at) / spread
    close = -0.5 * z**2 - np.log(spread) - 0.5 * np.log(2 * np.pi) + np.log(0.8 * slow[:, None, :])
    joined = np.logaddexp(close, plain + np.log(0.2))
    return np.where((part >= SHARED_FROM) & ~np.isnan(joined), joined, plain)


def settle(seen: Observed, chain: Chain, rounds: int = 6) -> Chain:
    """Let levels, mixes and stretches follow the layer-steps, with what is rare held in place."""
    for _ in range(rounds):
        share, disturbed = read(seen, chain)
        calm = seen.calm
        _, on_level = log_density(
            seen.log_ns[calm],
            chain.mu,
            chain.sigma,
            np.full((int(calm.sum()), seen.log_ns.shape[1]), chain.slow_unseen),
        )
        _update_levels(seen.log_ns[calm], share[calm][:, :, None] * on_level, chain)
        _update_mix(seen, share, chain)
        _update_stretch(seen, share, chain)
        quiet = calm[:, None] & (seen.busy <= SHARED_FROM) & ~np.isnan(seen.log_ns)
        if quiet.any():
            chain.slow_unseen = float(np.clip(disturbed[quiet].mean(), 0.004, 0.3))
        loud = (seen.busy > SHARED_FROM) & ~np.isnan(seen.log_ns)
        if loud.any():
            chain.slow_busy = float(np.clip(disturbed[loud].mean(), chain.slow_unseen, 0.9))
    return chain


def _update_levels(y: Floats, weights: Floats, chain: Chain) -> None:
    """Means and spreads from core weights (n, M+1, C); a few layer-steps move a level little."""
    mass = weights.sum(axis=0)
    filled = np.nan_to_num(y)
    prior = 3.0
    mean = np.einsum("nmc,nc->mc", weights, filled) + prior * chain.mu
    mean /= mass + prior
    square = np.einsum("nmc,nmc->mc", weights, (filled[:, None, :] - mean) ** 2)
    typical = np.hypot(0.008, 60.0 / np.exp(mean))
    sigma = np.sqrt((square + prior * typical**2) / (mass + prior))
    few = mass < 4  # an unseen level keeps what the law gave it
    single = chain.group[:, None] == np.arange(len(chain.group))[:, None]
    shared = np.isin(chain.group, chain.group[~single[:, 0]])[:, None]
    keep = few | shared
    chain.mu = np.where(keep, chain.mu, mean)
    chain.sigma = np.where(keep, chain.sigma, np.maximum(sigma, sigma_floor(mean)))
    chain.seen = weights.max(axis=2).sum(axis=0)


def _update_mix(seen: Observed, share: Floats, chain: Chain) -> None:
    """The mix of counts of every layer: its own layer-steps, and all of them where it has few."""
    whole = _smooth(share.sum(axis=0), chain.group)
    own = np.zeros_like(chain.mix)
    np.add.at(own, seen.layer, share)
    mix = own + LAYER_PRIOR * whole
    for low in np.unique(chain.group):
        inside = chain.group == low
        if inside.sum() > 1:
            mix[:, inside] = mix[:, inside].mean(axis=1, keepdims=True)
    chain.mix = mix / mix.sum(axis=1, keepdims=True)


def _update_stretch(seen: Observed, share: Floats, chain: Chain) -> None:
    """How much a shared link slows each tensor at each count, from copies whose count is known."""
    shared = np.flatnonzero((seen.link >= 0.2).any(axis=1) & (share.max(axis=1) > 0.9))
    if not len(shared):
        return
    count = share[shared].argmax(axis=1)
    tensors = seen.log_ns.shape[1]
    level = chain.mu[count]
    part = seen.link[shared]
    slower = np.exp(level - seen.log_ns[shared])  # level / duration
    kept = 1 - (1 - slower) / np.maximum(part, 0.2)  # 1 / stretch
    valid = (part >= 0.2) & (count > 0)[:, None] & ~np.isnan(kept)
    log_stretch = -np.log(np.clip(kept, 0.05, 1.0))
    for tensor in range(tensors):
        use = valid[:, tensor]
        if use.sum() < 3:
            continue
        values, counts = log_stretch[use, tensor], count[use]
        centre = float(np.median(values))
        spread = max(1.48 * float(np.median(np.abs(values - centre))), 0.1)
        for m in range(1, chain.mu.shape[0]):
            own = values[counts == m]
            n = len(own)
            middle = (np.median(own) * n + centre * 2) / (n + 2) if n else centre
            near = 1.48 * float(np.median(np.abs(own - np.median(own)))) if n > 4 else spread
            chain.stretch[m, tensor] = np.exp(middle)
            chain.stretch_sigma[m, tensor] = max(near, 0.04) * np.sqrt(1 + 2 / (n + 1))


#: layer-steps worked on at a time: their arrays fit the processor's cache
CHUNK = 2_000
#: from so many layer-steps on densities are looked up, if a duration occurs so often on average
LOOK_UP_FROM, REPEATS = 20_000, 4
#: durations below this (ns) are told apart without sorting
LONGEST_LOOKED_UP = 1 << 24


@dataclass(frozen=True)
class Counts:
    """One row a layer-step: `estimate`, `low`, `high`, `confidence`, `mean`, `variance`.

    `share` (n, W) is the distribution over counts 0..W-1 behind them, in single precision; W is at
    most M+1, higher counts have no part in it. `disturbed` (n, C) is the probability that each copy
    was slowed by something else; `shared` (n,) the layer-steps beside other traffic; `group` the
    levels that cannot be told apart.
    """

    share: NDArray[np.float32]
    disturbed: Floats
    shared: np.ndarray
    group: np.ndarray

    @cached_property
    def _read_off(self) -> dict[str, np.ndarray]:
        """All that is read from the distributions, in one pass over them."""
        rows = range(0, max(len(self.share), 1), CHUNK)
        parts = [_reading_of(self.share[i : i + CHUNK], self.shared[i : i + CHUNK]) for i in rows]
        return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    @property
    def estimate(self) -> np.ndarray:
        """The most probable count."""
        return self._read_off["estimate"]

    @property
    def confidence(self) -> Floats:
        """Probability of the estimate."""
        return self._read_off["confidence"]

    @property
    def mean(self) -> Floats:
        """Expected count."""
        return self._read_off["mean"]

    @property
    def variance(self) -> Floats:
        """Variance of the count given the durations."""
        return self._read_off["variance"]

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest run of neighbouring counts around the estimate that holds 95 %."""
        return self._read_off["low"], self._read_off["high"]

    def mass(self, pick: np.ndarray | None = None) -> Floats:
        """Expected number of (picked) layer-steps at each count, (M+1,)."""
        weight = np.ones(len(self.share), np.float32) if pick is None else pick.astype(np.float32)
        width = self.share.shape[1]
        out = np.zeros(max(width, len(self.group)))
        for i in range(0, len(weight), CHUNK):
            out[:width] += weight[i : i + CHUNK] @ self.share[i : i + CHUNK]
        return out


def _reading_of(single: NDArray[np.float32], shared: np.ndarray) -> dict[str, np.ndarray]:
    """Estimate, mean, variance, confidence and 95 % interval of some distributions."""
    share: Floats = single.astype(np.float64)
    m = np.arange(share.shape[1])
    estimate, mean = share.argmax(axis=1), share @ m
    if shared.any():  # disturbed layer-steps are no independent witnesses: flattened
        share[shared] **= SHARED_WEIGHT
        share[shared] /= share[shared].sum(axis=1, keepdims=True)
    variance = np.maximum(share @ m**2 - (share @ m) ** 2, 0.0)
    doubted = _with_doubt(share)
    tail = (1 - LEVEL) / 2
    below = np.cumsum(doubted, axis=1)
    low, high = (below <= tail).sum(axis=1), (below < 1 - tail).sum(axis=1)
    return {
        "estimate": estimate.astype(np.int64),
        "mean": mean,
        "variance": variance,
        "confidence": doubted.max(axis=1),
        "low": np.minimum(low, estimate),
        "high": np.minimum(np.maximum(high, estimate), share.shape[1] - 1),
    }


def count(seen: Observed, chain: Chain) -> Counts:
    """Read all layer-steps against settled levels."""
    look_up = _LookUp.of(seen, chain)
    parts: list[tuple[NDArray[np.float32], Floats]] = []
    for begin in range(0, len(seen.log_ns), CHUNK):
        rows = slice(begin, begin + CHUNK)
        some = seen.take(rows)
        share, disturbed = look_up.read(rows, some) if look_up else read(some, chain)
        # what slows one copy of a layer-step mostly slows its neighbours too
        worst = disturbed.max(axis=1)
        again = np.flatnonzero(worst > 0.1)
        if len(again):
            share[again], disturbed[again] = read(
                some.take(again), chain, support=0.6 * worst[again]
            )
        parts.append((_trimmed(share), disturbed))
    width = max(p[0].shape[1] for p in parts)
    shares = np.zeros((len(seen.log_ns), width), np.float32)
    for i, (some_shares, _) in enumerate(parts):
        shares[i * CHUNK : (i + 1) * CHUNK, : some_shares.shape[1]] = some_shares
    disturbed = np.concatenate([p[1] for p in parts])
    return Counts(shares, disturbed, ~seen.calm | (disturbed > 0.5).all(axis=1), chain.group)


@dataclass
class _LookUp:
    """Densities of every duration that occurs, worked out once: durations are whole ns and repeat.

    `place` (n, C): row of the tensor's tables for each copy; copies beside other kernels, which are
    slow more often, have rows of their own. `density`, `on_level`: one (rows, M+1) array a tensor,
    as `log_density` gives them. Layer-steps with a copy that shares the link are not looked up.
    """

    chain: Chain
    place: NDArray[np.int64]
    density: list[Floats]
    on_level: list[Floats]

    @classmethod
    def of(cls, seen: Observed, chain: Chain) -> _LookUp | None:
        """The tables; None where they would hardly be smaller than what is looked up."""
        if len(seen.log_ns) < LOOK_UP_FROM:
            return None
        place = np.empty(seen.log_ns.shape, dtype=np.int64)
        density, on_level = [], []
        for tensor in range(seen.log_ns.shape[1]):
            log_ns, busy = seen.log_ns[:, tensor], seen.busy[:, tensor] > SHARED_FROM
            values, place[:, tensor] = _distinct(log_ns)
            if len(values) * REPEATS > len(log_ns):
                return None
            place[busy, tensor] += len(values)
            y = np.concatenate([values, values]) if busy.any() else values
            slow = np.full((len(y), 1), chain.slow_unseen)
            slow[len(values) :] = max(chain.slow_unseen, min(0.9, chain.slow_busy))
            at = slice(tensor, tensor + 1)
            some, on = log_density(y[:, None], chain.mu[:, at], chain.sigma[:, at], slow)
            density.append(np.ascontiguousarray(some[:, :, 0]))
            on_level.append(np.ascontiguousarray(on[:, :, 0]))
        return cls(chain, place, density, on_level)

    def read(self, rows: slice, some: Observed) -> tuple[Floats, Floats]:
        """As the function `read` gives it, for the layer-steps `rows`, which are `some`."""
        place = self.place[rows]
        joint = np.log(self.chain.mix)[some.layer]
        for tensor, density in enumerate(self.density):
            joint += density[place[:, tensor]]
        share = _normal(joint)
        disturbed = np.empty(place.shape)
        for tensor, on_level in enumerate(self.on_level):
            disturbed[:, tensor] = 1.0 - np.einsum("nm,nm->n", share, on_level[place[:, tensor]])
        disturbed[np.isnan(some.log_ns)] = 0.0
        beside = np.flatnonzero(~some.calm)
        if len(beside):
            share[beside], disturbed[beside] = read(some.take(beside), self.chain)
        return share, disturbed


def _distinct(log_ns: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The distinct values, and where each element lies among them; a NaN is one of them."""
    missing = np.isnan(log_ns)
    ns = np.rint(np.exp(np.where(missing, 0.0, log_ns))).astype(np.int64)
    if len(ns) and ns.max() >= LONGEST_LOOKED_UP:
        values, at = np.unique(log_ns, return_inverse=True)
        return values, at.astype(np.int64)
    ns[missing] = 0
    first = np.full(int(ns.max(initial=0)) + 1, -1, dtype=np.int64)
    first[ns] = np.arange(len(ns))
    held = np.flatnonzero(first >= 0)
    rank = np.empty(len(first), dtype=np.int64)
    rank[held] = np.arange(len(held))
    return log_ns[first[held]], rank[ns]


def _normal(joint: Floats) -> Floats:
    """Probabilities (n, M+1) from log densities, in place."""
    joint -= joint.max(axis=1, keepdims=True)
    share: Floats = np.exp(joint, out=joint)
    share /= share.sum(axis=1, keepdims=True)
    return share


def _trimmed(share: Floats) -> NDArray[np.float32]:
    """Without the high counts that nothing speaks for: far fewer rows miss than are routed."""
    some = np.flatnonzero(share.max(axis=0) > 1e-9)
    return share[:, : int(some.max()) + 2].astype(np.float32)


def _with_doubt(share: Floats) -> Floats:
    """Keep a little doubt towards the neighbouring counts, more where the answer is open."""
    open_ = 1 - share.max(axis=1, keepdims=True)
    doubt = DOUBT + 0.1 * open_
    padded = np.pad(share, ((0, 0), (1, 1)))
    near = padded[:, :-2] + padded[:, 2:]
    near /= np.maximum(near.sum(axis=1, keepdims=True), 1e-300)
    return np.asarray((1 - doubt) * share + doubt * near)


def mixed(parts: list[tuple[float, Counts]]) -> Counts:
    """One answer from several namings, weighted by their probabilities."""
    first = parts[0][1]
    if len(parts) == 1:
        return first
    width = max(c.share.shape[1] for _, c in parts)
    share: NDArray[np.float32] = np.zeros((len(first.share), width), np.float32)
    for p, c in parts:
        share[:, : c.share.shape[1]] += np.float32(p) * c.share
    return Counts(share, first.disturbed, first.shared, first.group)


__all__ = ["Chain", "Counts", "Law", "Observed", "count", "mixed", "settle", "start"]
