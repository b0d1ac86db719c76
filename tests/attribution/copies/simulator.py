"""Row copies by a generative model of our own, to hold the estimate against other geometries.

A copy that moves m rows of `row` bytes takes

    latency + max(row / (programs * rate), m * row / link)  (rounded at the corner)

and an empty one the time of a launch. Every duration gets relative and absolute noise, a slow
tail, and the timer's grain. Large copies of another stream share the link: while they run, a row
copy gets `share` of it. Nothing here is taken from the estimator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

RATIOS = (1.0, 0.5, 1 / 16, 1 / 32)


@dataclass(frozen=True)
class Lane:
    """One geometry. Bytes, GB/s (bytes a ns) and ns."""

    layers: int = 24
    steps: int = 60
    routed: int = 8
    mean: float = 2.2
    row: int = 2 << 20
    link: float = 51.5
    programs: int = 32
    rate: float = 2.75  # of one program
    latency: float = 3000.0
    empty: float = 1000.0
    noise: float = 0.004
    jitter: float = 60.0
    ratios: tuple[float, ...] = RATIOS
    disturbed: float = 0.0  # share of steps with a burst of large copies
    share: float = 0.45
    never_zero: bool = False
    blocks: bool = False  # grids tell the tensors apart
    seed: int = 0

    @property
    def row_bytes(self) -> tuple[int, ...]:
        """Bytes of a row of each tensor."""
        return tuple(int(self.row * r) for r in self.ratios)

    def level(self, count: np.ndarray, tensor: int) -> np.ndarray:
        """Undisturbed duration, ns."""
        row = self.row_bytes[tensor]
        alone, full = row / (self.programs * self.rate), count * row / self.link
        q = 6.0
        moving = self.latency + (alone**q + full**q) ** (1 / q) * (
            1 + 0.02 * (count - 1) * (alone > full)
        )
        return np.where(count == 0, self.empty, moving)


def misses(lane: Lane, rng: np.random.Generator) -> np.ndarray:
    """True counts (steps, layers): rows miss independently, layers differ."""
    chance = np.clip(lane.mean / lane.routed * rng.uniform(0.6, 1.4, lane.layers), 0.005, 0.97)
    counts = rng.binomial(lane.routed, chance, (lane.steps, lane.layers))
    return np.maximum(counts, 1) if lane.never_zero else counts


def simulate(lane: Lane) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """(copies, memory, counts): the frames that the estimator takes, and the truth."""
    rng = np.random.default_rng(lane.seed)
    counts = misses(lane, rng)
    tensors = len(lane.ratios)
    clean = np.stack([lane.level(counts, t) for t in range(tensors)], axis=2)
    ns = clean * rng.normal(1, lane.noise, clean.shape) + rng.normal(0, lane.jitter, clean.shape)
    slow = rng.random(clean.shape) < 0.01
    ns = np.maximum(ns * np.where(slow, 1 + rng.exponential(0.06, clean.shape), 1), 200)
    rows, memory = [], []
    clock = 1_000_000
    for step in range(lane.steps):
        burst = None
        if rng.random() < lane.disturbed:
            begin = clock + int(rng.uniform(0, 0.6) * ns[step].sum())
            burst = (begin, begin + 900_000)
            memory += [
                (0, begin + i * 150_000, begin + (i + 1) * 150_000, 8 << 20, "h2d", True)
                for i in range(6)
            ]
        for layer in range(lane.layers):
            for tensor in range(tensors):
                took = float(ns[step, layer, tensor])
                if burst and counts[step, layer]:
                    took = _shared(clock, took, burst, lane.share)
                took = max(32, round(took / 32) * 32)
                grid = lane.programs if not lane.blocks else lane.row_bytes[tensor] // 16384
                rows.append((1, 0, step, clock, took, lane.routed, max(grid, 1), 1))
                clock += took + 1_000
            clock += 40_000
        clock += 400_000
    copies = pd.DataFrame(
        rows,
        columns=[
            "process",
            "device",
            "step",
            "start_ns",
            "duration_ns",
            "grid_x",
            "grid_y",
            "grid_z",
        ],
    )
    traffic = pd.DataFrame(
        memory, columns=["device", "start_ns", "end_ns", "bytes", "kind", "pinned"]
    )
    return copies, traffic, counts


def _shared(start: int, took: float, burst: tuple[int, int], share: float) -> float:
    """Duration of a copy that gets `share` of the link while the burst lasts."""
    before = max(0.0, min(took, burst[0] - start))
    left = took - before
    if left <= 0 or start + before >= burst[1]:
        return took
    window = burst[1] - (start + before)
    if left / share <= window:
        return before + left / share
    return before + window + left - window * share
