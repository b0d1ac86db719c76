"""What the copies of a step are: how many make a layer-step, how many layers, which tensors.

Learnt from the trace, strongest sign first: layers named in the capture, grids that repeat, other
kernels (or time) between the layer-steps, and the durations themselves. What a profile states is
held against what is learnt and never averaged with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from lanescope.attribution.copies.mixture import Floats

#: steps that the structure is learnt from
LEARN_FROM = 2_000
#: a sign must agree with a structure in this share of the places to carry it
AGREES = 0.98
#: durations repeat with a period that explains at least this share of their variance
REPEATS = 0.4


@dataclass(frozen=True)
class Structure:
    """Copies per layer-step and layers per step, what told them, and what contradicts them."""

    copies: int
    layers: int
    basis: str
    contradictions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LayerSteps:
    """One row a layer-step: `frame` has process, device, step, layer, position, start_ns, measured

    and request where known; `ns` (n, C) the durations of its copies in launch order; `rows` (n, C)
    the places of those copies in the table they came from. `left_out` copies belong to no whole
    layer-step.
    """

    frame: pd.DataFrame
    ns: Floats
    rows: np.ndarray
    structure: Structure
    left_out: int


def learn(copies: pd.DataFrame, stated_copies: int | None, stated_layers: int | None) -> Structure:
    """Learn the structure from the copies of verification steps, ordered by (step, start)."""
    first, sizes = _steps_of(copies)
    per_step = int(np.bincount(sizes).argmax())
    first = first[sizes == per_step]
    first = first[:: -(-len(first) // LEARN_FROM)]  # evenly over the trace
    whole = copies.iloc[(first[:, None] + np.arange(per_step)).ravel()]
    periods = [p for p in range(1, per_step + 1) if per_step % p == 0]
    found, basis = None, ""
    for name, sign in (
        ("layer ranges of the capture", _by_layer),
        ("grids that repeat", _by_grid),
        ("kernels between the copies", _by_between),
        ("pauses between the copies", _by_pause),
    ):
        found = sign(whole, per_step, periods)
        if found is not None:
            basis = name
            break
    contradictions = []
    if found is None and stated_copies and per_step % stated_copies == 0:
        found, basis = stated_copies, "the profile"
    if found is None:
        found, basis = _by_duration(whole, per_step, periods), "durations that repeat"
    layers = per_step // found
    if stated_copies and stated_copies != found:
        contradictions.append(
            f"the profile names {stated_copies} tensors, the trace has {found} copies a layer-step"
            f" ({basis})"
        )
    if stated_layers and stated_layers != layers:
        contradictions.append(
            f"the profile states {stated_layers} layers, the trace has {layers} ({basis})"
        )
    return Structure(found, layers, basis, contradictions)


def _steps_of(copies: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Where each step begins in `copies` (ordered by step), and how many copies it has."""
    step = copies.step.to_numpy()
    first = np.flatnonzero(np.concatenate([[True], step[1:] != step[:-1]]))
    return first, np.diff(np.append(first, len(step)))


def _grid(whole: pd.DataFrame, per_step: int) -> np.ndarray:
    cells = whole[["grid_x", "grid_y", "grid_z"]].to_numpy().reshape(-1, per_step, 3)
    return np.asarray(np.median(cells, axis=0))


def _by_layer(whole: pd.DataFrame, per_step: int, periods: list[int]) -> int | None:
    if "layer" not in whole or whole.layer.isna().any():
        return None
    runs = whole.groupby(["step", "layer"], sort=False).size()
    period = int(runs.mode().iloc[0])
    return period if period in periods and (runs == period).mean() >= AGREES else None


def _by_grid(whole: pd.DataFrame, per_step: int, periods: list[int]) -> int | None:
    """The shortest period of the grids; grids that are all alike tell nothing."""
    grid = _grid(whole, per_step)
    if (grid == grid[0]).all():
        return None
    for period in periods:
        if period < per_step and (grid == np.tile(grid[:period], (per_step // period, 1))).all():
            return period
    return None


def _by_between(whole: pd.DataFrame, per_step: int, periods: list[int]) -> int | None:
    if "between" not in whole:
        return None
    between = whole.between.to_numpy(dtype=float).reshape(-1, per_step)
    return _boundary(between, _typical(whole, per_step), periods)


def _by_pause(whole: pd.DataFrame, per_step: int, periods: list[int]) -> int | None:
    start = whole.start_ns.to_numpy().reshape(-1, per_step)
    stop = start + whole.duration_ns.to_numpy().reshape(-1, per_step)
    pause = np.zeros(start.shape)
    pause[:, 1:] = start[:, 1:] - stop[:, :-1]
    return _boundary(pause, _typical(whole, per_step), periods)


def _typical(whole: pd.DataFrame, per_step: int) -> Floats:
    """High log duration (90 %) at each place of a step: launches without a miss tell nothing."""
    logs = np.log(np.maximum(whole.duration_ns.to_numpy(), 1)).reshape(-1, per_step)
    return np.asarray(np.quantile(logs, 0.9, axis=0))


def _boundary(signal: Floats, typical: Floats, periods: list[int]) -> int | None:
    """The shortest period at whose boundaries alone the signal is high.

    Of several, the shortest by which the durations repeat as well.
    """
    level = np.median(signal, axis=0)
    level[0] = level.max()
    found = None
    for period in periods:
        if period in (1, len(level)):
            continue  # every copy a layer-step of its own, or all one: no boundary shows it
        edge = np.arange(len(level)) % period == 0
        low = np.quantile(level[edge], 1 - AGREES)
        if low > 1.5 * max(level[~edge].max(), 0) + 0.5:
            if _explains(typical, period) > 0.5:
                return period
            found = found or period
    return found


def _explains(typical: Floats, period: int) -> float:
    """Share of the variance of the places' durations that a period explains (adjusted R2)."""
    n, total = len(typical), typical.var()
    if total < 1e-4 or period >= n:
        return 1.0 if period == 1 or total < 1e-4 else 0.0
    means = np.tile(typical.reshape(-1, period).mean(axis=0), n // period)
    left = ((typical - means) ** 2).mean() / total
    return float(1 - left * (n - 1) / (n - period))


def _by_duration(whole: pd.DataFrame, per_step: int, periods: list[int]) -> int:
    """The shortest period that explains the durations about as well as any."""
    scores = [_explains(_typical(whole, per_step), p) if p > 1 else 0.0 for p in periods]
    if max(scores) < REPEATS:
        return 1
    return next(p for p, s in zip(periods, scores, strict=True) if s >= max(scores) - 0.05)


def assemble(copies: pd.DataFrame, structure: Structure) -> LayerSteps:
    """Cut the copies of every step into layer-steps. `copies` is one process and device, ordered.

    A step with another number of copies than the rule (cut by the window's edge, say) keeps its
    whole layer-steps when it is a multiple of the period, and is left out otherwise.
    """
    begin, sizes = _steps_of(copies)
    whole = sizes % structure.copies == 0
    fits = np.repeat(whole, sizes)
    rows = np.flatnonzero(fits).reshape(-1, structure.copies)
    heads = rows[:, 0]
    position = (heads - np.repeat(begin, sizes)[heads]) // structure.copies
    first = copies.iloc[heads]
    frame = pd.DataFrame(
        {c: first[c].to_numpy(np.int64) for c in ("process", "device", "step", "start_ns")}
    )
    frame["position"] = position
    known = "layer" in copies and not copies.layer[fits].isna().any()
    frame["layer"] = first.layer.to_numpy(dtype=np.int64) if known else position
    frame["measured"] = first["measured"].to_numpy(dtype=bool) if "measured" in copies else True
    if "request" in copies:
        frame["request"] = first["request"].to_numpy(dtype=np.int64)
    ns = copies.duration_ns.to_numpy()[rows].astype(np.float64)
    return LayerSteps(frame, ns, rows, structure, int((~fits).sum()))
