"""Gate rules, frozen before the data, and the verdict that they gave."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lanescope.schemas.documents.speed import SourceFile, SpeedComparison, Strict
from lanescope.schemas.findings import Abstention, Finding

Verdict = Literal["pass", "fail", "inconclusive", "invalid"]
Direction = Literal["at_least", "above", "at_most", "below"]
Statistic = Literal["point", "lower", "upper", "wins", "losses"]

SIGNS: dict[str, Direction] = {">=": "at_least", ">": "above", "<=": "at_most", "<": "below"}


class Bar(BaseModel):
    """One bar: which figure, of whom, on which side of what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    """decode_rate, throughput, ttft, token_gap, wall, accepted_per_step (gains in per cent);
    long_wall_ratio, aggregate_rate@C, steady_rate@C; task_losses; bucket:NAME, wall_ms, busy_ms,
    sum_ms (ms a verification step)."""
    of: Literal["gain", "difference", "candidate", "base"] = "gain"
    statistic: Statistic = "point"
    direction: Direction
    threshold: float
    interval: Literal["bootstrap", "t", "launches"] = "bootstrap"
    inconclusive: Literal["never", "interval"] = "never"
    """interval: the bar is inconclusive where the interval holds the threshold."""
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _signs(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("direction") in SIGNS:
            return {**data, "direction": SIGNS[data["direction"]]}
        return data

    @property
    def title(self) -> str:
        """The bar in words."""
        sign = {v: k for k, v in SIGNS.items()}[self.direction]
        of = "" if self.of == "gain" else f" of {self.of}"
        return self.name or f"{self.metric}{of}, {self.statistic} {sign} {self.threshold:g}"


class GateRules(BaseModel):
    """A rules file. Its bytes are hashed into the verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    bar: list[Bar] = Field(min_length=1)
    min_prompts: int = 1
    min_repetitions: int = 1
    require_relaunches: bool = False  # without them: inconclusive
    contaminated: Literal["invalid", "rate-stands"] = "invalid"
    unequal_prompts: Literal["invalid", "common"] = "invalid"
    one_base: bool = False  # several controls that disagree about the sign: inconclusive
    note: str = ""


class BarResult(Strict):
    """One bar against the data."""

    name: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    threshold: float
    verdict: Verdict
    why: str


class TaskOutcomes(Strict):
    """Unique tasks by the number of repeats passed: candidate against base."""

    tasks: int
    wins: int
    losses: int
    ties: int
    loss_share_upper: float  # one-sided 95 % Clopper-Pearson
    base_passed: int
    candidate_passed: int
    repeats: int


class RulesAge(Strict):
    """Whether the rules were frozen before the data, and by what evidence."""

    rules_ns: int
    rules_basis: str
    data_ns: int | None
    data_basis: str
    older: bool


class GateDocument(Strict):
    """The verdict of one rules file over one comparison."""

    schema_: Literal["lanescope.gate/1"] = Field("lanescope.gate/1", alias="schema")
    name: str
    rules_sha256: str
    rules_path: str
    post_hoc: bool
    age: RulesAge
    base: str
    candidate: str
    verdict: Verdict
    exit_code: int
    reasons: list[str]
    bars: list[BarResult]
    speed: SpeedComparison | None
    tasks: TaskOutcomes | None
    files: list[SourceFile]
    findings: list[Finding]
    abstained: list[Abstention]

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
