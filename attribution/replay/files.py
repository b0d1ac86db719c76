"""Routing traces as files: Parquet as the product writes it, NumPy arrays, columns by other names.

The format is described in `docs/replay-semantics.md`. Whatever a file holds ends as one
`RoutingTrace`, or as one line that says what is wrong with it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lanescope.attribution.replay.trace import BYPASS_OVER, Ints, RoutingTrace
from lanescope.schemas.errors import UnusableInput, UsageError

SCHEMA = "lanescope.routing/1"
METADATA_KEY = b"lanescope"
MAX_EXPERTS = 65_535

#: layer, token and picks (rows, top-k) of the rows of a table
Rows = tuple[Ints, Ints, NDArray[Any]]
_ROLES = ("step", "token", "layer", "experts", "prefill")


def read_trace(
    path: Path,
    columns: Mapping[str, str] | None = None,
    n_experts: int | None = None,
    axes: str = "tlk",
) -> RoutingTrace:
    """The trace in `path`: `.parquet`, `.csv`, `.npy` or `.npz`.

    `columns` maps a role (step, token, layer, experts, prefill) to the file's own name: for
    experts the name of a list column, or the prefix of numbered ones. `axes` names the axes of a
    NumPy array: t tokens, l layers, k picks. Raises UnusableInput for anything that is not a
    whole trace.
    """
    if not path.is_file():
        raise UnusableInput(f"{path}: no such file", "give a routing trace")
    unknown = set(columns or {}) - set(_ROLES)
    if unknown:
        raise UsageError(f"no column role {sorted(unknown)[0]!r}", f"roles: {', '.join(_ROLES)}")
    try:
        if path.suffix in (".npy", ".npz"):
            trace = _from_numpy(path, axes, n_experts)
        else:
            trace = _from_table(path, dict(columns or {}), n_experts)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError, EOFError) as exc:
        raise UnusableInput(
            f"{path}: {exc}", "a routing trace is Parquet, CSV, .npy or .npz"
        ) from exc
    return trace


def write_trace(trace: RoutingTrace, path: Path, force: bool = False) -> None:
    """Write `trace` as Parquet, layer after layer; a file appears whole or not at all."""
    step_of = np.repeat(trace.step_ids, np.diff(trace.step_starts))
    prefill_of = np.repeat(trace.prefill, np.diff(trace.step_starts))
    tokens = np.arange(trace.tokens)
    wide = np.uint8 if trace.n_experts <= 256 else np.uint16
    fields = [("step", pa.int32()), ("token", pa.int32()), ("layer", pa.int16())]
    fields += [(f"e{i}", pa.from_numpy_dtype(wide)) for i in range(trace.top_k)]
    fields += [("prefill", pa.bool_())] if trace.prefill.any() else []
    about = {
        "schema": SCHEMA,
        "experts": trace.n_experts,
        "top_k": trace.top_k,
        "bypass_over": trace.bypass_over,
        "source": trace.source,
    }
    schema = pa.schema(fields, metadata={METADATA_KEY: json.dumps(about).encode()})
    with (
        _Whole(path, force) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as out,
    ):
        for i, layer in enumerate(trace.layers):
            arrays = [step_of, tokens, np.full(trace.tokens, layer)]
            arrays += [trace.experts[i, :, j] for j in range(trace.top_k)]
            arrays += [prefill_of] if trace.prefill.any() else []
            cells = [pa.array(a).cast(f.type) for a, f in zip(arrays, schema, strict=True)]
            out.write_table(pa.table(cells, schema=schema))


class _Whole:
    """A temporary name beside `path` that takes its place when nothing went wrong."""

    def __init__(self, path: Path, force: bool) -> None:
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        if path.exists() and not force:
            raise UsageError(f"{path} exists", "--force overwrites it")

    def __enter__(self) -> Path:
        if not self.path.parent.is_dir():
            raise UsageError(f"{self.path.parent}: no such folder", "make it first")
        return self.temporary

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.temporary.replace(self.path)
        else:
            self.temporary.unlink(missing_ok=True)


whole_file = _Whole


def _from_table(path: Path, columns: dict[str, str], n_experts: int | None) -> RoutingTrace:
    table, about = _table(path)
    layer, token, picks = _rows(path, table, columns)
    step = _integers(path, table, columns.get("step", "step"), required="step" in columns)
    prefill = np.zeros(len(layer), np.bool_)
    prefill_name = columns.get("prefill", "prefill")
    if prefill_name in table.column_names:
        prefill = pc.fill_null(table[prefill_name].cast(pa.bool_()), False).to_numpy()
    elif "prefill" in columns:
        raise UnusableInput(f"{path}: no column {prefill_name!r}", _mapping_hint(table))
    step = token if step is None else step
    return _assemble(path, picks, layer, token, step, prefill, n_experts, about)


def raw_columns(path: Path, columns: Mapping[str, str]) -> Rows | None:
    """Layer, token and picks of each row, however they fit together; none if unreadable."""
    try:
        return _rows(path, _table(path)[0], columns)
    except (UnusableInput, pa.ArrowInvalid, OSError, ValueError):
        return None


def _table(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    if path.suffix == ".csv":
        return pyarrow.csv.read_csv(path), {}
    table = pq.ParquetFile(path).read()
    return table, _about(path, (table.schema.metadata or {}).get(METADATA_KEY))


def _rows(
    path: Path, table: pa.Table, columns: Mapping[str, str]
) -> tuple[Ints, Ints, NDArray[Any]]:
    """Layer, token and picks of each row. Without a token column, rows count within their layer."""
    picks = _picks(path, table, columns.get("experts"))
    layer = _integers(path, table, columns.get("layer", "layer"))
    token = _integers(path, table, columns.get("token", "token"), required="token" in columns)
    return layer, _numbered_within_layer(layer) if token is None else token, picks


def _about(path: Path, raw: bytes | None) -> dict[str, Any]:
    if raw is None:
        return {}
    about = json.loads(raw)
    if not isinstance(about, dict) or about.get("schema") != SCHEMA:
        said = about.get("schema") if isinstance(about, dict) else about
        raise UnusableInput(f"{path}: its metadata says {said!r}", f"expected {SCHEMA}")
    return about


def _picks(path: Path, table: pa.Table, name: str | None) -> NDArray[Any]:
    """Expert ids, shape (rows, top-k), from numbered columns or a list column."""
    for prefix in [name] if name else ["e", "expert_", "experts"]:
        if prefix in table.column_names and pa.types.is_nested(table.schema.field(prefix).type):
            column = table[prefix].combine_chunks()
            lengths = np.unique(pc.list_value_length(column).to_numpy(zero_copy_only=False))
            if len(lengths) != 1 or not np.isfinite(lengths[0]):
                raise UnusableInput(f"{path}: lists of unequal length in column {prefix!r}")
            ids = column.flatten().to_numpy(zero_copy_only=False)
            return _whole_numbers(path, prefix, ids).reshape(len(column), -1)
        numbered = [c for c in table.column_names if re.fullmatch(re.escape(prefix) + r"\d+", c)]
        if numbered:
            numbered.sort(key=lambda c: int(c[len(prefix) :]))
            parts = [_whole_numbers(path, c, table[c].to_numpy()) for c in numbered]
            return np.stack(parts, axis=1)
    raise UnusableInput(f"{path}: no expert columns", _mapping_hint(table))


def _mapping_hint(table: pa.Table) -> str:
    return f"name them with --column ROLE=NAME; the file has {', '.join(table.column_names[:12])}"


def _integers(path: Path, table: pa.Table, name: str, required: bool = True) -> Any:
    if name not in table.column_names:
        if required:
            raise UnusableInput(f"{path}: no column {name!r}", _mapping_hint(table))
        return None
    return _whole_numbers(path, name, table[name].to_numpy()).astype(np.int64)


def _whole_numbers(path: Path, name: str, values: NDArray[Any]) -> NDArray[Any]:
    """The values as integers, as narrow as the file has them: a trace has tens of millions."""
    if values.dtype.kind not in "iuf":
        raise UnusableInput(f"{path}: column {name!r} holds {values.dtype}, not integers")
    if values.dtype.kind == "f" and not np.array_equal(values, np.floor(values)):
        raise UnusableInput(f"{path}: column {name!r} holds empty or fractional values")
    return values if values.dtype.kind in "iu" else values.astype(np.int64)


def _numbered_within_layer(layer: Ints) -> Ints:
    """Rows counted within their layer, in file order."""
    order = np.argsort(layer, kind="stable")
    _, starts, counts = np.unique(layer[order], return_index=True, return_counts=True)
    token = np.empty(len(layer), np.int64)
    token[order] = np.arange(len(layer)) - np.repeat(starts, counts)
    return token


def _assemble(
    path: Path,
    picks: NDArray[Any],
    layer: Ints,
    token: Ints,
    step: Ints,
    prefill: NDArray[np.bool_],
    n_experts: int | None,
    about: dict[str, Any],
) -> RoutingTrace:
    """Rows in any order -> arrays by layer and token; refuses gaps, doubles and contradictions."""
    if len(layer) == 0:
        raise UnusableInput(f"{path}: no rows")
    layers = np.unique(layer)
    rows = len(layer)
    if (np.diff(layer) < 0).any() or (np.diff(token)[np.diff(layer) == 0] <= 0).any():
        order = np.lexsort((token, layer))
        picks, layer, token = picks[order], layer[order], token[order]
        step, prefill = step[order], prefill[order]
    n_tokens = rows // len(layers)
    by_layer = token.reshape(len(layers), -1) if rows == n_tokens * len(layers) else None
    if by_layer is None or (by_layer != by_layer[0]).any() or (np.diff(by_layer[0]) <= 0).any():
        raise UnusableInput(
            f"{path}: {rows:,} rows are not every token in each of {len(layers)} layers once",
            "rows are missing or doubled; `lanescope replay check` counts them",
        )
    for what, values in (("step", step), ("prefill", prefill)):
        if (values.reshape(len(layers), -1) != values[:n_tokens]).any():
            raise UnusableInput(f"{path}: the {what} of a token differs between layers")
    step, prefill = step[:n_tokens], prefill[:n_tokens]
    if (np.diff(step) < 0).any():
        at = int(np.flatnonzero(np.diff(step) < 0)[0]) + 1
        raise UnusableInput(
            f"{path}: the step falls from {step[at - 1]} to {step[at]} at token {at}"
        )
    return from_arrays(
        picks.reshape(len(layers), n_tokens, -1),
        step=step,
        prefill=prefill,
        layers=tuple(int(x) for x in layers),
        n_experts=n_experts or about.get("experts"),
        bypass_over=int(about.get("bypass_over", BYPASS_OVER)),
        source=path.name,
    )


def from_arrays(
    experts: NDArray[Any],
    step: Ints | None = None,
    prefill: NDArray[np.bool_] | None = None,
    layers: tuple[int, ...] | None = None,
    n_experts: int | None = None,
    bypass_over: int = BYPASS_OVER,
    source: str = "array",
) -> RoutingTrace:
    """A trace from expert ids of shape (layers, tokens, top-k) and the step of each token."""
    if experts.ndim != 3 or 0 in experts.shape or experts.dtype.kind not in "iu":
        raise UnusableInput(
            f"{source}: an array of shape {experts.shape} and type {experts.dtype}",
            "expert ids are integers with three axes: tokens, layers, picks",
        )
    low, high = int(experts.min()), int(experts.max())
    size = n_experts or high + 1
    if low < 0 or high >= size or size > MAX_EXPERTS:
        raise UnusableInput(
            f"{source}: expert ids from {low} to {high} do not fit {size} experts",
            f"ids run from 0; at most {MAX_EXPERTS} experts",
        )
    n_tokens = experts.shape[1]
    step = np.arange(n_tokens, dtype=np.int64) if step is None else step
    prefill = np.zeros(n_tokens, np.bool_) if prefill is None else prefill
    if len(step) != n_tokens or len(prefill) != n_tokens:
        raise UnusableInput(f"{source}: {len(step)} steps for {n_tokens} tokens")
    first = np.flatnonzero(np.append(True, np.diff(step) != 0))
    starts = np.append(first, n_tokens).astype(np.int64)
    if (np.repeat(prefill[first], np.diff(starts)) != prefill).any():
        raise UnusableInput(f"{source}: a step mixes prefill tokens and others")
    names = tuple(range(experts.shape[0])) if layers is None else layers
    if len(names) != experts.shape[0]:
        raise UnusableInput(f"{source}: {len(names)} layer numbers for {experts.shape[0]} layers")
    return RoutingTrace(
        experts=np.ascontiguousarray(experts, dtype=np.uint16),
        step_starts=starts,
        prefill=np.ascontiguousarray(prefill[first]),
        layers=names,
        n_experts=size,
        step_ids=np.ascontiguousarray(step[first], dtype=np.int64),
        bypass_over=bypass_over,
        source=source,
    )


def _from_numpy(path: Path, axes: str, n_experts: int | None) -> RoutingTrace:
    if sorted(axes) != sorted("tlk"):
        raise UsageError(f"--axes {axes}", "an order of the letters t, l and k")
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        parts: dict[str, NDArray[Any]] = {"experts": loaded}
    else:
        parts = {name: loaded[name] for name in loaded.files}
    if "experts" not in parts:
        raise UnusableInput(f"{path}: no array 'experts', only {', '.join(parts)}")
    ids = parts["experts"]
    if ids.ndim != 3:
        raise UnusableInput(f"{path}: 'experts' has {ids.ndim} axes", "tokens, layers, picks")
    layers = parts.get("layers")
    return from_arrays(
        ids.transpose([axes.index(axis) for axis in "ltk"]),
        step=parts["step"].astype(np.int64) if "step" in parts else None,
        prefill=parts["prefill"].astype(np.bool_) if "prefill" in parts else None,
        layers=None if layers is None else tuple(int(x) for x in layers),
        n_experts=n_experts or (int(parts["n_experts"]) if "n_experts" in parts else None),
        source=path.name,
    )
