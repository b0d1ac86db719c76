"""Intervals for the difference of two lanes from their verification steps.

Steps follow each other: neighbours resemble each other, so that 140 steps weigh less than 140
independent ones. Two parts, both over blocks of steps within requests:

* the block bootstrap (circular blocks, drawn within each request, fixed seed) gives the shape of
  the difference's distribution and how the buckets move together; the largest of its statistics
  over all metrics (Westfall and Young's single step) corrects for looking at many buckets;
* its scale is known to be too small where requests are short, since blocks cut the dependence and
  each request's mean is estimated from the same steps. So the scale comes from the long-run
  variance of an autoregression fitted to the pooled autocovariances (order by a penalised
  likelihood), with the bias of the request means taken out, and from Student's t with the degrees
  of freedom that such an estimate is worth.

`python -m benchmarks coverage` measures what the result covers. Requests are taken as given: the
interval is about these requests in this launch, not about other prompts or a relaunch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lanescope.attribution.lanes.intervals import SEED

Floats = NDArray[np.float64]

RESAMPLES = 2_000
ORDERS = 4  # of the autoregression
PENALTY = 4.0  # per order: twice Akaike's, orders that are not needed cost coverage
Z975 = float(stats.norm.ppf(0.975))


@dataclass(frozen=True)
class Series:
    """One lane's steps: `values` is steps x metrics, `lengths` each request's steps."""

    values: Floats
    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or len(self.values) != sum(self.lengths) or 0 in self.lengths:
            raise ValueError("steps and request lengths do not belong together")

    def requests(self) -> list[Floats]:
        """The steps x metrics of each request."""
        return np.split(self.values, np.cumsum(self.lengths)[:-1])


@dataclass(frozen=True)
class Difference:
    """The difference candidate - incumbent of one metric's mean, in the metric's unit."""

    mean_a: float
    mean_b: float
    delta: float
    low: float
    high: float
    p: float  # of no difference, for this metric alone
    p_family: float  # the same, corrected for all metrics that were looked at
    median_a: float
    median_b: float
    median_delta: float
    median_low: float
    median_high: float

    def sure(self, level: float = 0.95) -> bool:
        """Whether the sign is certain, all metrics considered."""
        return self.p_family <= 1 - level


def long_run(series: Series) -> tuple[Floats, Floats, Floats]:
    """Per metric: variance of the mean times steps, its degrees of freedom, the summed AR weights.

    Formula: sigma^2 / (1 - sum phi)^2 of the fitted autoregression. The autocovariances are taken
    around each request's own mean, which lowers all of them by about variance / length: that is
    added back, to a fixed point.
    """
    lengths = np.array(series.lengths, dtype=np.float64)
    total = int(lengths.sum())
    centred = [block - block.mean(axis=0) for block in series.requests()]
    orders = min(ORDERS, int(lengths.max()) - 2)
    metrics = series.values.shape[1]
    if orders < 1:  # requests of one or two steps: no time structure to be seen
        pairs = max(1.0, float((lengths - 1).sum()))
        own = np.sum([(c**2).sum(axis=0) for c in centred], axis=0) / pairs
        return own, np.full(metrics, pairs), np.zeros(metrics)
    raw = np.empty((orders + 1, metrics))
    lost = np.empty(orders + 1)
    for lag in range(orders + 1):
        pairs = np.maximum(lengths - lag, 0).sum()
        products = [(c[lag:] * c[: len(c) - lag]).sum(axis=0) for c in centred if len(c) > lag]
        raw[lag] = np.sum(products, axis=0) / pairs
        lost[lag] = (np.maximum(lengths - lag, 0) / lengths).sum() / pairs
    out = np.array([_autoregression(raw[:, j], lost, total) for j in range(metrics)])
    return out[:, 0], out[:, 1], out[:, 2]


def _autoregression(raw: Floats, lost: Floats, total: int) -> tuple[float, float, float]:
    if raw[0] <= 0:
        return 0.0, float(total), 0.0
    variance, weights = float(raw[0]), 0.0
    for _ in range(4):  # to the fixed point of the bias
        gamma = raw + variance * lost
        phi, noise = np.zeros(0), float(gamma[0])
        fits = []
        for order in range(1, len(gamma)):
            seen = float(phi @ gamma[1:order][::-1]) if order > 1 else 0.0
            partial = float(np.clip((gamma[order] - seen) / noise, -0.95, 0.95))
            phi = np.append(phi - partial * phi[::-1], partial)
            noise *= 1 - partial**2
            score = total * np.log(noise) + PENALTY * order
            fits.append((score, noise / max(1 - phi.sum(), 0.05) ** 2, float(phi.sum())))
        _, variance, weights = min(fits)
        variance = float(np.clip(variance, 0.05 * gamma[0], 39 * gamma[0]))
    inside = float(np.clip(weights, -0.5, 0.95))
    freedom = max(2.5, total / (1 + 2 * (1 + inside) / (1 - inside)))
    return variance, freedom, inside


def compare(
    a: Series,
    b: Series,
    paired: bool,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    medians: bool = True,
) -> list[Difference]:
    """The difference b - a of every metric (column), with 95 % intervals.

    `paired`: both lanes have the same requests with the same number of steps, and step i of one is
    held against step i of the other. What both share (the same prompt, the same position) then
    cancels; where they share nothing, nothing is lost but degrees of freedom. Without `medians`
    their figures are NaN.
    """
    if paired and a.lengths != b.lengths:
        raise ValueError("lanes of different shape cannot be paired")
    rng = np.random.default_rng(seed)
    if paired:
        steps = Series(b.values - a.values, a.lengths)
        variance, freedom, inside = long_run(steps)
        squared = variance / len(steps.values)
        block = _block_length(inside, steps.lengths)
        spread = _resampled_means(steps, block, resamples, rng)
    else:
        sides = [long_run(side) for side in (a, b)]
        parts = [v / len(s.values) for (v, _, _), s in zip(sides, (a, b), strict=True)]
        squared = parts[0] + parts[1]
        below = parts[0] ** 2 / sides[0][1] + parts[1] ** 2 / sides[1][1]
        freedom = np.where(below > 0, squared**2 / np.where(below > 0, below, 1), 1e9)
        block = max(_block_length(sides[i][2], s.lengths) for i, s in enumerate((a, b)))
        spread = _resampled_means(b, block, resamples, rng) - _resampled_means(
            a, block, resamples, rng
        )
    raw = np.sqrt(squared)
    error = raw * stats.t.ppf(0.975, freedom) / Z975
    delta = b.values.mean(axis=0) - a.values.mean(axis=0)
    shape = np.abs(_standardised(spread))
    middles = (np.full_like(delta, np.nan),) * 2
    if medians:  # the dearest part: a sort of every resample
        middles = _medians(a, b, block, resamples, rng, paired)
    # A difference as far out as Student's t says, in the normal's units: further out, for the
    # largest of many, t's tails are heavier than any one factor would make the normal's.
    tail = stats.t.sf(np.abs(delta) / np.where(raw > 0, raw, 1.0), freedom)
    return _differences(a, b, delta, error, stats.norm.isf(tail), shape, middles)


def _standardised(spread: Floats) -> Floats:
    centred = spread - spread.mean(axis=0)
    scale = centred.std(axis=0)
    return np.asarray(centred / np.where(scale > 0, scale, 1.0))


def _block_length(inside: Floats, lengths: tuple[int, ...]) -> int:
    """About one and a half correlation times, and at least three blocks in the usual request."""
    reach = float(np.median((1 + inside) / (1 - inside)))
    return int(np.clip(round(1.5 * reach), 1, max(1, int(np.median(lengths)) // 3)))


def _resampled_means(
    series: Series, block: int, resamples: int, rng: np.random.Generator
) -> Floats:
    """resamples x metrics: means over circular blocks drawn within each request."""
    total = np.zeros((resamples, series.values.shape[1]))
    for steps in series.requests():
        reach = min(block, len(steps))
        wrapped = np.concatenate([steps, steps[: reach - 1]]).cumsum(axis=0)
        wrapped = np.concatenate([np.zeros((1, steps.shape[1])), wrapped])
        blocks = (wrapped[reach:] - wrapped[:-reach]) / reach
        draws = rng.integers(0, len(steps), size=(resamples, -(-len(steps) // reach)))
        picked = np.zeros_like(total)
        for column in range(draws.shape[1]):
            picked += blocks[draws[:, column]]
        total += picked * (len(steps) / draws.shape[1])
    return total / len(series.values)


def _medians(
    a: Series, b: Series, block: int, resamples: int, rng: np.random.Generator, paired: bool
) -> tuple[Floats, Floats]:
    """The difference of medians, and how far it strays in 95 % of the resamples, per metric."""
    steps = len(a.values) + len(b.values)
    count = int(np.clip(8_000_000 // max(1, steps * a.values.shape[1]), 100, min(400, resamples)))
    out = np.empty((count, a.values.shape[1]))
    chunk = max(1, 400_000 // steps)
    for start in range(0, count, chunk):
        many = min(chunk, count - start)
        rows_a = _rows(a.lengths, block, many, rng)
        rows_b = rows_a if paired else _rows(b.lengths, block, many, rng)
        for j in range(out.shape[1]):
            middle = np.median(b.values[:, j][rows_b], axis=1)
            out[start : start + many, j] = middle - np.median(a.values[:, j][rows_a], axis=1)
    delta = np.median(b.values, axis=0) - np.median(a.values, axis=0)
    return delta, np.quantile(np.abs(out - out.mean(axis=0)), 0.95, axis=0)


def _rows(
    lengths: tuple[int, ...], block: int, many: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """many x steps: the step numbers of resamples, block by block within each request."""
    size = np.array(lengths)
    blocks = -(-size // block)
    request = np.repeat(np.arange(len(size)), blocks)
    starts = (rng.random((many, len(request))) * size[request]).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(size)[:-1]])[request][:, None]
    inside = (starts[:, :, None] + np.arange(block)) % size[request][:, None]
    drawn = (first + inside).reshape(many, -1)
    # the last block of a request is cut to the request's length
    begins = np.repeat(np.concatenate([[0], np.cumsum(blocks * block)[:-1]]), blocks * block)
    kept = np.arange(drawn.shape[1]) - begins < np.repeat(size, blocks * block)
    return np.asarray(drawn[:, kept])


def _differences(
    a: Series,
    b: Series,
    delta: Floats,
    error: Floats,
    away: Floats,
    shape: Floats,
    medians: tuple[Floats, Floats],
) -> list[Difference]:
    own = np.quantile(shape, 0.95, axis=0)
    own = np.where(own > 0, own, Z975)
    largest = shape.max(axis=1) if shape.size else np.zeros(len(shape))
    out = []
    for j, d in enumerate(delta):
        half = own[j] * error[j]
        if error[j] > 0:
            p = (1 + int((shape[:, j] >= away[j]).sum())) / (1 + len(shape))
            family = (1 + int((largest >= away[j]).sum())) / (1 + len(shape))
        else:  # every step differs by exactly the same, or by nothing at all
            p = family = 1.0 if d == 0 else 1 / (1 + len(shape))
        if d == 0 and error[j] == 0:
            p = family = 1.0
        middle, wide = float(medians[0][j]), float(medians[1][j])
        out.append(
            Difference(
                mean_a=float(a.values[:, j].mean()),
                mean_b=float(b.values[:, j].mean()),
                delta=float(d),
                low=float(d - half),
                high=float(d + half),
                p=p,
                p_family=family,
                median_a=float(np.median(a.values[:, j])),
                median_b=float(np.median(b.values[:, j])),
                median_delta=middle,
                median_low=middle - wide,
                median_high=middle + wide,
            )
        )
    return out
