"""The kinds of export behind one interface: a SQLite file, or a folder of Parquet tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lanescope.attribution.ingest.reader import Piece, Reader
from lanescope.attribution.ingest.sqlite_export import Present, SqliteExport
from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.nsight import TableSpec, table_specs


class SqliteReader(Reader):
    """A SQLite export."""

    def close(self) -> None:
        """See `Reader`."""
        self._export.close()

    def __init__(self, path: Path, shown: Path) -> None:
        self.shown = shown
        self._export = SqliteExport(path, shown)
        self.bad_cells = self._export.bad_cells
        self._found: dict[str, Present | None] = {}
        self._small: dict[str, pa.Table] = {}

    def meta(self) -> dict[str, str]:
        """What the export says of itself and of the capture, under any of the tables' names."""
        found: dict[str, str] = {}
        for table in ("capture", "meta"):
            for source in table_specs()[table].sources:
                if source in self._export.tables:
                    rows = self._export.rows(f'SELECT name, CAST(value AS TEXT) FROM "{source}"')
                    found |= {str(k): str(v) for k, v in rows if k is not None and v is not None}
                    break
        return found

    def _find(self, spec: TableSpec) -> Present | None:
        if spec.name not in self._found:
            self._found[spec.name] = self._export.find(spec) if spec.columns else None
        return self._found[spec.name]

    def missing_columns(self, spec: TableSpec) -> list[str] | None:
        """See `Reader`."""
        present = self._find(spec)
        return None if present is None else present.missing

    def table(self, spec: TableSpec) -> pa.Table | None:
        """See `Reader`. Tables are kept: they are read more than once and are small."""
        present = self._find(spec)
        if present is None:
            return None
        if spec.name not in self._small:
            pieces = list(self._export.stream(present))
            self._small[spec.name] = (
                pa.concat_tables([p.table for p in pieces])
                if pieces
                else self._export.read(present)
            )
        return self._small[spec.name]

    def pieces(self, spec: TableSpec, by_start: bool, late: Sequence[str] = ()) -> Iterator[Piece]:
        """See `Reader`."""
        present = self._find(spec)
        if present is None:
            return
        if by_start:
            yield from (Piece(table) for table in self._export.sorted_stream(present))
        else:
            yield from self._export.stream(present, late)


class ParquetReader(Reader):
    """A folder of Parquet tables, one file a table (`nsys export --type parquetdir`)."""

    def __init__(self, folder: Path, shown: Path) -> None:
        self.shown = shown
        self.bad_cells = {}
        self._files = {f.stem: f for f in folder.glob("*.parquet")}

    def _file(self, spec: TableSpec) -> Path | None:
        return next((self._files[s] for s in spec.sources if s in self._files), None)

    def meta(self) -> dict[str, str]:
        """What the export says of itself and of the capture, where the folder has it."""
        found: dict[str, str] = {}
        for table in ("capture", "meta"):
            for source in table_specs()[table].sources:
                if source in self._files:
                    rows = self._load(self._files[source], None).to_pylist()
                    found |= {str(r.get("name")): str(r.get("value")) for r in rows}
                    break
        return found

    def _load(self, file: Path, columns: list[str] | None) -> pa.Table:
        try:
            return pq.read_table(file, columns=columns)
        except (pa.ArrowInvalid, OSError) as exc:
            raise self._damaged(file, exc) from exc

    def _damaged(self, file: Path, exc: Exception) -> UnusableInput:
        return UnusableInput(
            f"{self.shown}: damaged Parquet table {file.name} ({str(exc).splitlines()[0]})",
            "export the report again",
        )

    def _columns(self, spec: TableSpec, file: Path) -> dict[str, str]:
        try:
            have = {n.lower(): n for n in pq.read_schema(file).names}
        except (pa.ArrowInvalid, OSError) as exc:
            raise self._damaged(file, exc) from exc
        found = {}
        for col in spec.columns:
            name = next((have[s.lower()] for s in col.sources if s.lower() in have), None)
            if name is not None:
                found[col.name] = name
            elif col.required:
                raise UnusableInput(
                    f"{self.shown}: table {file.stem} has no column {col.sources[0]}",
                    "export the report again with a newer Nsight Systems",
                )
        return found

    def missing_columns(self, spec: TableSpec) -> list[str] | None:
        """See `Reader`."""
        file = self._file(spec)
        if file is None or not spec.columns:
            return None
        found = self._columns(spec, file)
        return [c.name for c in spec.columns if c.name not in found]

    def table(self, spec: TableSpec) -> pa.Table | None:
        """See `Reader`."""
        file = self._file(spec)
        if file is None:
            return None
        found = self._columns(spec, file)
        return _staged(self._load(file, list(found.values())), spec, found)

    def pieces(self, spec: TableSpec, by_start: bool, late: Sequence[str] = ()) -> Iterator[Piece]:
        """See `Reader`. Columns cost little here: none is left out."""
        file = self._file(spec)
        if file is None:
            return
        found = self._columns(spec, file)
        if by_start:
            whole = self._load(file, list(found.values())).sort_by(found["start_ns"])
            yield Piece(_staged(whole, spec, found))
            return
        import pyarrow.dataset as ds  # brings pandas along: only where it is needed

        try:
            scanner = ds.dataset(file).scanner(columns=list(found.values()), batch_size=262_144)
            for batch in scanner.to_batches():
                yield Piece(_staged(pa.Table.from_batches([batch]), spec, found))
        except (pa.ArrowInvalid, OSError) as exc:
            raise self._damaged(file, exc) from exc


def _staged(table: pa.Table, spec: TableSpec, found: dict[str, str]) -> pa.Table:
    """Rename to the staged names and cast to int64 or string."""
    columns = {}
    for col in spec.columns:
        kind = pa.string() if col.text else pa.int64()
        if col.name not in found:
            columns[col.name] = pa.nulls(table.num_rows, kind)
            continue
        values = table.column(found[col.name])
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_uint64(values.type):  # packed ids may have the top bit set
            values = pa.chunked_array([c.view(pa.int64()) for c in values.chunks], type=pa.int64())
        columns[col.name] = pc.cast(values, kind, safe=False)
    return pa.table(columns)
