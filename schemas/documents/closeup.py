"""What a page shows beside the attribution document: the steps in order, a few of them close up.

Everything is bounded, whatever the trace: series are binned, close-ups merge their shortest work,
lists keep their longest entries. Times are integer nanoseconds; in a `StepCloseup` they count from
the first kernel of the step. Tables are columns of equal length, one element a row.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

#: How a step ran: most of its kernels from CUDA graphs, or launched one by one.
StepClass = Literal["graph", "eager", "warm-up", "not measured"]
#: Steps shown close up, by wall time of the measured ones, nearest rank.
Pick = Literal["median", "p95", "slowest"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StepSeries(_Part):
    """The steps of one process on one device, in order; one element a bin of neighbouring steps."""

    process: int
    device: int
    steps_per_bin: int
    step: list[int] = Field(description="index of the bin's first step within its process")
    count: list[int] = Field(description="steps in the bin")
    step_class: list[StepClass] = Field(description="of most steps in the bin")
    wall_ns: list[int] = Field(description="mean of the bin, rounded down")
    busy_ns: list[int] = Field(description="mean of the bin, rounded down")
    longest_ns: list[int] = Field(description="the longest wall in the bin")
    misses: list[float] | None = Field(
        None, description="missed rows per layer-step, mean of the bin; null without row copies"
    )


class StepPart(_Part):
    """One bucket of one step; over all parts, exclusive plus the step's idle is its wall."""

    bucket: str
    exclusive_ns: int
    sum_ns: int
    launches: int


class StepRow(_Part):
    """One verification step on one device."""

    process: int
    device: int
    step: int
    step_class: StepClass
    wall_ns: int
    busy_ns: int
    idle_ns: int
    kernels: int
    parts: list[StepPart]


class OddName(_Part):
    """One kernel function of an odd step, beside the same over all measured steps."""

    bucket: str
    name: str
    sum_ns: int
    launches: int
    usual_ns: int = Field(description="summed time per measured step, rounded down")
    usual_launches: float


class PartChange(_Part):
    """What a step spent in a bucket, or idle, beyond the median step."""

    bucket: str
    change_ns: int


class OddStep(StepRow):
    """A step whose wall lies far above the median, and what it spent the difference on."""

    above_median_ns: int
    changes: list[PartChange] = Field(description="largest first; over all, the wall's difference")
    names: list[OddName] = Field(description="by distance from the usual time, the most first")


class Track(_Part):
    """One row of a timeline."""

    kind: Literal["stream", "copies", "range", "wait", "api"]
    label: str
    depth: int = Field(description="0, or more where entries of one stream or thread overlap")


class StepCloseup(_Part):
    """One step as a timeline: everything on its device, and its process's host side.

    Columns, one element an entry: `track` indexes `tracks`; `name` and `group` index `names` and
    `groups` (bucket of a kernel, kind of an API call); `own`: of this step's kernels; `merged`: how
    many entries it stands for, 1 unless short neighbours were drawn as one.
    """

    pick: Pick
    step: StepRow
    origin_ns: int = Field(description="first kernel start, on the capture's clock")
    from_ns: int = Field(description="where the picture begins, before the first kernel if < 0")
    to_ns: int
    tracks: list[Track]
    names: list[str]
    groups: list[str]
    track: list[int]
    name: list[int]
    group: list[int]
    start_ns: list[int]
    duration_ns: list[int]
    own: list[bool]
    merged: list[int]
    left_out: int = Field(0, description="shortest API calls and ranges that are not drawn")


class CopyHistogram(_Part):
    """Durations of one tensor's copies in the measured layer-steps, in bins of equal width."""

    tensor: str
    width_us: float
    count: list[int] = Field(description="copies from i to i + 1 widths")


class MissHeat(_Part):
    """Missed rows by layer and time, one process on one device; a row a layer, a column a bin."""

    process: int
    device: int
    layers: list[int]
    steps_per_bin: int
    step: list[int] = Field(description="index of the bin's first step")
    mean: list[list[float | None]]


class RankLag(_Part):
    """How far one rank is behind the first one, step by step; one element a bin of steps."""

    process: int
    device: int
    steps_per_bin: int
    step: list[int] = Field(description="index of the bin's first step")
    start_ns: list[int] = Field(description="own start less the earliest; mean of the bin")
    end_ns: list[int] = Field(description="own end less the earliest; mean of the bin")


class Closeup(_Part):
    """All that a page needs beside the document."""

    series: list[StepSeries]
    closeups: list[StepCloseup]
    odd: list[OddStep]
    odd_rule: str
    histogram: CopyHistogram | None = None
    heat: list[MissHeat] = Field(default_factory=list)
    lags: list[RankLag] = Field(default_factory=list, description="empty for one rank")
    odd_count: int = Field(description="steps that the rule finds; `odd` holds the longest")
