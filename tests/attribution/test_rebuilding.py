"""Launches rebuilt from device rows: the earliest start of each process and correlation id."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lanescope.attribution.ingest.reader import Piece
from lanescope.attribution.ingest.readers import SqliteReader
from lanescope.attribution.ingest.rebuilding import rebuilt_launches
from lanescope.schemas.nsight import TableSpec

Row = tuple[int | None, int | None, int | None]
ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from([0, 1 << 24, -(1 << 62)]),
        st.none() | st.integers(-1, 5),
        st.none() | st.integers(-1, 30),
    )
)


class Pieces(SqliteReader):
    """A reader of the kernels given, two rows a piece."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def pieces(self, spec: TableSpec, by_start: bool, late: Sequence[str] = ()) -> Iterator[Piece]:
        names = ("global_pid", "correlation_id", "start_ns")
        for at in range(0, len(self.rows) if spec.name == "kernels" else 0, 2):
            columns = zip(*self.rows[at : at + 2], strict=True)
            arrays = {n: pa.array(c, pa.int64()) for n, c in zip(names, columns, strict=True)}
            yield Piece(pa.table(arrays))


@given(ROWS, st.randoms())
def test_as_a_dictionary_would_have_it(rows: list[Row], shuffler: random.Random) -> None:
    first: dict[tuple[int | None, int], int] = {}
    for pid, correlation, start in rows:
        if (correlation or 0) > 0 and (start or 0) > 0:
            assert correlation is not None
            assert start is not None
            key = (pid, correlation)
            first[key] = min(first.get(key, start), start)
    wanted = sorted((start, pid or 0, c) for (pid, c), start in first.items())
    shuffler.shuffle(rows)
    got = rebuilt_launches(Pieces(rows))
    columns = ("start_ns", "global_tid", "correlation_id")
    assert list(zip(*(got.column(c).to_pylist() for c in columns), strict=True)) == wanted
    assert got.column("end_ns").equals(got.column("start_ns"))
    assert got.column("name_id").null_count == got.num_rows
