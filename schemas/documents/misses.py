"""Row copies in the attribution document: counts of misses, the host link, and what they cost."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Interval(_Part):
    """An estimate with its 95 % interval. `estimate` is null where only bounds can be given."""

    estimate: float | None
    low: float
    high: float


class CopyTensor(_Part):
    """The copies of one tensor in the measured steps."""

    tensor: str
    grid: list[int] = Field(description="of the launch; empty when launches differ")
    row_bytes: int | None = Field(None, description="as stated; null when not known")
    launches_per_step: float
    mean_us: float
    p50_us: float
    p95_us: float
    max_us: float
    under_10us: float = Field(description="share of launches under 10 us")


class Level(_Part):
    """One duration level: what a copy takes when so many rows are missed."""

    misses: int
    layer_steps: float = Field(description="expected number of measured layer-steps at this count")
    us: dict[str, float] = Field(description="duration by tensor, us")
    spread_us: dict[str, float] = Field(description="standard deviation by tensor, us")
    basis: Literal["seen", "law"] = Field(description="law: not seen, placed by the fitted law")


class LayerMisses(_Part):
    """One layer over the measured steps."""

    process: int
    layer: int
    per_step: Interval
    hit_rate: float | None = None


class RequestMisses(_Part):
    """One request over its measured steps."""

    process: int
    request: int
    steps: int
    per_layer_step: Interval
    hit_rate: float | None = None


class StepMisses(_Part):
    """Misses of all layers of a step, over the measured steps."""

    mean: float
    p50: float
    p95: float
    min: int
    max: int


class Drift(_Part):
    """How the misses per layer-step moved over the window."""

    first_half: float
    second_half: float
    per_100_steps: Interval = Field(description="slope of a straight line, misses per layer-step")


class Identifiability(_Part):
    """Whether the counts can be told from the durations, and how surely."""

    verdict: Literal["exact", "partly", "not"]
    reason: str
    confident_share: float = Field(description="share of layer-steps 95 % sure or more")
    shifts: dict[str, float] = Field(
        default_factory=dict,
        description="probability that all counts above zero are that many higher than stated",
    )
    merged: list[list[int]] = Field(
        default_factory=list, description="[lowest, highest] counts that share one level"
    )


class Misses(_Part):
    """Missed rows, from the durations of the row copies."""

    per_layer_step: Interval
    hit_rate: Interval | None = Field(None, description="1 - misses / routed rows")
    routed_rows: int | None = None
    routed_rows_basis: str = ""
    layer_steps: int = Field(description="measured layer-steps read")
    layers: int
    copies_per_layer_step: int
    structure_basis: str
    tensors: list[CopyTensor]
    levels: list[Level]
    per_layer: list[LayerMisses]
    worst_layers: list[int] = Field(description="layers with the most misses, worst first")
    per_step: StepMisses
    by_request: list[RequestMisses]
    drift: Drift | None = None
    identifiability: Identifiability
    disturbed_share: float = Field(description="share of copies slowed by something else")
    outside_decode: dict[str, int] = Field(
        default_factory=dict,
        description="row copies of other phases, launches by phase",
    )


class TensorRate(_Part):
    """What the link carried for one tensor, decimal GB/s."""

    tensor: str
    row_bytes: int
    marginal_GBps: float
    effective_GBps: float
    saturated_GBps: float | None = Field(None, description="once the rows in flight fill the link")
    by_count: dict[str, float] = Field(description="rows moved x bytes / duration, by missed rows")


class Link(_Part):
    """The host link as the row copies used it; decimal GB/s, milliseconds a step."""

    marginal_GBps: float | None = Field(
        description="slope of time over bytes, from the empty launch on"
    )
    effective_GBps: float | None = Field(description="all bytes over all copy time, all tensors")
    saturated_GBps: float | None = None
    reference_GBps: float | None = None
    reference_basis: str = ""
    counted_tensors: list[str] = Field(description="tensors that the marginal figure rests on")
    by_tensor: list[TensorRate]
    bytes_per_step: float | None = None
    copy_ms_per_step: float
    byte_ms_per_step: float = Field(description="time that the rows' bytes take on the link")
    overhead_ms_per_step: float = Field(description="launches, latency and empty programs")
    contention_ms_per_step: float = Field(description="time lost to other traffic and kernels")


class ScoreRow(_Part):
    """The estimate against a sidecar of exact counts."""

    layer_steps: int
    exact: float
    covered: float = Field(description="share of layer-steps whose 95 % interval holds the truth")
    mean_true: float
    mean_estimate: float
    mean_error: float = Field(description="relative")
    mean_covered: bool = Field(description="the window's interval holds the true mean")
    disturbed_exact: float | None = None
    mean_width: float


class EngineHits(_Part):
    """What the engine's own log lines say, weighted by their steps."""

    lines: int
    steps: float = Field(description="engine steps in the windows of these lines, per layer")
    misses: Interval = Field(description="per layer-step; the interval is the rounding of the log")
    misses_unweighted: float = Field(description="plain mean over lines, for comparison")
    hit_rate: Interval | None = Field(description="1 - misses / routed rows of an engine step")
    routed_rows: float | None
    routed_rows_basis: str
    printed_hit: float | None = Field(description="as printed, weighted by steps")
    printed_hit_unweighted: float | None = Field(description="as printed, plain mean over lines")
    printed_negative: int = Field(description="lines whose printed hit rate is below zero")
    printed_denominator: float | None = Field(
        description="the routed rows that the printed hit rate implies (median over lines)"
    )
