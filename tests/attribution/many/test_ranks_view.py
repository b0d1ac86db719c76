"""Ranks of a trace in the dataset."""

from __future__ import annotations

from pathlib import Path

import pytest

from lanescope.attribution.many.query import query
from lanescope.profiler.cli.main import main
from tests.conftest import trace_path


def test_ranks_are_rows_of_the_dataset(tmp_path: Path) -> None:
    traces = [str(trace_path(n)) for n in ("gpus_index", "k1")]
    with pytest.raises(SystemExit) as ended:
        main(["attribute", *traces, "--out", str(tmp_path / "d")])
    assert ended.value.code == 0
    sql = (
        "SELECT process, device, steps, (wall_ms->>'max')::DOUBLE AS longest,"
        " (buckets->'$[0]'->>'bucket') AS most FROM ranks ORDER BY process"
    )
    rows = query(tmp_path / "d", sql).rows.to_pylist()
    walls = query(
        tmp_path / "d",
        "SELECT process, max(wall_ns) / 1e6 AS longest FROM steps WHERE measured"
        " AND trace LIKE 'gpus%' GROUP BY process ORDER BY process",
    ).rows.to_pylist()
    assert [(r["process"], r["longest"]) for r in rows] == [
        (w["process"], w["longest"]) for w in walls
    ]
    assert [(r["device"], r["steps"], r["most"]) for r in rows] == [
        (0, 40, "row_copy"), (1, 40, "row_copy"),
    ]  # fmt: skip
