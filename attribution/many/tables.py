"""What a dataset holds of one attribution: the document's lists as Parquet tables.

Columns are the document's fields, so `schemas/documents/attribution.schema.json` explains them;
what is nested in a row is JSON text. Every table has its full schema even where it has no row.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from lanescope.schemas.documents import attribution as doc
from lanescope.schemas.documents.misses import LayerMisses
from lanescope.schemas.findings import Abstention, Finding

_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}

#: One row a failed trace: what was asked for and why there is no result.
FAILURE = pa.schema([("path", pa.string()), ("error", pa.string()), ("exit_code", pa.int64())])
#: One row a trace; `document` is the whole attribution.json.
ATTRIBUTION = pa.schema(
    [
        ("path", pa.string()),
        ("sha256", pa.string()),
        ("kind", pa.string()),
        ("nsys_version", pa.string()),
        ("gpus", pa.string()),
        ("profile", pa.string()),
        ("kernels", pa.int64()),
        ("kernel_sum_ns", pa.int64()),
        ("steps", pa.int64()),
        ("measured", pa.int64()),
        ("wall_ms_mean", pa.float64()),
        ("wall_ms_p50", pa.float64()),
        ("wall_ms_p95", pa.float64()),
        ("verdict", pa.string()),
        ("misses_per_layer_step", pa.float64()),
        ("hit_rate", pa.float64()),
        ("document", pa.string()),
    ]
)


def write(document: doc.AttributionDocument, folder: Path) -> None:
    """Write the tables of one document into `folder`, one file each."""
    launches = document.launches.api if document.launches else []
    prefill = document.prefill.requests if document.prefill else []
    layers = document.misses.per_layer if document.misses else []
    lists: dict[str, tuple[type[BaseModel], Iterable[BaseModel]]] = {
        "buckets": (doc.Bucket, document.buckets),
        "ranks": (doc.RankRow, document.ranks.ranks if document.ranks else []),
        "phases": (doc.PhaseRow, document.phases),
        "kernel_names": (doc.KernelName, document.kernels),
        "api_calls": (doc.ApiCall, launches),
        "prefill": (doc.PrefillRequest, prefill),
        "ranges": (doc.RangeRow, document.ranges),
        "layer_misses": (LayerMisses, layers),
        "warnings": (Finding, document.warnings),
        "abstained": (Abstention, document.abstained),
    }
    for name, (model, rows) in lists.items():
        _write([_row(r) for r in rows], _schema(model), folder / f"{name}.parquet")
    _write([_attribution(document)], ATTRIBUTION, folder / "attributions.parquet")


def write_failure(path: str, error: str, exit_code: int, folder: Path) -> None:
    """Write the table of a trace without a result."""
    row = {"path": path, "error": error, "exit_code": exit_code}
    _write([row], FAILURE, folder / "failures.parquet")


def _write(rows: list[dict[str, Any]], schema: pa.Schema, path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema), path, compression="zstd")


def _attribution(document: doc.AttributionDocument) -> dict[str, Any]:
    steps, misses = document.steps, document.misses
    wall = steps.wall_ms if steps else None
    return {
        "path": document.trace.path,
        "sha256": document.trace.sha256,
        "kind": document.trace.kind,
        "nsys_version": document.trace.nsys_version,
        "gpus": ", ".join(sorted({g.name for g in document.trace.gpus})),
        "profile": document.profile,
        "kernels": document.coverage.kernels,
        "kernel_sum_ns": document.coverage.kernel_sum_ns,
        "steps": steps.count if steps else None,
        "measured": steps.measured if steps else None,
        "wall_ms_mean": wall.mean if wall else None,
        "wall_ms_p50": wall.p50 if wall else None,
        "wall_ms_p95": wall.p95 if wall else None,
        "verdict": document.launches.verdict if document.launches else None,
        "misses_per_layer_step": misses.per_layer_step.estimate if misses else None,
        "hit_rate": misses.hit_rate.estimate if misses and misses.hit_rate else None,
        "document": document.model_dump_json(by_alias=True),
    }


def _row(row: BaseModel) -> dict[str, Any]:
    values = row.model_dump(mode="json")
    return {k: json.dumps(v) if isinstance(v, (list, dict)) else v for k, v in values.items()}


def _schema(model: type[BaseModel]) -> pa.Schema:
    """The Arrow schema of a model's rows; nested values are JSON text."""
    return pa.schema([(n, _arrow(f.annotation)) for n, f in model.model_fields.items()])


def _arrow(annotation: Any) -> pa.DataType:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        kinds = [a for a in typing.get_args(annotation) if a is not type(None)]
        return _arrow(kinds[0]) if len(kinds) == 1 else pa.string()
    return _TYPES.get(annotation, pa.string())
