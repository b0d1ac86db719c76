"""What the host link carried, and how the copy time splits into bytes, overhead and contention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.copies.counts import Chain, Counts
from lanescope.attribution.copies.law import Law
from lanescope.attribution.copies.mixture import Floats

#: a copy slowed with at least this probability is left out of rates
CALM_BELOW = 0.5
#: layer-steps worked on at a time
_AT_ONCE = 50_000


@dataclass(frozen=True)
class Split:
    """Nanoseconds of copy time over the layer-steps, (C,) each; they add up to the total."""

    total: Floats
    bytes_: Floats
    overhead: Floats
    contention: Floats


def per_row(chain: Chain, law: Law, mass: Floats) -> Floats:
    """Link time of one row of each tensor (ns): the slope of the levels where the link is full.

    Slopes of seen levels are used (an added constant cancels); the law's own constant stands in
    where fewer than two levels lie clearly beyond its knee.
    """
    counts = np.arange(len(chain.mu))
    out = law.per_row.copy()
    for tensor in range(chain.mu.shape[1]):
        full = (counts > 1.25 * law.knee[tensor]) & (counts >= 1) & (mass >= 3)
        if full.sum() >= 2:
            weight = np.sqrt(mass[full]) / np.exp(chain.mu[full, tensor])
            slope = np.polyfit(counts[full], np.exp(chain.mu[full, tensor]), 1, w=weight)[0]
            out[tensor] = min(max(slope, 0.8 * law.per_row[tensor]), 1.25 * law.per_row[tensor])
    return out


def split(ns: Floats, answer: Counts, pick: NDArray[np.bool_], chain: Chain, row: Floats) -> Split:
    """Split the time of every picked copy: its rows' link time, the rest of its level, disturbance.

    `ns` (n, C) durations, `row` (C,) link time of one row.
    """
    parts = [
        _split(ns[some], answer.share[some], answer.disturbed[some], chain, row)
        for some in np.array_split(np.flatnonzero(pick), max(1, len(ns) // _AT_ONCE))
    ]
    total, moved, lost = np.sum(parts, axis=0)
    return Split(total, moved, total - moved - lost, lost)


def _split(
    ns: Floats, share: NDArray[np.float32], disturbed: Floats, chain: Chain, row: Floats
) -> tuple[Floats, Floats, Floats]:
    level = np.exp(chain.mu[: share.shape[1]])
    rows = np.arange(len(level))[:, None] * row
    share = share[:, : len(level)]
    whole = share.sum(axis=1, keepdims=True)
    # single precision as the shares: a ten-millionth of a duration
    expected = share @ level.astype(np.float32) / whole
    moved = share @ rows.astype(np.float32) / whole
    slow = np.where(disturbed > CALM_BELOW, np.maximum(ns - expected, 0), 0)
    valid = ~np.isnan(ns)
    return (
        np.where(valid, ns, 0).sum(axis=0),
        np.where(valid, np.minimum(moved, ns), 0).sum(axis=0),
        np.where(valid, slow, 0).sum(axis=0),
    )


def slopes(ns: Floats, answer: Counts, pick: NDArray[np.bool_]) -> Floats:
    """Slope of time over misses of each tensor (ns a row): what rows add to an empty launch.

    Least squares over the picked layer-steps that are calm and sure, through the mean of the
    launches that moved nothing; with a free intercept where there are too few of those.
    """
    sure = pick & (answer.confidence >= 0.9)
    out = np.full(ns.shape[1], np.nan)
    for tensor in range(ns.shape[1]):
        use = sure & (answer.disturbed[:, tensor] < CALM_BELOW) & ~np.isnan(ns[:, tensor])
        m, took = answer.estimate[use].astype(float), ns[use, tensor]
        empty = took[m == 0]
        if use.sum() < 10 or m.min() == m.max():
            continue
        if len(empty) >= 3:
            out[tensor] = float((m * (took - empty.mean())).sum() / (m * m).sum())
        else:
            out[tensor] = np.polyfit(m, took, 1)[0]
    return out
