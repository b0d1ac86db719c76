"""What the intervals of `lanescope compare` cover, on lanes whose truth is known.

`python -m benchmarks.coverage [PAIRS]` simulates lane pairs and prints three tables as Markdown:

* coverage: one figure of a step, autocorrelated (AR 1) and skewed, with a known difference. How
  often the 95 % interval holds it, and how often a pair without a difference is called different;
* the family: thirteen figures of a k1-like lane together, no difference in any. How often any one
  of them is called different;
* a planted slowdown of 3 % of one bucket. How often that bucket is certain, and named first.

The k1-like lane has the bundled sample's means and spreads by bucket: 4 requests of 35 steps. Its
row copies follow the misses, which two lanes share when they serve the same requests (`same
routing`), and do not when routing differs (`other routing`).
"""

from __future__ import annotations

import sys
import time

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from lanescope.attribution.lanes.bootstrap import Series, compare

Floats = NDArray[np.float64]
RESAMPLES = 500
SHAPES = {"4 x 35": (35,) * 4, "8 x 64": (64,) * 8, "ragged": (12, 50, 31, 80, 20)}
#: bucket -> mean ms a step, spread of a step relative to it, and the part that misses explain
K1 = {
    "row_copy": (3.784, 0.003, 0.088),
    "routed_moe": (0.749, 0.0037, 0.0),
    "attention": (0.649, 0.0008, 0.0),
    "dense_gemm": (0.292, 0.0050, 0.0),
    "elementwise": (0.266, 0.0023, 0.0),
    "bookkeeping": (0.124, 0.0182, 0.0),
    "reduction": (0.102, 0.0191, 0.0),
    "gather_scatter": (0.035, 0.0049, 0.0),
    "sampling": (0.007, 0.0146, 0.0),
}


def innovations(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> Floats:
    """Independent draws of mean 0 and variance 1."""
    if kind == "normal":
        return rng.normal(size=shape)
    if kind == "lognormal":  # skewness 3.7
        raw = rng.lognormal(0.0, 0.8, size=shape)
        return (raw - np.exp(0.32)) / np.sqrt((np.exp(0.64) - 1) * np.exp(0.64))
    raw = rng.normal(size=shape) * 0.5 + (rng.random(shape) < 0.03) * 6 - 0.18  # rare stalls
    return raw / np.sqrt(0.25 + 36 * 0.03 * 0.97)


def lane(
    rng: np.random.Generator, lengths: tuple[int, ...], rho: float, kind: str, metrics: int = 1
) -> Floats:
    """Steps x metrics of AR(1) noise with variance 1, request after request."""
    parts = []
    for length in lengths:
        fresh = innovations(rng, (length + 30, metrics), kind)  # thirty to forget the start
        parts.append(lfilter([np.sqrt(1 - rho**2)], [1, -rho], fresh, axis=0)[30:])
    return np.concatenate(parts)


def coverage(pairs: int) -> list[list[str]]:
    """One row a kind of lane."""
    rows = []
    for name, lengths in SHAPES.items():
        for rho in (0.0, 0.3, 0.6, 0.8):
            for kind in ("normal", "lognormal", "stalls"):
                rng = np.random.default_rng([17, len(rows)])
                held, called = np.zeros(2), np.zeros(2)
                for _ in range(pairs):
                    a, b = (lane(rng, lengths, rho, kind) for _ in range(2))
                    for i, paired in enumerate((True, False)):
                        [d] = compare(
                            Series(a, lengths),
                            Series(b + 0.5, lengths),
                            paired,
                            RESAMPLES,
                            medians=False,
                        )
                        held[i] += d.low <= 0.5 <= d.high
                        # the interval moves with the difference: this is the test of no difference
                        called[i] += not d.low <= 0.5 <= d.high
                cells = [f"{100 * held[i] / pairs:.1f}" for i in range(2)]
                cells += [f"{100 * called[i] / pairs:.1f}" for i in range(2)]
                rows.append([name, f"{rho:g}", kind, *cells])
    return rows


def k1_like(rng: np.random.Generator, misses: Floats, slow: str = "") -> Floats:
    """Steps x (wall, busy, sum, idle, buckets) in ms; `misses` has mean 0 and variance 1."""
    columns = []
    for bucket, (mean, spread, explained) in K1.items():
        noise = lane(rng, (35,) * 4, 0.2, "lognormal")[:, 0]
        values = mean * (1 + spread * noise + explained * misses)
        columns.append(values * (1.03 if bucket == slow else 1.0))
    busy = np.sum(columns, axis=0)
    idle = 0.438 * (1 + 0.05 * lane(rng, (35,) * 4, 0.2, "lognormal")[:, 0])
    return np.stack([busy + idle, busy, busy, idle, *columns], axis=1)


def k1_pairs(pairs: int, slow: str, same: bool) -> tuple[float, float]:
    """Shares of pairs in which the slow bucket (or anything) is certain, and named first.

    First means what the headline names: the largest of the changes that are certain.
    """
    lengths = (35,) * 4
    names = ["wall", "busy", "sum", "idle", *K1]
    rng = np.random.default_rng([23, names.index(slow) if slow else 0, same])
    any_, first = 0, 0
    for _ in range(pairs):
        draws = [lane(rng, lengths, 0.0, "normal")[:, 0] for _ in range(2)]
        misses = [draws[0], draws[0] if same else draws[1]]
        a, b = k1_like(rng, misses[0]), k1_like(rng, misses[1], slow)
        found = compare(Series(a, lengths), Series(b, lengths), True, RESAMPLES, medians=False)
        sure = {n: abs(d.delta) for n, d in zip(names, found, strict=True) if d.sure()}
        buckets = {n: size for n, size in sure.items() if n in K1}
        any_ += slow in sure if slow else bool(sure)
        first += bool(buckets) and max(buckets, key=buckets.__getitem__) == slow
    return any_ / pairs, first / pairs


def table(title: str, head: list[str], rows: list[list[str]]) -> None:
    """Print Markdown."""
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{' ---: |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def main(pairs: int = 2000) -> None:
    """Print the tables."""
    begun = time.perf_counter()
    head = ["requests x steps", "rho", "noise", "covers %, paired", "covers %, unpaired"]
    head += ["called different %, paired", "unpaired"]
    table(f"Coverage of 95 % intervals, {pairs:,} pairs a row", head, coverage(pairs))
    few = max(100, pairs // 2)
    rows = []
    for label, same in (("same routing", True), ("other routing", False)):
        called, _ = k1_pairs(few, "", same)
        rows.append([label, f"{100 * called:.1f}"])
    table(
        f"No difference, thirteen figures of a k1-like lane, {few:,} pairs",
        ["lanes", "any called different %"],
        rows,
    )
    rows = []
    for bucket in K1:
        found, first = k1_pairs(few, bucket, True)
        other, _ = k1_pairs(few, bucket, False)
        rows.append([bucket, f"{100 * found:.1f}", f"{100 * first:.1f}", f"{100 * other:.1f}"])
    table(
        f"One bucket slowed by 3 %, k1-like lanes, {few:,} pairs",
        ["bucket", "found %, same routing", "and named first %", "found %, other routing"],
        rows,
    )
    print(f"\n{time.perf_counter() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
