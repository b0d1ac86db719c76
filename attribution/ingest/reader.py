"""What every kind of export offers to staging."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from lanescope.schemas.nsight import TableSpec


class Reader:
    """What an export must offer to be staged; one implementation a kind of input."""

    shown: Path
    bad_cells: dict[tuple[str, str], int]
    #: whether processes share correlation ids and nothing tells them apart: launches are unknown
    shared_ids: bool = False

    def meta(self) -> dict[str, str]:
        """Name and value of the export's metadata; empty when it has none."""
        raise NotImplementedError

    def missing_columns(self, spec: TableSpec) -> list[str] | None:
        """Staged columns this export lacks for a table; None when it lacks the table."""
        raise NotImplementedError

    def table(self, spec: TableSpec) -> pa.Table | None:
        """A whole staged table."""
        raise NotImplementedError

    def pieces(self, spec: TableSpec, by_start: bool) -> Iterator[pa.Table]:
        """A staged table in pieces, in file order or sorted by start."""
        raise NotImplementedError
