"""Averages of misses with intervals that hold.

The uncertainty of a mean has four parts: what each layer-step leaves open on its own (mostly
independent, averages out), what disturbed layer-steps leave open together (one model of the
disturbance serves them all, so it averages out only partly), levels that stand for several counts
(bounds, which do not average out), and the choice between namings (all that are believable count).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.attribution.copies.counts import Counts
from lanescope.attribution.copies.estimate import Group
from lanescope.attribution.copies.mixture import Floats
from lanescope.schemas.documents.misses import Interval

#: how much of the errors of disturbed layer-steps, and of all others, is common to them
TOGETHER, COMMON = 0.6, 0.15
#: no mean is claimed to be known better than this
FINEST = 0.0005
#: probability of the best naming from which it alone gives the estimate
TRUSTED = 0.9
_SIGMAS = 1.96
#: a naming of at least this probability belongs into a 95 % interval
BELIEVABLE = 0.005
#: where no naming is more likely than this, others nearly as good were never tried: a margin
OPEN_BELOW, OPEN_MARGIN = 0.5, 0.5


@dataclass(frozen=True)
class Reading:
    """Per layer-step: expected count `mean`, its `variance`, whether it was disturbed (`shared`).

    `namings`: (probability, mean, lowest, highest) of every naming, per layer-step; lowest and
    highest differ where a level stands for several counts.
    """

    mean: Floats
    variance: Floats
    shared: np.ndarray
    namings: list[tuple[float, Floats, Floats, Floats]]


def reading(group: Group) -> Reading:
    """What a group's answer says of each of its layer-steps."""
    probability, best = group.answers[0]
    answer: Counts = best if probability >= TRUSTED else group.answer
    namings = []
    for (p, counts), naming in zip(group.answers, group.named.namings, strict=False):
        low, high = counts.mean.copy(), counts.mean.copy()
        for first, last in naming.spread:
            share = counts.share[:, first : last + 1]
            mass, inside = share.sum(axis=1), share @ np.arange(first, first + share.shape[1])
            low += mass * first - inside
            high += mass * last - inside
        namings.append((p, counts.mean, low, high))
    merged = bool(group.named.best.spread)
    variance = np.zeros(len(best.mean)) if merged else best.variance
    return Reading(answer.mean, variance, best.shared, namings)


def mean(reads: list[Reading], picks: list[np.ndarray]) -> Interval:
    """Mean count of the picked layer-steps of several groups, with its 95 % interval."""
    n = sum(int(p.sum()) for p in picks)
    pairs = list(zip(reads, picks, strict=True))
    centre = sum(float(r.mean[p].sum()) for r, p in pairs) / n
    low = sum(min(float(x[2][p].sum()) for x in _believable(r)) for r, p in pairs) / n
    high = sum(max(float(x[3][p].sum()) for x in _believable(r)) for r, p in pairs) / n
    alone = sum(float(r.variance[p].sum()) for r, p in pairs)
    together = sum(float(np.sqrt(r.variance[p & r.shared]).sum()) for r, p in pairs)
    common = sum(float(np.sqrt(r.variance[p]).sum()) for r, p in pairs)
    sigma = np.sqrt(alone + (TOGETHER * together) ** 2 + (COMMON * common) ** 2) / n
    half = _SIGMAS * float(sigma) + FINEST * max(centre, 0.05)
    if any(r.namings[0][0] < OPEN_BELOW for r in reads):
        half += OPEN_MARGIN
    return Interval(
        estimate=centre, low=max(0.0, min(low, centre) - half), high=max(high, centre) + half
    )


def _believable(read: Reading) -> list[tuple[float, Floats, Floats, Floats]]:
    """The namings that cannot be ruled out, the best one always."""
    return [x for i, x in enumerate(read.namings) if i == 0 or x[0] >= BELIEVABLE]
