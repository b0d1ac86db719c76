"""kernels.parquet is written by looking up; the view `kernels_out` joins: the two must agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from lanescope.attribution import kernels_out
from lanescope.attribution.attribute import analyse
from tests.conftest import trace_path


@pytest.mark.parametrize("name", ["k1", "eager", "mixed", "twoproc", "gpus_index", "graphlevel"])
def test_written_kernels_equal_the_view(name: str, tmp_path: Path) -> None:
    with analyse(trace_path(name)) as analysis:
        written = tmp_path / "kernels.parquet"
        kernels_out.Writer(analysis).write(written)
        analysis.con.read_parquet(str(written)).create_view("written")
        for one, other in (("written", "kernels_out"), ("kernels_out", "written")):
            missing = analysis.rows(
                f"SELECT count(*) AS n FROM (FROM {one} EXCEPT ALL FROM {other})"
            )
            assert missing == [{"n": 0}]
        order = analysis.rows(
            "SELECT count(*) AS n FROM (SELECT start_ns < lag(start_ns) OVER () AS back"
            " FROM written) WHERE back"
        )
        assert order == [{"n": 0}]
