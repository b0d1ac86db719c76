"""How many LRU misses a prediction of the next step's experts would have covered.

A miss is covered when its expert was predicted for that pass. Predicted rows that are neither
resident nor asked for are copied for nothing: `wasted`. Where predicted rows would wait (a staging
area, or slots taken from the cache) is left out: coverage is the ceiling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lanescope.attribution.replay import kernels
from lanescope.attribution.replay.jit import each
from lanescope.attribution.replay.policies import Mask, Scope, layer_misses, policy
from lanescope.attribution.replay.trace import LayerRequests, RoutingTrace
from lanescope.schemas.documents.replay import Coverage
from lanescope.schemas.errors import UnusableInput

#: rows that may be fetched ahead per layer-step, for the oracle
_AHEAD = (1, 2, 4, 8)


@dataclass(frozen=True)
class Predictions:
    """Predicted experts by layer, cached pass and rank; -1 where there are fewer."""

    name: str
    experts: NDArray[np.int32]

    @classmethod
    def read(cls, path: Path, trace: RoutingTrace, cached: Mask) -> Predictions:
        """Parquet with `step`, `layer` and `e0` ... `e{m-1}`: what was predicted for that pass.

        m need not be top-k; -1 or null is no prediction. A layer-step without a row has none.
        Rows of passes that are not in the trace are an error: the file belongs to another one.
        """
        try:
            table = pq.ParquetFile(path).read()
        except (OSError, pa.ArrowInvalid) as exc:
            raise UnusableInput(f"{path}: {exc}", "predictions are Parquet") from exc
        names = [f"e{i}" for i in range(len(table.column_names)) if f"e{i}" in table.column_names]
        if not names or not {"step", "layer"} <= set(table.column_names):
            raise UnusableInput(
                f"{path}: columns {', '.join(table.column_names)}",
                "predictions have step, layer and e0, e1, ...",
            )
        step = table["step"].to_numpy().astype(np.int64)
        layer = table["layer"].to_numpy().astype(np.int64)
        ids = trace.step_ids[cached]
        at_step = np.searchsorted(ids, step)
        at_layer = np.searchsorted(trace.layers, layer)
        fits = (at_step < len(ids)) & (at_layer < len(trace.layers))
        fits[fits] = (ids[at_step[fits]] == step[fits]) & (
            np.array(trace.layers)[at_layer[fits]] == layer[fits]
        )
        if not fits.all():
            first = int(np.flatnonzero(~fits)[0])
            raise UnusableInput(
                f"{path}: step {step[first]}, layer {layer[first]} is not in the trace",
                "predictions must be for this trace",
            )
        experts = np.full((len(trace.layers), len(ids), len(names)), -1, np.int32)
        for rank, name in enumerate(names):
            column = table[name].fill_null(-1).to_numpy().astype(np.int64)
            if (column >= trace.n_experts).any():
                raise UnusableInput(
                    f"{path}: {name} holds {column.max()}, of {trace.n_experts} experts"
                )
            experts[at_layer, at_step, rank] = column
        return cls(path.name, experts)


def coverage(
    trace: RoutingTrace,
    requests: list[LayerRequests],
    slots: Mapping[int, int],
    scope: Scope,
    given: Predictions | None,
) -> tuple[Coverage, ...]:
    """The previous pass, an oracle with so many rows ahead, and a predictor file, side by side."""
    lru = policy("lru")

    def one(index: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        layer = requests[index]
        room = slots[trace.layers[index]]
        misses = layer_misses(layer, lru, room, scope.scored)[scope.scored]
        rows = [_against(layer, _previous(layer), room, scope.scored)]
        if given is not None:
            rows.append(_against(layer, given.experts[index], room, scope.scored))
        return np.array(rows), misses

    by_layer = each(one, range(len(requests)))
    counts = np.sum([layer[0] for layer in by_layer], axis=0)  # predictor x (covered, wasted)
    misses = np.stack([layer[1] for layer in by_layer])
    total = max(1, int(misses.sum()))
    names = ["previous step", *([given.name] if given else [])]
    found = [
        Coverage(
            predictor=name,
            covered=int(counts[i, 0]) / total,
            fetched_for_nothing=int(counts[i, 1]) / misses.size,
        )
        for i, name in enumerate(names)
    ]
    for ahead in _AHEAD:
        covered = int(np.minimum(misses, ahead).sum())
        label = f"oracle, {ahead} row{'s' * (ahead > 1)} ahead"
        found.append(Coverage(predictor=label, covered=covered / total, fetched_for_nothing=0.0))
    found.append(Coverage(predictor="oracle", covered=1.0, fetched_for_nothing=0.0))
    return tuple(found)


def _previous(layer: LayerRequests) -> NDArray[np.int32]:
    """Each pass predicted to ask for what the pass before it asked for."""
    table = np.full((layer.steps, layer.largest), -1, np.int32)
    widths = np.diff(layer.starts)
    within = np.arange(len(layer.experts)) - np.repeat(layer.starts[:-1], widths)
    table[np.repeat(np.arange(layer.steps), widths), within] = layer.experts
    table[1:] = table[:-1].copy()
    table[:1] = -1
    return table


def _against(
    layer: LayerRequests, predicted: NDArray[np.int32], slots: int, scored: Mask
) -> NDArray[np.int64]:
    """Covered misses and wasted copies of one layer over the scored passes."""
    counts: NDArray[np.int64] = kernels.lru_covered(
        layer.experts, layer.starts, predicted, min(slots, layer.n_experts), layer.n_experts, scored
    )
    return counts
