"""The ladder as it reads today: every rung, every later word on it, and who was incumbent when."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

SCHEMA: Literal["lanescope.ladder/1"] = "lanescope.ladder/1"
Status = Literal["kept", "reverted", "closed", "blocked"]
Standing = Literal["first", "beats", "tie", "below", "not measured"]
STATUSES: tuple[Status, ...] = ("kept", "reverted", "closed", "blocked")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Measured(_Part):
    """One metric of a rung: the median of n repetitions, with the smallest and the largest."""

    median: float
    min: float | None = None
    max: float | None = None
    n: int | None = None
    unit: str = ""
    better: Literal["higher", "lower"] = "higher"

    @model_validator(mode="after")
    def _ordered(self) -> Measured:
        low = self.median if self.min is None else self.min
        high = self.median if self.max is None else self.max
        if not low <= self.median <= high:
            raise ValueError("not min <= median <= max")
        if self.n is not None and self.n < 1:
            raise ValueError("n is below 1")
        return self

    def reaches(self, other: float) -> bool:
        """Whether `other` lies within this metric's repetitions."""
        return self.min is not None and self.max is not None and self.min <= other <= self.max

    def gain(self, other: Measured) -> float:
        """How much better than `other`, in its unit; negative: worse."""
        return (self.median - other.median) * (1 if self.better == "higher" else -1)


class Mark(_Part):
    """A later word on a rung."""

    kind: Literal["correction", "retraction"]
    text: str
    created_ns: int


class RungView(_Part):
    """One rung, and how it stands against the incumbent of its time."""

    number: int
    name: str
    change: str
    difference: dict[str, Any]
    metrics: dict[str, Measured]
    gate: str | None
    status: Status
    note: str
    because: str
    links: list[str]
    created_ns: int
    marks: list[Mark]
    retracted: bool
    standing: Standing
    reason: str
    against: str | None = Field(description="the incumbent it was measured against")
    incumbent: bool = Field(description="it became the incumbent")


class Incumbency(_Part):
    """Who was incumbent, from which rung on."""

    number: int
    name: str
    from_ns: int
    until_ns: int | None
    value: float | None


class LadderDocument(_Part):
    """A whole ladder."""

    schema_: Literal["lanescope.ladder/1"] = Field(default=SCHEMA, alias="schema")
    ladder: str
    primary: str | None
    rule: str
    rungs: list[RungView]
    incumbents: list[Incumbency]
    total_gain_pct: float | None = Field(description="the incumbent against the first one")

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
