"""What every kind of export offers to staging."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lanescope.attribution.ingest.ids import Ints
from lanescope.schemas.nsight import TableSpec


@dataclass(frozen=True)
class Piece:
    """Some rows of a table. `late` reads columns that `table` lacks, of single rows by position."""

    table: pa.Table
    late: Callable[[Sequence[str], Ints], pa.Table] | None = None

    def at(self, columns: Sequence[str], rows: Ints) -> pa.Table:
        """Some columns of some rows (ascending positions in the piece)."""
        if self.late is not None:
            return self.late(columns, rows)
        return self.table.select(columns).take(pa.array(rows))


class Reader:
    """What an export must offer to be staged; one implementation a kind of input."""

    shown: Path
    bad_cells: dict[tuple[str, str], int]
    #: whether processes share correlation ids and nothing tells them apart: launches are unknown
    shared_ids: bool = False

    def close(self) -> None:
        """Let go of the source; nothing is asked any more."""

    def meta(self) -> dict[str, str]:
        """Name and value of the export's metadata; empty when it has none."""
        raise NotImplementedError

    def missing_columns(self, spec: TableSpec) -> list[str] | None:
        """Staged columns this export lacks for a table; None when it lacks the table."""
        raise NotImplementedError

    def table(self, spec: TableSpec) -> pa.Table | None:
        """A whole staged table."""
        raise NotImplementedError

    def pieces(self, spec: TableSpec, by_start: bool, late: Sequence[str] = ()) -> Iterator[Piece]:
        """A staged table in pieces, in file order or sorted by start.

        late: columns of which only single rows will be asked for (`Piece.at`); a reader that gains
        by it leaves them out of the pieces' tables.
        """
        raise NotImplementedError
