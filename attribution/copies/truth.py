"""Score the estimate against a sidecar of exact counts.

A sidecar is JSON with `misses`: one list a measured step, one count a layer (an engine's own
record, or the truth of a lab trace). It lines up with the last steps of a process: warm-up comes
first.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from lanescope.attribution.copies.mixture import Floats
from lanescope.schemas.documents.misses import Interval, ScoreRow
from lanescope.schemas.errors import UnusableInput


def load(path: Path) -> np.ndarray:
    """The counts of a sidecar, (steps, layers). Raises `UnusableInput`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise UnusableInput(f"{path}: cannot be read ({exc.strerror})", "check the path") from exc
    except ValueError as exc:
        raise UnusableInput(f"{path}: not JSON ({exc})", "give a JSON file of counts") from exc
    rows = document.get("misses") if isinstance(document, dict) else document
    try:
        counts = np.asarray(rows, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        counts = np.zeros(0, dtype=np.int64)
    if counts.ndim != 2 or counts.size == 0:
        raise UnusableInput(
            f"{path}: no table of counts under 'misses'",
            "one list a step, holding one whole number a layer",
        )
    return counts


def score(frame: pd.DataFrame, means: Floats, whole: Interval, counts: np.ndarray) -> ScoreRow:
    """Score a layer-step frame (`results.layer_step_frame`) and the expected counts `means`.

    Of several processes, the one that the counts agree with best is scored.
    Raises `UnusableInput` when steps or layers do not line up.
    """
    best: ScoreRow | None = None
    shapes = []
    for process, some in frame.groupby("process"):
        layers = np.unique(some["layer"])
        steps = np.unique(some["step"])
        shapes.append(f"{len(steps)} steps x {len(layers)} layers in process {process}")
        if len(layers) != counts.shape[1] or len(steps) < counts.shape[0]:
            continue
        own = frame["process"].nunique() == 1
        row = _score(
            some, means[some.index.to_numpy()], whole if own else None, counts, layers, steps
        )
        if best is None or row.exact > best.exact:
            best = row
    if best is None:
        raise UnusableInput(
            f"the counts ({counts.shape[0]} steps x {counts.shape[1]} layers) do not line up with"
            f" the trace ({'; '.join(shapes)})",
            "give the counts of this capture",
        )
    return best


def _score(
    some: pd.DataFrame,
    means: Floats,
    whole: Interval | None,
    counts: np.ndarray,
    layers: np.ndarray,
    steps: np.ndarray,
) -> ScoreRow:
    first = len(steps) - counts.shape[0]
    step = np.searchsorted(steps, some["step"].to_numpy()) - first
    layer = np.searchsorted(layers, some["layer"].to_numpy())
    known = step >= 0
    true = counts[step[known], layer[known]]
    picked = some[known]
    exact = picked["misses"].to_numpy() == true
    covered = (picked["low"].to_numpy() <= true) & (true <= picked["high"].to_numpy())
    disturbed = picked["disturbed"].to_numpy(dtype=bool)
    mean_true, mean = float(true.mean()), float(means[known].mean())
    return ScoreRow(
        layer_steps=len(true),
        exact=float(exact.mean()),
        covered=float(covered.mean()),
        mean_true=mean_true,
        mean_estimate=mean,
        mean_error=mean / mean_true - 1 if mean_true else 0.0,
        mean_covered=whole is not None and whole.low <= mean_true <= whole.high,
        disturbed_exact=float(exact[disturbed].mean()) if disturbed.any() else None,
        mean_width=float((picked["high"] - picked["low"]).mean()),
    )
