"""SQL over a whole dataset, read only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from lanescope.attribution.many.dataset import MARKER
from lanescope.schemas.errors import UnusableInput, UsageError

#: view -> one row a what. Every view has the column `trace`, the trace's name in the dataset.
VIEWS = {
    "attributions": "trace: path, GPUs, kernels, steps, wall, verdict, and the whole document",
    "failures": "trace without a result, and why",
    "steps": "(verification step, device), as steps.parquet",
    "step_buckets": "(verification step, device, bucket)",
    "buckets": "bucket over the measured steps",
    "phases": "(process, device, phase, part, range name)",
    "ranks": "(process, device) of a trace with several: wall, slowest, wait, its buckets as JSON",
    "kernel_names": "kernel function over the measured steps",
    "api_calls": "kind of API call within the measured steps",
    "prefill": "prefill",
    "ranges": "NVTX range name",
    "layer_misses": "cached layer: misses a step",
    "layer_steps": "layer-step: misses with their interval",
    "kernels": "kernel execution",
    "warnings": "warning",
    "abstained": "withheld value, and why",
}


@dataclass(frozen=True)
class Answer:
    """The rows of a query, and the types of its columns."""

    rows: pa.Table


def query(dataset: Path, sql: str) -> Answer:
    """The answer of one SELECT over the views of `VIEWS`.

    Raises `UnusableInput` when there is no dataset, `UsageError` for SQL that is no single SELECT
    or does not run.
    """
    if not (dataset / MARKER).is_file():
        raise UnusableInput(
            f"{dataset}: no dataset of lanescope", "make one: lanescope attribute A B --out DATASET"
        )
    with duckdb.connect() as con:
        con.execute("SET enable_progress_bar = false")
        _views(con, dataset)
        con.execute("SET allowed_directories = [getvariable('dataset')]")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
        try:
            statements = con.extract_statements(sql)
            if [s.type for s in statements] != [duckdb.StatementType.SELECT]:
                raise UsageError("one SELECT is what query answers", "views: " + ", ".join(VIEWS))
            return Answer(con.sql(sql).to_arrow_table())
        except duckdb.Error as exc:
            line = str(exc).splitlines()[0]
            raise UsageError(line, "see lanescope query --help for the views") from exc


def _views(con: duckdb.DuckDBPyConnection, dataset: Path) -> None:
    con.execute("SET VARIABLE dataset = ?", [str(dataset.absolute())])
    for view in VIEWS:
        files = sorted(str(f) for f in dataset.absolute().glob(f"trace=*/{view}.parquet"))
        if files:
            relation = con.read_parquet(files, hive_partitioning=True, union_by_name=True)
            relation.create_view(view)
