"""Read the tables of a SQLite export as Arrow, in parallel, whatever single cells hold.

SQLite columns have no enforced type: one cell of text in an integer column is legal. The fast
query trusts the column and is repeated with a guard when a cell turns out not to be an integer;
the guard reads such cells as NULL and counts them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_sqlite
import pyarrow as pa

from lanescope.attribution.ingest.ids import Ints
from lanescope.attribution.ingest.reader import Piece
from lanescope.attribution.ingest.sqlite_pages import WIDEST, Layout, Leaves, PageFile, Unplain
from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.nsight import Column, TableSpec

#: Rows read by one query; some 25 MB of Arrow for the widest table.
ROWS_A_READ = 262_144
_READERS = 2
#: As many rows are looked up one by one; for more their piece is read.
_SINGLE_ROWS = 200
_AHEAD = 4

#: ADBC raises OSError for what SQLite reports while rows stream.
_DB_ERRORS = (adbc_driver_manager.Error, pa.ArrowInvalid, OSError)


@dataclass
class Present:
    """A staged table as one export has it: its name there and the columns that exist."""

    spec: TableSpec
    source: str
    columns: dict[str, str]  # staged name -> name in the export
    missing: list[str] = field(default_factory=list)
    row_id: str = "rowid"  # what SQL calls the row id there; '' where columns took every name

    def without(self, names: Sequence[str]) -> Present:
        """The table without some of its columns."""
        return self.only([c.name for c in self.spec.columns if c.name not in names])

    def only(self, names: Sequence[str]) -> Present:
        """The table with some of its columns, in their order."""
        columns = tuple(c for c in self.spec.columns if c.name in names)
        return Present(
            replace(self.spec, columns=columns),
            self.source,
            {n: source for n, source in self.columns.items() if n in names},
            [n for n in self.missing if n in names],
            self.row_id,
        )


#: What SQL calls the row id, unless a column has the name.
_ROW_IDS = ("rowid", "_rowid_", "oid")


class SqliteExport:
    """One SQLite export, read only; `immutable` keeps SQLite from writing beside it."""

    def __init__(self, path: Path, shown: Path) -> None:
        """`path` is read; `shown` is the name that errors give (a compressed source's own)."""
        self.shown = shown
        self._uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
        self._local = threading.local()
        self._open: list[Any] = []  # connections, each before its database
        self.bad_cells: dict[tuple[str, str], int] = {}
        self._file: PageFile | None = None
        try:
            self.tables = self._table_names()
            with suppress(Unplain):
                self._file = PageFile(path)
        except BaseException:
            self.close()
            raise

    def _table_names(self) -> set[str]:
        try:
            names = self._query("SELECT name FROM sqlite_master WHERE type IN ('table','view')")
        except _DB_ERRORS as exc:
            raise self._unreadable(exc) from exc
        if not names.num_rows:
            raise UnusableInput(
                f"{self.shown}: a SQLite file without tables", "export the report again"
            )
        return {str(n) for n in names.column(0).to_pylist()}

    def close(self) -> None:
        """Let go of the file. No thread may be reading."""
        while self._open:
            self._open.pop(0).close()
        if self._file is not None:
            self._file.close()

    def _unreadable(self, exc: BaseException) -> UnusableInput:
        reason = str(exc).split(": ", 1)[-1].splitlines()[0]
        return UnusableInput(
            f"{self.shown}: damaged SQLite file ({reason})", "copy it again, or export it again"
        )

    def _query(self, sql: str) -> pa.Table:
        with self._batches(sql) as batches:
            return batches.read_all()

    @contextmanager
    def _batches(self, sql: str) -> Iterator[pa.RecordBatchReader]:
        """The result of a query as Arrow batches, over one connection a thread.

        The driver's own layer is used: its Python database interface imports pandas.
        """
        if not hasattr(self._local, "con"):
            database = adbc_driver_sqlite.connect(self._uri)
            self._local.con = adbc_driver_manager.AdbcConnection(database)
            self._open += [self._local.con, database]
        with adbc_driver_manager.AdbcStatement(self._local.con) as statement:
            statement.set_options(**{"adbc.sqlite.query.batch_rows": "65536"})
            statement.set_sql_query(sql)
            handle, _ = statement.execute_query()
            with pa.RecordBatchReader._import_from_c(handle.address) as batches:
                yield batches

    def scalar(self, sql: str) -> Any:
        """The first cell of a query."""
        return self._query(sql).column(0)[0].as_py()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a small query."""
        try:
            table = self._query(sql)
        except _DB_ERRORS as exc:
            raise self._unreadable(exc) from exc
        return list(zip(*(c.to_pylist() for c in table.columns), strict=True))

    def find(self, spec: TableSpec) -> Present | None:
        """The export's version of a staged table; None when it has no such table.

        Raises `UnusableInput` when the table lacks a column that nothing can replace.
        """
        source = next((s for s in spec.sources if s in self.tables), None)
        if source is None:
            return None
        info = self._query(f"SELECT name FROM pragma_table_info({_text(source)})")
        have = {str(n).lower(): str(n) for n in info.column(0).to_pylist()}
        columns: dict[str, str] = {}
        missing: list[str] = []
        for col in spec.columns:
            found = next((have[s.lower()] for s in col.sources if s.lower() in have), None)
            if found is not None:
                columns[col.name] = found
                continue
            missing.append(col.name)
            if col.required:
                raise UnusableInput(
                    f"{self.shown}: table {source} has no column {col.sources[0]}",
                    "export the report again with a newer Nsight Systems",
                )
        return Present(
            spec, source, columns, missing, next((n for n in _ROW_IDS if n not in have), "")
        )

    def read(self, present: Present) -> pa.Table:
        """A whole (small) table, one Arrow column a staged column."""
        try:
            return self._read(present, "")
        except _DB_ERRORS as exc:
            raise self._unreadable(exc) from exc

    def stream(self, present: Present, late: Sequence[str] = ()) -> Iterator[Piece]:
        """A table in pieces, in row order; pieces are read ahead by two threads.

        The columns `late` are left out and read for single rows. Raises `UnusableInput` for a
        damaged file.
        """
        every = self._row_ids(present)
        if every is None:
            yield Piece(self.read(present))
            return
        if not every:
            return
        first_ones, row_id = present.without(late), present.row_id
        try:
            leaves, layout = self._leaves(present.source), self._layout(first_ones)
        except _DB_ERRORS as exc:
            raise self._unreadable(exc) from exc
        with ThreadPoolExecutor(_READERS) as pool:
            pending: list[Future[Piece]] = []

            def piece(ids: range) -> Piece:
                where = f" WHERE {row_id} >= {ids.start} AND {row_id} < {ids.stop}"
                table = _decoded(leaves, layout, ids, first_ones)
                if table is None:
                    table = self._read(first_ones, where)
                if not late:
                    return Piece(table)
                whole = table.num_rows == ids.stop - ids.start  # a position tells the row id
                return Piece(table, partial(self._late, present, where, ids if whole else None))

            try:
                for ids in _cut(every, leaves):
                    pending.append(pool.submit(piece, ids))
                    if len(pending) >= _AHEAD:
                        yield pending.pop(0).result()
                while pending:
                    yield pending.pop(0).result()
            except _DB_ERRORS as exc:
                raise self._unreadable(exc) from exc
            finally:
                for future in pending:
                    future.cancel()

    def _row_ids(self, present: Present) -> range | None:
        """The row ids there may be; None for a table that has none."""
        if not present.row_id:
            return None
        table, row_id = _name(present.source), present.row_id
        try:  # asked for together, SQLite would read every row
            found = self._query(
                f"SELECT (SELECT min({row_id}) FROM {table}), (SELECT max({row_id}) FROM {table})"
            )
        except _DB_ERRORS:  # a view
            return None
        low, high = (found.column(i)[0].as_py() for i in (0, 1))
        return range(0) if low is None else range(low, high + 1)

    def _leaves(self, table: str) -> Leaves | None:
        """Where the table's rows lie; None where only SQLite can find them."""
        if self._file is None:
            return None
        root = self.scalar(
            "SELECT coalesce(max(rootpage), 0) FROM sqlite_master"
            f" WHERE type = 'table' AND name = {_text(table)}"
        )
        try:
            return Leaves.of(self._file, root)
        except Unplain:
            return None

    def _layout(self, present: Present) -> Layout | None:
        """Where the columns lie in a record; None where a cell is not what SQLite makes of it."""
        if not present.columns or any(c.text for c in present.spec.columns):
            return None
        declared = self._query(
            f"SELECT name, upper(type), hidden, pk FROM pragma_table_xinfo({_text(present.source)})"
        )
        names, types, hidden, keys = (c.to_pylist() for c in declared.columns)
        wanted = {column: names.index(source) for column, source in present.columns.items()}
        # a key may be kept as the row id; a column of another affinity may turn integers into
        # floats; hidden columns are not, or not always, in the record
        plain = all("INT" in types[at] and not keys[at] for at in wanted.values())
        plain = plain and not any(hidden) and len(names) <= WIDEST
        return Layout(len(names), wanted) if plain else None

    def _late(
        self, present: Present, where: str, ids: range | None, columns: Sequence[str], rows: Ints
    ) -> pa.Table:
        """Some columns of the rows at `rows` of the piece `where`, whose row ids are `ids`."""
        some, row_id = present.only(columns), present.row_id
        try:
            if ids is None or len(rows) > _SINGLE_ROWS:
                return self._read(some, where).take(pa.array(rows))
            wanted = ", ".join(str(ids[int(row)]) for row in rows)
            return self._read(some, f" WHERE {row_id} IN ({wanted}) ORDER BY {row_id}")
        except _DB_ERRORS as exc:
            raise self._unreadable(exc) from exc

    def sorted_stream(self, present: Present) -> Iterator[pa.Table]:
        """A table in pieces, ordered by its start column: for exports that are not sorted."""
        start = _name(present.columns["start_ns"])
        order = f" ORDER BY {', '.join(filter(None, (start, present.row_id)))}"
        total = int(self.scalar(f"SELECT count(*) FROM {_name(present.source)}"))
        try:
            if total <= ROWS_A_READ:
                yield self._read(present, order)
                return
            with self._batches(_select(present, guarded=True) + order) as batches:
                for batch in batches:
                    yield _typed(pa.Table.from_batches([batch]), present)
        except _DB_ERRORS as exc:
            raise self._unreadable(exc) from exc

    def _read(self, present: Present, where: str) -> pa.Table:
        try:
            table = self._query(_select(present, guarded=False) + where)
            if _well_typed(table, present):
                return _typed(table, present)
        except _DB_ERRORS:
            pass  # a cell of another type past the first batch, or a damaged page: try with care
        table = self._query(_select(present, guarded=True) + where)
        self._count_bad(present, where)
        return _typed(table, present)

    def _count_bad(self, present: Present, where: str) -> None:
        for col in present.spec.columns:
            if col.text or col.name not in present.columns:
                continue
            cell = _name(present.columns[col.name])
            bad = self.scalar(
                f"SELECT coalesce(sum(typeof({cell}) NOT IN ('integer','null')), 0)"
                f" FROM {_name(present.source)}{where}"
            )
            if bad:
                key = (present.source, present.columns[col.name])
                self.bad_cells[key] = self.bad_cells.get(key, 0) + int(bad)


def _cut(every: range, leaves: Leaves | None) -> Iterator[range]:
    """Row ids in pieces."""
    if leaves is not None:
        yield from leaves.pieces(every, ROWS_A_READ)
        return
    for first in range(every.start, every.stop, ROWS_A_READ):
        yield range(first, min(first + ROWS_A_READ, every.stop))


def _decoded(
    leaves: Leaves | None, layout: Layout | None, ids: range, present: Present
) -> pa.Table | None:
    """One piece read from its pages; None where SQLite has to read it."""
    if leaves is None or layout is None:
        return None
    try:
        return _typed(leaves.read(ids, layout), present)
    except Unplain:
        return None


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _select(present: Present, guarded: bool) -> str:
    cells = []
    for col in present.spec.columns:
        if col.name not in present.columns:
            continue
        cell = _name(present.columns[col.name])
        if col.text:
            # Bytes: a name may hold NUL or invalid UTF-8. The marker keeps NULL and '' apart.
            cells.append(
                f"CASE WHEN {cell} IS NULL THEN CAST('n' AS BLOB)"
                f" ELSE CAST('t' || CAST({cell} AS TEXT) AS BLOB) END AS {_name(col.name)}"
            )
        elif guarded:
            cells.append(
                f"CASE WHEN typeof({cell}) = 'integer' THEN {cell} END AS {_name(col.name)}"
            )
        else:
            cells.append(f"{cell} AS {_name(col.name)}")
    return f"SELECT {', '.join(cells or ['1'])} FROM {_name(present.source)}"


def _well_typed(table: pa.Table, present: Present) -> bool:
    text = {c.name for c in present.spec.columns if c.text}
    return all(f.name in text or pa.types.is_int64(f.type) for f in table.schema)


def _typed(table: pa.Table, present: Present) -> pa.Table:
    """The staged columns in their order: int64 or string, NULL where the export has no column."""
    columns = {}
    for col in present.spec.columns:
        if col.name not in present.columns:
            kind = pa.string() if col.text else pa.int64()
            columns[col.name] = pa.nulls(table.num_rows, kind)
        elif col.text:
            columns[col.name] = _decode(table.column(col.name))
        else:
            columns[col.name] = _integers(table.column(col.name), col)
    return pa.table(columns)


def _integers(column: pa.ChunkedArray, col: Column) -> pa.ChunkedArray:
    if pa.types.is_int64(column.type):
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.int64())
    raise pa.ArrowInvalid(f"column {col.name} has type {column.type}")


def _decode(column: pa.ChunkedArray) -> pa.Array:
    """Marked bytes to text: NUL and invalid UTF-8 are shown, never fatal."""
    out: list[str | None] = []
    for raw in column.to_pylist():
        if raw is None or raw[:1] != b"t":
            out.append(None)
            continue
        out.append(raw[1:].decode("utf-8", "replace").replace("\x00", "\ufffd"))
    return pa.array(out, pa.string())
