"""Miss files, and an engine's own counts held against the replay, layer-step by layer-step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lanescope.attribution.replay.files import whole_file
from lanescope.attribution.replay.policies import Misses, Scope
from lanescope.attribution.replay.trace import Ints, RoutingTrace
from lanescope.schemas.documents.replay import Agreement
from lanescope.schemas.errors import UnusableInput

SCHEMA = "lanescope.misses/1"


def write_misses(
    path: Path, trace: RoutingTrace, misses: Misses, scope: Scope, force: bool = False
) -> None:
    """One row per layer-step that went through the cache: step, layer, misses, routed rows."""
    steps = trace.step_ids[scope.cached]
    routed = np.diff(trace.step_starts)[scope.cached] * trace.top_k
    layers = np.array(trace.layers)
    table = pa.table(
        {
            "step": pa.array(np.tile(steps, len(layers)), pa.int32()),
            "layer": pa.array(np.repeat(layers, len(steps)), pa.int16()),
            "misses": pa.array(misses.reshape(-1), pa.int32()),
            "routed": pa.array(np.tile(routed, len(layers)), pa.int32()),
        }
    ).replace_schema_metadata({"lanescope": json.dumps({"schema": SCHEMA})})
    with whole_file(path, force) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def agreement(path: Path, trace: RoutingTrace, misses: Misses, scope: Scope) -> Agreement:
    """The engine's counts in `path` beside `misses` (layers, cached passes).

    `path` is a miss file (Parquet) or JSON with `misses[step][layer]`; the latter has no step
    numbers, so it must hold as many steps as the trace, or as the scored ones.
    """
    layer, step, counts = _read(path, trace, scope)
    mine = misses[layer, step]
    wrong = np.flatnonzero(mine != counts)
    first = ""
    if len(wrong):
        at = wrong[np.lexsort((layer[wrong], step[wrong]))[0]]
        first = (
            f"step {trace.step_ids[scope.cached][step[at]]}, layer {trace.layers[layer[at]]}: "
            f"engine {counts[at]}, replay {mine[at]}"
        )
    return Agreement(
        file=path.name,
        layer_steps=len(counts),
        equal=len(counts) - len(wrong),
        engine_misses=int(counts.sum()),
        replay_misses=int(mine.sum()),
        first_difference=first,
    )


def _read(path: Path, trace: RoutingTrace, scope: Scope) -> tuple[Ints, Ints, Ints]:
    """Layer index, cached pass index, misses of each row."""
    if not path.is_file():
        raise UnusableInput(f"{path}: no such file", "give the engine's miss counts")
    if path.suffix == ".json":
        return _read_json(path, trace, scope)
    try:
        table = pq.ParquetFile(path).read(["step", "layer", "misses"])
    except (pa.ArrowInvalid, OSError) as exc:
        raise UnusableInput(f"{path}: {exc}", f"expected {SCHEMA} or JSON") from exc
    if table.num_columns != 3 or table.num_rows == 0:
        raise UnusableInput(
            f"{path}: {table.num_rows} rows of {', '.join(table.column_names) or 'no columns'}",
            "a miss file has step, layer and misses",
        )
    step, layer, counts = (
        table[c].to_numpy().astype(np.int64) for c in ("step", "layer", "misses")
    )
    at_step = _positions(path, "step", step, trace.step_ids[scope.cached])
    at_layer = _positions(path, "layer", layer, np.array(trace.layers))
    return at_layer, at_step, counts


def _positions(path: Path, what: str, values: Ints, known: Ints) -> Ints:
    """Where each value stands in `known`, which ascends; all of them must."""
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    strange = np.flatnonzero(known[at] != values)
    if len(strange):
        raise UnusableInput(
            f"{path}: {what} {values[strange[0]]} did not go through the cache in this trace",
            "the file belongs to another trace, or bypassed passes were counted",
        )
    return at


def _read_json(path: Path, trace: RoutingTrace, scope: Scope) -> tuple[Ints, Ints, Ints]:
    try:
        body: Any = json.loads(path.read_text())
        counts: NDArray[np.int64] = np.array(
            body["misses"] if isinstance(body, dict) else body, np.int64
        )
    except (ValueError, KeyError, TypeError, OSError) as exc:
        raise UnusableInput(f"{path}: {exc}", "expected misses[step][layer]") from exc
    for chosen in (np.ones(len(scope.scored), np.bool_), ~scope.prefill, scope.scored):
        steps = np.flatnonzero(chosen)
        if counts.shape == (len(steps), len(trace.layers)):
            layers = np.arange(len(trace.layers))
            return np.tile(layers, len(steps)), np.repeat(steps, len(layers)), counts.reshape(-1)
    raise UnusableInput(
        f"{path}: misses of shape {counts.shape}",
        f"the trace has {len(trace.layers)} layers, {len(scope.scored)} cached passes "
        f"({int(scope.scored.sum())} scored)",
    )
