"""Which count of missed rows each duration level stands for.

The clusters of `mixture` are levels without names. Physics names them: `law` says how long the
copies of m rows take. Without a miss nothing moves and t(0) is the time of an empty launch. Every
believable naming is scored: how well the law fits with believable constants, whether a count that
is left out could really have stayed away, and the bound by the routed rows. What cannot be told
apart stays a set of namings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.copies.law import LATENCY_NS, Counted, Facts, Law, fit_law, fit_laws
from lanescope.attribution.copies.mixture import Clusters, Floats

#: an empty launch, ns: centre and spread (log units; big grids take longer to drain)
EMPTY_NS, EMPTY_SPREAD = 1200.0, 0.6
#: a level costs this much, and as much again by its size, when it is taken for a disturbance
DROP_COST = 6.0
#: and this much, and its distance in sigmas, when it is taken for a second mode of its neighbour
JOIN_COST = 3.0
#: a step below this share of its neighbour's is a second mode, not a row
MODE_STEP = 0.33
#: the lowest level's second mode lies no further off than this (sigmas over all tensors)
MODE_APART = 6.0
#: fewer than this share of the geometric mean of its neighbours is no count of its own
RARE_BETWEEN = 0.2
#: cost of a level that stands for several counts
SPREAD_COST = 8.0
#: a best naming with this much against it has such levels tried too
DOUBTFUL = 4.0
#: rows do not miss quite independently, so their frequencies speak with this weight, up to a cap
SHAPE_WEIGHT, ABSENCE_CAP = 0.3, 14.0
#: less than this share of the binomial variance is too little
NARROW = 0.46
#: with this much against it a naming is not even fitted
HOPELESS = 15.0
#: namings less likely than this, relative to the best, are forgotten
FORGET = 1e-4


@dataclass(frozen=True)
class Naming:
    """One way to name the clusters: `labels[k]` is the count of cluster k, -1 a disturbance.

    `misfit` is the law's cost alone: large where no constants make the levels believable.
    """

    labels: tuple[int, ...]
    score: float
    law: Law
    probability: float = 1.0
    #: label of a level that stands for several counts at once -> the highest of them
    spread: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Named:
    """The believable namings of one set of clusters, best first; probabilities sum to one."""

    clusters: Clusters
    namings: list[Naming] = field(default_factory=list)

    @property
    def best(self) -> Naming:
        """The most probable naming."""
        return self.namings[0]


def tidy(found: Clusters) -> list[list[int]]:
    """Groups of neighbouring clusters that are one level.

    The law is convex: a further row never costs less than the one before. So a step that is much
    smaller than the one before it, in any tensor where that one was plain to see, is a second mode
    of the same level. The lowest level has no step before it: there the step after it must be
    matched by some tensor in which it is plain (small tensors are nearly linear even where the
    large ones do not fill the link). Levels below a jump that no row can cause are the empty one.
    """
    groups = [[k] for k in range(len(found.weight))]
    mu, _ = _centres(found, groups)
    jumps = [k for k in range(1, len(groups)) if not _same_law(mu[k - 1], mu[k])]
    if jumps:
        groups = [[k for g in groups[: jumps[0]] for k in g], *groups[jumps[0] :]]
    while (at := _second_mode(found, groups)) is not None:
        groups[at : at + 2] = [groups[at] + groups[at + 1]]
    return groups


def _believable(found: Clusters, groups: list[list[int]]) -> list[list[int]]:
    """The groups without those too small to be a count between their neighbours.

    Miss counts have one hump: a count between two others is about as frequent as their geometric
    mean or more. A handful of layer-steps between two crowds was disturbed.
    """
    while len(groups) > 2:
        n = np.array([found.members[g].sum() for g in groups])
        expected = np.sqrt(n[:-2] * n[2:])
        lacking = n[1:-1] / np.maximum(expected, 1e-9)
        worst = int(lacking.argmin())
        if lacking[worst] >= RARE_BETWEEN:
            break
        del groups[worst + 1]
    return groups


def _second_mode(found: Clusters, groups: list[list[int]]) -> int | None:
    """The group that should be joined to its successor, the clearest case first."""
    mu, sigma = _centres(found, groups)
    clear = _clear_tensors(mu, sigma)
    worst, at = MODE_STEP, None
    for k in range(len(groups) - 1):
        step = mu[k + 1] - mu[k]
        if not _same_law(mu[k], mu[k + 1]):
            continue
        if k and _same_law(mu[k - 1], mu[k]):
            before = mu[k] - mu[k - 1]
            plain = clear & (before > np.maximum(sigma[k - 1], sigma[k]))
            ratio = np.min(np.where(plain, step / np.maximum(before, 1e-9), np.inf))
        elif k + 2 < len(groups):
            after = mu[k + 2] - mu[k + 1]
            plain = after > 2.5 * np.maximum(sigma[k + 1], sigma[k + 2])
            apart = np.sqrt(((step / np.maximum(sigma[k], sigma[k + 1])) ** 2).sum())
            if not plain.any() or apart > MODE_APART:
                continue
            ratio = np.max(np.where(plain, step / np.maximum(after, 1e-9), -np.inf))
        else:
            continue
        if ratio < worst:
            worst, at = float(ratio), k
    return at


def _clear_tensors(mu: Floats, sigma: Floats) -> NDArray[np.bool_]:
    """Tensors whose levels stand out clearly; in the small ones modes hide the rows."""
    moving = np.array([_same_law(low, high) for low, high in pairwise(mu)], dtype=bool)
    if not moving.any():
        return np.ones(mu.shape[1], dtype=bool)
    steps = (np.diff(mu, axis=0) / np.maximum(sigma[1:], sigma[:-1]))[moving]
    resolved = np.median(steps, axis=0)
    return np.asarray(resolved >= 0.4 * resolved.max())


def _same_law(low: Floats, high: Floats) -> bool:
    """Whether two neighbouring levels can both be copies that move rows: at most twice the time."""
    return bool(np.max(high / low) < 2.2)


def _centres(found: Clusters, groups: Sequence[Sequence[int]]) -> tuple[Floats, Floats]:
    """Mean and spread (ns) of each group, (G, C)."""
    mu, sigma = [], []
    for group in groups:
        share = found.weight[list(group)] / found.weight[list(group)].sum()
        ns = np.exp(found.mu[list(group)])
        mean = share @ ns
        within = (found.sigma[list(group)] * ns) ** 2 + (ns - mean) ** 2
        mu.append(mean)
        sigma.append(np.sqrt(share @ within))
    return np.array(mu), np.array(sigma)


def name(found: Clusters, facts: Facts) -> Named:
    """All believable namings of the clusters, with their probabilities."""
    groups = _believable(found, tidy(found))
    namings: dict[tuple[int, ...], Naming] = {}
    for variant, cost in _variants(found, groups):
        for naming in _namings(found, variant, facts, cost):
            known = namings.get(naming.labels)
            if known is None or known.score < naming.score:
                namings[naming.labels] = naming
    best = max((n.score for n in namings.values()), default=-np.inf)
    if best < -DOUBTFUL:
        thorough = best < -SPREAD_COST - 2
        for naming in _spread_namings(found, groups, facts, thorough):
            namings.setdefault(naming.labels, naming)
    if not namings:
        return Named(found)
    ranked = sorted(namings.values(), key=lambda n: -n.score)
    likely = np.exp(np.array([n.score - ranked[0].score for n in ranked]))
    kept = [(n, p) for n, p in zip(ranked, likely, strict=True) if p > FORGET]
    total = sum(p for _, p in kept)
    return Named(found, [replace(n, probability=float(p / total)) for n, p in kept])


def _spread_namings(
    found: Clusters, groups: list[list[int]], facts: Facts, thorough: bool
) -> list[Naming]:
    """Namings in which one level stands for several counts that cannot be told apart.

    The law is fitted to the other levels; the counts between its neighbours are all possible.
    """
    mu, _ = _centres(found, groups)
    bound = facts.routed_rows or 64
    skip = 1 if len(mu) > 1 and not _same_law(mu[0], mu[1]) else 0
    base = _empty_score(mu[0], mu[skip:]) if skip else 0.0
    out = []
    if skip and len(mu) > 2:  # one-row copies hidden in the empty level
        for hidden in range(1, 4):
            upper = [hidden + 1 + k for k in range(len(mu) - 1)]
            if upper[-1] <= bound:
                law, misfit = fit_law(mu[1:], upper, facts)
                labels = _expand(found, groups, [0, *upper], 0)
                score = base - misfit - SPREAD_COST
                out.append(Naming(labels, score, law, spread=((0, hidden),)))
    if not thorough:
        return out
    for wide, extra, first in product(range(skip, len(mu) - 1), range(1, 7), (1,)):
        counts = [0] * skip + [first + k for k in range(len(mu) - skip)]
        counts = [c + extra * (k > wide) for k, c in enumerate(counts)]
        others = [k for k in range(skip, len(mu)) if k != wide]
        if counts[-1] > bound or len(others) < 2:
            continue
        law, misfit = fit_law(mu[others], np.array([counts[k] for k in others]), facts)
        inside = law.time(np.array([counts[wide], counts[wide] + extra]))
        if np.any(mu[wide] < 0.93 * inside[0]) or np.any(mu[wide] > 1.07 * inside[1]):
            continue
        score = base - misfit - SPREAD_COST
        spread = ((counts[wide], counts[wide] + extra),)
        out.append(Naming(_expand(found, groups, counts, 0), score, law, spread=spread))
    return out


def _variants(found: Clusters, groups: list[list[int]]) -> list[tuple[list[list[int]], float]]:
    """The groups as they are, and with the lowest moving level joined to the next, with costs.

    A second mode of the lowest level looks like a link that one row does not fill; where `tidy`
    was not sure, the law decides.
    """
    mu, sigma = _centres(found, groups)
    first = next((k for k in range(1, len(mu)) if not _same_law(mu[k - 1], mu[k])), 0)
    out = [(groups, 0.0)]
    if first + 1 < len(groups) and _same_law(mu[first], mu[first + 1]):
        joined = [*groups[:first], groups[first] + groups[first + 1], *groups[first + 2 :]]
        pooled = np.maximum(sigma[first], sigma[first + 1])
        apart = float(np.sqrt((((mu[first + 1] - mu[first]) / pooled) ** 2).sum()))
        out.append((joined, JOIN_COST + apart))
    return out


def _namings(found: Clusters, groups: list[list[int]], facts: Facts, cost: float) -> list[Naming]:
    """Score the namings of one grouping: with and without an empty level, every first count."""
    mu, sigma = _centres(found, groups)
    members = np.array([found.members[g].sum() for g in groups])
    bound = facts.routed_rows or 64
    out = []
    small = members <= max(3.0, 0.005 * members.sum())
    droppable = int(np.argmin(small[::-1])) if not small.all() else 0
    for empty, drop in product((True, False), range(min(max(droppable, 1), 5) + 1)):
        skip = int(empty)
        moving = mu[skip : len(groups) - drop]
        if len(moving) == 0 and not (empty and drop == 0):
            continue
        if drop and (len(moving) < 2 or members[-drop:].sum() > 0.05 * members.sum()):
            continue
        dropped = members[len(groups) - drop :]
        toll = float((DROP_COST + np.minimum(dropped, DROP_COST)).sum())
        base = -cost - toll + (_empty_score(mu[0], moving) if empty else 0.0)
        if not len(moving):
            labels = _expand(found, groups, [0], drop)
            law = Law(LATENCY_NS, 4.0, np.full(mu.shape[1], 1e4), np.full(mu.shape[1], 0.5))
            out.append(Naming(labels, base, law))
            continue
        kept = members[skip : len(groups) - drop]
        steps = _gaps(moving, sigma[skip : len(groups) - drop], kept)
        likely = []
        for first in range(1, min(bound, 12) + 1):
            counts = first + np.concatenate([[0], np.cumsum(steps)])
            if counts[-1] > bound:
                break
            all_counts = ([0] if empty else []) + [int(c) for c in counts]
            kept_members = members[: len(groups) - drop]
            absent = _unlikely(all_counts, kept_members, facts.routed_rows)
            if absent < HOPELESS:
                likely.append((counts, all_counts, absent))
        if not likely:
            continue
        reached = -np.inf
        laws = fit_laws(moving, [counts for counts, _, _ in likely], facts)
        for (_, all_counts, absent), (law, misfit) in zip(likely, laws, strict=True):
            score = base - misfit - absent
            out.append(Naming(_expand(found, groups, all_counts, drop), score, law))
            if score < reached - 20:
                break  # further off and further off
            reached = max(reached, score)
    return out


def _empty_score(lowest: Floats, moving: Floats) -> float:
    """Log prior of the lowest level being the empty launch."""
    score = -0.5 * float(np.mean(((np.log(lowest / EMPTY_NS)) / EMPTY_SPREAD) ** 2))
    if len(moving) and np.any(lowest > 0.95 * moving[0]):
        return -np.inf
    return score * 2


def _gaps(mu: Floats, sigma: Floats, members: Floats) -> list[int]:
    """Counts between neighbouring moving levels: one, unless few were expected in between.

    Only where so few layer-steps lie around that a count may have stayed away is a step that is a
    multiple of its neighbour's read as several counts.
    """
    steps = np.diff(mu, axis=0)
    gaps = []
    for k, step in enumerate(steps):
        gap = 1
        expected = float(np.sqrt(members[k] * members[k + 1]))
        neighbour = steps[k - 1] if k else (steps[k + 1] if len(steps) > 1 else None)
        if expected < 8 and neighbour is not None:
            clear = int(np.argmax(neighbour / np.maximum(sigma[k], sigma[k + 1])))
            gap = int(np.clip(round(float(step[clear] / max(neighbour[clear], 1e-9))), 1, 8))
        gaps.append(gap)
    return gaps


def _unlikely(counts: list[int], members: Floats, bound: int | None) -> float:
    """How badly the counts' frequencies fit any mix of rows that miss with some chance (log units).

    The family is P(m) ~ C(R, m) exp(a m + b m^2): the binomial of R rows, tilted to be wider or
    narrower. A count that is passed over, or two that were taken for one, do not fit it.
    """
    top = bound or max(counts) + 3
    seen = np.zeros(top + 1)
    np.add.at(seen, counts, members)
    total, m = seen.sum(), np.arange(top + 1.0)
    factorial = np.array([lgamma(k + 1) for k in range(top + 1)])  # logs
    choose = factorial[top] - factorial - factorial[::-1]
    terms = np.stack([m, m * m], axis=1) / top
    target, tilt = terms.T @ seen, np.zeros(2)
    chance = np.full(top + 1, 1 / (top + 1))
    for _ in range(60):  # Newton on a concave likelihood, in short steps
        log = choose + terms @ tilt
        chance = np.exp(log - log.max())
        chance /= chance.sum()
        mean = terms.T @ chance
        curve = (terms * chance[:, None]).T @ terms - np.outer(mean, mean)
        step = np.linalg.solve(curve + 1e-6 * np.eye(2), target / total - mean)
        tilt = tilt + step * min(1.0, 3.0 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-6:
            break
    some = seen > 0
    expected = np.maximum(total * chance[some], 1e-12)
    deviance = float((seen[some] * np.log(seen[some] / expected)).sum())
    return min(SHAPE_WEIGHT * max(deviance, 0.0), ABSENCE_CAP)


def too_narrow(counts: Counted, members: Floats, bound: int | None) -> bool:
    """Whether counts vary much less than rows that miss more or less independently would.

    A level that stands for several counts, taken for one, makes them look so. The variance over the
    binomial's is held against what dependent rows may well have.
    """
    m, total = np.array(counts, dtype=float), float(members.sum())
    mean = float(m @ members) / total
    variance = float((m - mean) ** 2 @ members) / total
    rows = bound or max(counts) + 3
    expected = mean * (1 - mean / rows)
    if expected <= 0.02 or total < 50:
        return False
    return variance < NARROW * expected


def _expand(
    found: Clusters, groups: list[list[int]], counts: Sequence[int], drop: int
) -> tuple[int, ...]:
    """Labels of the single clusters from the labels of their groups."""
    labels = np.full(len(found.weight), -1)
    for group, count in zip(groups[: len(groups) - drop], counts, strict=True):
        labels[group] = count
    return tuple(int(x) for x in labels)
