"""The document of joined reports: what `lanescope ranks` found, `lanescope.ranks/1`.

Every report is attributed as it is; times of different reports meet on the clock that their
recorded starts give (Unix time of each report's zero). How far that may err stands beside it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lanescope.schemas.documents.attribution import Ranks
from lanescope.schemas.findings import Abstention

SCHEMA: Literal["lanescope.ranks/1"] = "lanescope.ranks/1"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class JoinedReport(_Part):
    """One report, in the order given."""

    report: int = Field(description="its number, from 0")
    path: str
    sha256: str
    profile: str
    machine: int = Field(description="equal for reports that name a GPU (by UUID) in common")
    zero_unix_ns: int | None = Field(description="Unix time of its clock's zero, as recorded")
    offset_ns: int | None = Field(description="its clock's zero on the clock of the first report")
    ranks: int
    start_ns: int = Field(description="first kernel of its measured steps, on its own clock")
    end_ns: int = Field(description="last kernel of its measured steps, on its own clock")


class RanksDocument(_Part):
    """The ranks of one run, from several reports."""

    schema_: Literal["lanescope.ranks/1"] = Field(default=SCHEMA, alias="schema")
    lanescope_version: str
    reports: list[JoinedReport]
    joined: bool = Field(description="whether the reports are held against each other at all")
    clock_error_ns: int | None = Field(
        description="by how much two reports' clocks may differ at most; null where unknown"
    )
    clock_basis: str = Field(description="where that comes from, in words")
    ranks: Ranks
    abstained: list[Abstention]

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
