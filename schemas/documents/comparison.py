"""Lanes held against each other, `lanescope.comparison/1`.

Per step means per measured verification step and device. Times in a step are milliseconds; totals
and the waterfall are integers of nanoseconds.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lanescope.schemas.findings import Abstention, Finding

SCHEMA: Literal["lanescope.comparison/1"] = "lanescope.comparison/1"
Certainty = Literal["certain", "unclear", "identical"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LaneSide(_Part):
    """One lane by itself, over the steps that are compared."""

    name: str
    path: str
    kind: Literal["trace", "attribution", "window"]
    trace_sha256: str
    gpu: str
    graph_trace: Literal["node", "graph", "none"]
    basis: str = Field(description="how its steps were found")
    window: str
    nsys_version: str
    profile: str
    steps: int
    requests: int | None = Field(description="null: its requests cannot be told apart")
    wall_ms: float | None
    busy_ms: float | None
    sum_ms: float | None
    wall_quantiles_ms: list[float] = Field(
        default_factory=list, description="of its steps' wall: 0, 5, ..., 100 %"
    )
    accepted_per_step: float | None = Field(description="tokens a step yields; null: not known")
    accepted_basis: str = ""
    facts: dict[str, float | int | str | bool | None] = Field(
        default_factory=dict, description="what the lane file or a sidecar says: slots, k ..."
    )


class Differs(_Part):
    """One thing that is not equal between the lanes, and what follows."""

    what: str
    values: list[str] = Field(description="one a lane, in the lanes' order")
    effect: Literal["listed", "normalised", "withheld", "refused"]
    note: str = ""


class Noise(_Part):
    """What no change looks like: a lane's steps, one half against the other, ms/step."""

    incumbent_ms: float
    candidate_ms: float


class MetricDelta(_Part):
    """One figure of a step in both lanes: wall, busy, sum, idle, or the GPU sum of a bucket."""

    metric: str
    incumbent_total_ns: int
    candidate_total_ns: int
    incumbent_ms: float
    candidate_ms: float
    delta_ms: float = Field(description="candidate - incumbent")
    low_ms: float = Field(description="95 % interval of this figure alone")
    high_ms: float
    delta_pct: float | None
    sign: Literal["+", "-", "0"]
    certainty: Certainty = Field(description="of the sign, all figures of the table considered")
    p: float
    p_family: float = Field(description="corrected for looking at every row (largest statistic)")
    median_incumbent_ms: float
    median_candidate_ms: float
    median_delta_ms: float
    median_low_ms: float
    median_high_ms: float
    noise: Noise | None


class TokenDelta(_Part):
    """The same per accepted token, ms; acceptance is taken as given."""

    metric: str
    incumbent_ms: float
    candidate_ms: float
    delta_ms: float
    low_ms: float
    high_ms: float


class Bar(_Part):
    """One bar of the waterfall: what a bucket's exclusive time (or idle time) adds, ns/step."""

    bucket: str
    delta_ns: int


class Waterfall(_Part):
    """From one lane's step to the other's. from_ns + all bars = to_ns, exactly."""

    from_ns: int
    to_ns: int
    bars: list[Bar]


class CountDelta(_Part):
    """A count, rate or time without an interval, as each lane's attribution states it."""

    what: str
    unit: str
    incumbent: float | None
    candidate: float | None
    delta: float | None


class KernelChange(_Part):
    """A kernel function that appeared, vanished or changed."""

    name: str
    bucket: str
    change: Literal["appeared", "vanished", "changed"]
    incumbent_ms: float
    candidate_ms: float
    delta_ms: float
    incumbent_launches: float
    candidate_launches: float


class PairDocument(_Part):
    """One candidate against the incumbent."""

    incumbent: str
    candidate: str
    same_capture: bool
    paired: bool = Field(description="step by step: same requests, same number of steps")
    refused: list[Abstention] = Field(description="why there is no comparison; empty: there is one")
    withheld: list[Abstention] = Field(description="parts that would be meaningless")
    headline: str
    deltas: list[MetricDelta]
    per_token: list[TokenDelta]
    waterfall: Waterfall | None
    counts: list[CountDelta]
    kernels: list[KernelChange]


class TrendPoint(_Part):
    """One lane on the axis."""

    lane: str
    x: float
    wall_ms: float
    misses: float | None


class Trend(_Part):
    """All lanes over one axis."""

    axis: str
    points: list[TrendPoint]
    wall_slope_ms: float = Field(description="least squares, ms per unit of the axis")
    direction: Literal["rises", "falls", "neither"]
    bucket_slopes_ms: dict[str, float]


class LaneModel(_Part):
    """step_ms = base + slope x misses per layer-step, through the lanes' means."""

    base_ms: float
    ms_per_miss: float
    r2: float
    n: int
    window_slopes: dict[str, float] = Field(description="the slope within each lane's own window")
    verdict: str


class ComparisonDocument(_Part):
    """Everything that `lanescope compare --json` prints."""

    schema_: Literal["lanescope.comparison/1"] = Field(default=SCHEMA, alias="schema")
    lanescope_version: str
    lanes: list[LaneSide]
    differs: list[Differs]
    pairs: list[PairDocument]
    trend: Trend | None
    model: LaneModel | None
    warnings: list[Finding]
    abstained: list[Abstention]
    seed: int
    resamples: int

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
