"""What staging notes of a source, beside its tables: the stamp of a staged folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lanescope.attribution.ingest import cache


@dataclass
class StageInfo:
    """What the stamp of a staged folder says."""

    kind: str
    sha256: str = ""
    nsys_version: str = ""
    schema_version: str = ""
    options: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    absent_columns: dict[str, list[str]] = field(default_factory=dict)
    bad_cells: list[dict[str, Any]] = field(default_factory=list)
    excluded: dict[str, int] = field(default_factory=dict)
    clock_skew_kernels: int = 0
    shared_correlation_ids: int = 0
    processes: list[dict[str, Any]] = field(default_factory=list)
    gpus: list[dict[str, Any]] = field(default_factory=list)
    devices_known: bool = False
    enums: dict[str, dict[str, str]] = field(default_factory=dict)
    launches_rebuilt: bool = False
    processes_mixed: bool = False
    #: Unix time of the capture's zero; None where the export does not say
    session_start_unix_ns: int | None = None

    def dump(self) -> str:
        """As JSON, for the stamp."""
        return json.dumps(self.__dict__, indent=1, sort_keys=True)

    def save(self, folder: Path) -> None:
        """Write the stamp: from here on the folder is whole."""
        (folder / cache.STAMP).write_text(self.dump(), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> StageInfo:
        """From a staged folder's stamp."""
        return cls(**json.loads((folder / cache.STAMP).read_text(encoding="utf-8")))
