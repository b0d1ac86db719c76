"""Tables read from their pages hold what SQLite says of them; odd ones are left to SQLite."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.attribution.ingest import sqlite_export
from lanescope.attribution.ingest.sqlite_export import SqliteExport
from lanescope.attribution.ingest.sqlite_pages import Layout, Leaves, PageFile, Unplain
from lanescope.schemas.nsight import Column, TableSpec

Rows = list[tuple[Any, ...]]

#: Every length an integer is kept in, its bounds, and NULL.
EDGES = [
    value
    for bits in (7, 15, 23, 31, 47, 63)
    for value in (-(1 << bits), (1 << bits) - 1, -(1 << (bits - 1)), 1 << (bits - 1))
]
cells = st.one_of(
    st.none(), st.sampled_from([0, 1, -1, *EDGES]), st.integers(-(1 << 63), (1 << 63) - 1)
)
others = st.one_of(
    st.none(), st.integers(-5, 300), st.floats(allow_nan=False), st.text(max_size=90)
)
row_ids = st.one_of(
    st.integers(1, 400).map(lambda n: list(range(1, n + 1))),
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=400, unique=True),
)


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    """Make a table `t` of a definition and rows (with their row ids) in pages of a size."""

    def make(columns: str, rows: Rows, page: int = 1024, later: str = "") -> Path:
        path = tmp_path / "t.sqlite"
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as con, con:
            con.execute(f"PRAGMA page_size = {page}")
            con.execute(f"CREATE TABLE t ({columns})")
            marks = ", ".join("?" * len(rows[0]))
            names = [r[1] for r in con.execute("PRAGMA table_info(t)")][: len(rows[0]) - 1]
            quoted = ", ".join(f'"{n}"' for n in ["rowid", *names])
            con.executemany(f"INSERT INTO t ({quoted}) VALUES ({marks})", rows)
            con.executescript(later)
        return path

    return make


def spec(*names: str) -> TableSpec:
    return TableSpec("t", ("t",), tuple(Column(n, (n,)) for n in names))


def streamed(path: Path, *names: str) -> Rows:
    with closing(SqliteExport(path, path)) as export:
        present = export.find(spec(*names))
        assert present is not None
        tables = [piece.table for piece in export.stream(present)]
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def by_sqlite(path: Path, *names: str) -> Rows:
    """Cells that are not integers count as NULL."""
    wanted = ", ".join(f"CASE WHEN typeof({n}) = 'integer' THEN {n} END" for n in names)
    with closing(sqlite3.connect(path)) as con:
        return con.execute(f"SELECT {wanted} FROM t ORDER BY rowid").fetchall()


@pytest.fixture
def read_by_sqlite(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pieces that SQLite had to read."""
    asked: list[str] = []
    plain = SqliteExport._read

    def spying(self: SqliteExport, present: Any, where: str) -> Any:
        asked.append(where)
        return plain(self, present, where)

    monkeypatch.setattr(SqliteExport, "_read", spying)
    return asked


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_export, "ROWS_A_READ", 50)


@given(
    data=st.data(),
    ids=row_ids,
    page=st.sampled_from([512, 1024, 4096, 65536]),
    gone=st.integers(0, 5),
)
def test_any_table_of_integers_is_read_as_sqlite_reads_it(
    data: st.DataObject,
    ids: list[int],
    page: int,
    gone: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    seed = random.Random(data.draw(st.integers(0, 1 << 32)))
    kinds = data.draw(st.lists(st.sampled_from([cells, others]), min_size=1, max_size=30))
    some = [data.draw(st.lists(kind, min_size=1, max_size=6)) for kind in kinds]
    rows = [(i, *(seed.choice(values) for values in some)) for i in ids]
    names = [f"c{n}" for n in range(len(kinds))]
    wanted = [n for n, kind in zip(names, kinds, strict=True) if kind is cells] or names[:1]
    path = tmp_path_factory.mktemp("any") / "t.sqlite"
    types = ["BIGINT" if kind is cells else "BLOB" for kind in kinds]
    with closing(sqlite3.connect(path)) as con, con:
        con.execute(f"PRAGMA page_size = {page}")
        con.execute(f"CREATE TABLE t ({', '.join(map(' '.join, zip(names, types, strict=True)))})")
        marks = ", ".join("?" * (1 + len(names)))
        con.executemany(f"INSERT INTO t (rowid, {', '.join(names)}) VALUES ({marks})", rows)
        if gone:
            con.execute("DELETE FROM t WHERE rowid % 7 < ?", (gone,))
    assert streamed(path, *wanted) == by_sqlite(path, *wanted)


def test_integers_of_every_length_are_read_from_the_pages(
    made: Callable[..., Path], read_by_sqlite: list[str]
) -> None:
    rows: Rows = [(i + 1, value, None, i % 2, f"{i}" * 9) for i, value in enumerate(EDGES * 20)]
    path = made("a INTEGER, b INTEGER, c INT, d TEXT", rows)
    assert streamed(path, "a", "b", "c") == [row[1:4] for row in rows]
    assert read_by_sqlite == []


@pytest.mark.parametrize(
    ("columns", "rows", "later"),
    [
        pytest.param("a INTEGER, b", [(1, 5, "x" * 3000), (2, 6, "")], "", id="overflow pages"),
        pytest.param("a INTEGER, b", [(1, 5, "x" * 90), (2, 6, "")], "", id="a long text before"),
        pytest.param("a INTEGER", [(1, 5), (2, "text"), (3, 2.5)], "", id="cells of other types"),
        pytest.param("a REAL", [(1, 5), (2, 7)], "", id="integers kept for floats"),
        pytest.param("a INTEGER PRIMARY KEY, b", [(7, 7, 1), (9, 9, 1)], "", id="the row id"),
        pytest.param(
            "b INTEGER",
            [(1, 5)],
            "ALTER TABLE t ADD COLUMN a INTEGER DEFAULT 8; INSERT INTO t VALUES (3, 4)",
            id="a column added later",
        ),
        pytest.param(
            "a INTEGER, b INTEGER AS (a * 2) VIRTUAL", [(1, 5), (2, 6)], "", id="a computed column"
        ),
        pytest.param(
            ", ".join(f"c{n} INTEGER" for n in range(130)) + ", a INTEGER",
            [(1, *range(131)), (2, *range(131))],
            "",
            id="a wide table",
        ),
    ],
)
def test_what_is_odd_is_read_by_sqlite(
    made: Callable[..., Path], read_by_sqlite: list[str], columns: str, rows: Rows, later: str
) -> None:
    path = made(columns, rows, later=later)
    assert streamed(path, "a") == by_sqlite(path, "a")
    assert read_by_sqlite


def test_a_record_that_goes_on_elsewhere_is_told_by_its_length(made: Callable[..., Path]) -> None:
    """A page of 512 bytes, filled so that the last record would end within it, and does not."""
    texts = ", ".join(f"t{n} TEXT" for n in range(9))
    rows: Rows = [
        (n, "s" * length, *[""] * 8, 1, 0) for n, length in enumerate([*[30] * 9, 26], start=1)
    ]
    rows.append((11, *["L" * 57] * 8, "LL", 0x11223344, 0x55667788))
    path = made(f"{texts}, a INTEGER, b INTEGER", rows, page=512)
    assert streamed(path, "a", "b") == [row[-2:] for row in rows]


@pytest.mark.parametrize("taken", ["rowid", "rowid INTEGER, _rowid_", "rowid, _rowid_, oid"])
def test_columns_may_be_called_what_sql_calls_the_row_id(tmp_path: Path, taken: str) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as con, con:
        con.execute(f"CREATE TABLE t (a INTEGER, {taken})")
        con.executemany("INSERT INTO t (a, rowid) VALUES (?, ?)", [(i, i % 10) for i in range(900)])
    assert streamed(path, "a") == [(i,) for i in range(900)]
    assert streamed(path, "a", "rowid") == [(i, i % 10) for i in range(900)]


def test_pages_that_cannot_be_read_are_left_to_sqlite(
    made: Callable[..., Path], read_by_sqlite: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made("a INTEGER", [(i, i) for i in range(1, 900)])

    def failing(*_args: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.preadv", failing)
    assert streamed(path, "a") == [(i,) for i in range(1, 900)]
    assert read_by_sqlite


def test_tables_without_row_ids_and_views_are_read_by_sqlite(made: Callable[..., Path]) -> None:
    path = made("b INTEGER", [(1, 5)])
    for definition in (
        "CREATE TABLE {} (a INTEGER PRIMARY KEY, b INTEGER) WITHOUT ROWID;"
        " INSERT INTO t VALUES (4, 5)",
        "CREATE TABLE u (a INTEGER, b INTEGER); INSERT INTO u VALUES (4, 5);"
        " CREATE VIEW {} AS SELECT * FROM u",
    ):
        path.unlink()
        with closing(sqlite3.connect(path)) as con:
            con.executescript(definition.format("t"))
        assert streamed(path, "a", "b") == [(4, 5)]


def test_damage_is_noticed_or_harmless(made: Callable[..., Path]) -> None:
    """Whatever byte is wrong: SQLite's answer, or SQLite is asked."""
    seed = random.Random(7)
    rows: Rows = [
        (i + 1, seed.choice(EDGES), None, seed.choice([0, 1, 300]), "x" * seed.randrange(50))
        for i in range(600)
    ]
    path = made("a INTEGER, b INTEGER, c INTEGER, d TEXT", rows)
    layout = Layout(4, {"a": 0, "b": 1, "c": 2})
    sound = path.read_bytes()
    read = 0
    for _ in range(300):
        damaged = bytearray(sound)
        at = seed.randrange(1024, len(damaged))
        if seed.random() < 0.4:
            at -= at % 1024 - seed.randrange(12)  # a page's header
        damaged[at] = seed.choice([0, 255, 128, seed.randrange(256)])
        path.write_bytes(damaged)
        with closing(PageFile(path)) as file:
            try:
                leaves = Leaves.of(file, 2)
                tables = [leaves.read(ids, layout) for ids in leaves.pieces(range(1, 601), 100)]
            except Unplain:
                continue
        with closing(sqlite3.connect(path)) as con:
            con.text_factory = bytes
            expected = con.execute("SELECT a, b, c FROM t").fetchall()
        assert [tuple(r.values()) for t in tables for r in t.to_pylist()] == expected
        read += 1
    assert read > 50


def test_row_ids_far_apart_take_no_longer(made: Callable[..., Path]) -> None:
    """Pieces are leaves, not spans of row ids: 2^62 of these would never end."""
    rows: Rows = [(1, "a", 5), (1 << 62, "b", 6)]
    path = made("name TEXT, a INTEGER", rows)
    with closing(SqliteExport(path, path)) as export:
        named = TableSpec("t", ("t",), (Column("name", ("name",), text=True), Column("a", ("a",))))
        present = export.find(named)
        assert present is not None
        found = [row for piece in export.stream(present) for row in piece.table.to_pylist()]
    assert found == [{"name": "a", "a": 5}, {"name": "b", "a": 6}]


def test_a_table_with_none_of_the_columns_has_rows_still(made: Callable[..., Path]) -> None:
    assert streamed(made("b INTEGER", [(1, 5), (2, 6)]), "a") == [(None,), (None,)]


def test_a_file_that_ends_early_is_not_plain(made: Callable[..., Path]) -> None:
    path = made("a INTEGER", [(i, i) for i in range(1, 900)])
    path.write_bytes(path.read_bytes()[:-1024])
    with pytest.raises(Unplain):
        PageFile(path)
