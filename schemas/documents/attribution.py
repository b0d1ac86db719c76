"""The attribution document: what `lanescope attribute` found, `lanescope.attribution/1`.

Times are integers of nanoseconds (`_ns`) where they are sums or single values; means and figures
per step are decimals in the unit that their name ends with. A kernel summary (a CSV without a
timeline) fills the same document: what needs a timeline is null there, and listed as withheld.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lanescope.schemas.documents.misses import Link, Misses
from lanescope.schemas.documents.model import CostModel
from lanescope.schemas.findings import Abstention, Finding

SCHEMA: Literal["lanescope.attribution/1"] = "lanescope.attribution/1"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Gpu(_Part):
    """One physical GPU of the capture."""

    gpu: int = Field(description="physical index in the capture")
    name: str
    uuid: str = ""
    memory_bytes: int | None = None
    sm_count: int | None = None


class ProcessRow(_Part):
    """One traced process."""

    process: int = Field(description="operating-system process id")
    name: str = ""
    devices: list[int] = Field(default_factory=list, description="physical GPUs it ran kernels on")
    steps: int = Field(0, description="verification steps found")


class Trace(_Part):
    """What was read."""

    path: str
    sha256: str = Field(description="of the file as given")
    kind: str
    nsys_version: str
    schema_version: str
    options: dict[str, str] = Field(
        default_factory=dict, description="capture options that change what tracing costs or holds"
    )
    gpus: list[Gpu]
    processes: list[ProcessRow]
    start_ns: int | None = Field(None, description="first kernel start, on the capture's clock")
    end_ns: int | None = Field(None, description="last kernel end")


class Coverage(_Part):
    """Every kernel is counted here once; nothing is lost between the export and the tables."""

    kernels: int
    kernel_sum_ns: int
    kernel_busy_ns: int | None = Field(
        description="union of kernel (and graph block) time, per device"
    )
    graph_kernels: int | None = Field(description="replayed by CUDA graphs")
    eager_kernels: int | None
    graph_blocks: int = Field(0, description="graphs traced as one block, without their kernels")
    unattributed: int | None = Field(description="kernels whose launch is not in the trace")
    unattributed_ns: int | None
    excluded: dict[str, int] = Field(
        default_factory=dict, description="kernels left out of all time, by reason"
    )
    api_calls: int = 0
    memcpy: int | None = Field(None, description="null where the trace has no such table")
    memset: int | None = None


class PhaseRow(_Part):
    """One phase (and part) of one process on one device."""

    process: int
    device: int | None
    phase: Literal["prefill", "decode", "mixed", "outside"]
    part: str
    range_name: str = Field(description="the range's phase word; empty where none told")
    evidence: str
    instances: int
    kernels: int
    graph_blocks: int = 0
    sum_ns: int
    busy_ns: int | None = Field(description="union over its kernels: overlap counts once")


class Spread(_Part):
    """A figure over the measured verification steps; percentiles are nearest rank."""

    mean: float
    p50: float
    p95: float
    min: float
    max: float


class IntSpread(_Part):
    """The same for a count or a time in integer nanoseconds; only the mean has decimals."""

    total: int
    mean: float
    p50: int | None
    p95: int | None
    min: int | None
    max: int | None


class Steps(_Part):
    """The verification steps. `count` includes warm-up; the figures are over `measured`."""

    count: int
    measured: int
    warmup: int
    basis: str = Field(description="the evidence that found them: nvtx, graph replay, recurrence")
    window: str = Field("", description="what was measured, in words")
    devices: int = Field(1, description="devices that hold steps; figures are per step and device")
    wall_ms: Spread | None = Field(description="first kernel start to last kernel end of a step")
    period_ms: Spread | None = Field(
        None, description="start of a step to start of the next one, where no prefill lies between"
    )
    gpu_busy_ns: IntSpread | None
    gpu_sum_ns: IntSpread
    idle_ns: IntSpread | None = Field(
        description="wall less busy: no kernel of the step was running"
    )
    kernels: IntSpread


class Bucket(_Part):
    """One bucket over the measured steps. Over all buckets, exclusive plus idle is the wall."""

    bucket: str
    sum_ns: int
    busy_ns: int | None
    exclusive_ns: int | None
    sum_ms_per_step: float
    busy_ms_per_step: float | None
    exclusive_ms_per_step: float | None
    exclusive_p50_ms: float | None
    exclusive_p95_ms: float | None
    share_of_sum: float
    share_of_wall: float | None
    launches_per_step: float
    p50_us: float | None
    p95_us: float | None
    max_us: float | None
    under_10us: float | None = Field(description="share of launches shorter than 10 us")
    wait_ms_per_step: float | None = Field(
        default=None,
        description="of sum_ms_per_step, in collectives until the last rank's start; where they "
        "match across ranks",
    )
    transfer_ms_per_step: float | None = Field(
        default=None, description="the rest of sum_ms_per_step"
    )
    top_names: list[str] = Field(default_factory=list)


#: Bounds of a time where the clocks of joined reports may err: the least and the most it can be.
Bounds = tuple[int, int]


class RankBucket(_Part):
    """One bucket of one rank; `idle` among them. Over all, exclusive time is the rank's walls."""

    bucket: str
    sum_ns: int
    exclusive_ns: int
    exclusive_ms_per_step: float


class RankRow(_Part):
    """One rank: a process on a physical device, over its measured steps."""

    report: int | None = Field(default=None, description="of joined reports: which one, from 0")
    process: int
    device: int
    steps: int
    wall_ms: Spread
    slowest: int | None = Field(
        default=None, description="steps in which its wall is the longest, alone"
    )
    wait_ns: int | None = Field(
        default=None, description="in collectives, until the last rank's start"
    )
    transfer_ns: int | None = Field(default=None, description="the rest of the time in collectives")
    wait_ms_per_step: float | None = None
    transfer_ms_per_step: float | None = None
    wait_bounds_ns: Bounds | None = Field(default=None, description="where clocks may err")
    buckets: list[RankBucket] = Field(
        default_factory=list, description="most time first, idle last"
    )
    wait_bounds_ms_per_step: tuple[float, float] | None = None
    transfer_bounds_ms_per_step: tuple[float, float] | None = None


class RankStep(_Part):
    """One step index over all ranks; a slowest rank is null where two are equally slow.

    Skews are null where the clocks of joined reports are not known to agree.
    """

    step: int
    start_skew_ns: int | None = Field(description="latest less earliest first kernel start")
    end_skew_ns: int | None = Field(description="latest less earliest last kernel end")
    start_skew_bounds_ns: Bounds | None = Field(default=None, description="where clocks may err")
    end_skew_bounds_ns: Bounds | None = Field(default=None, description="where clocks may err")
    slowest_report: int | None = None
    slowest_process: int | None = None
    slowest_device: int | None = None


class RankCollective(_Part):
    """One collective function, matched by step index and order; sums over all ranks."""

    name: str
    count: int = Field(description="collectives, each counted once over its ranks")
    wait_ns: int = Field(description="least(own end, latest start) - own start")
    transfer_ns: int = Field(description="own end - own start - wait")
    ended_early: int = Field(description="kernels that ended before the last rank began")
    wait_bounds_ns: Bounds | None = Field(default=None, description="where clocks may err")


class Ranks(_Part):
    """Ranks held against each other. Skews and steps are withheld where steps do not match."""

    count: int
    ranks: list[RankRow]
    start_skew_ns: IntSpread | None = None
    end_skew_ns: IntSpread | None = None
    start_skew_p50_bounds_ns: Bounds | None = Field(
        default=None, description="where clocks may err"
    )
    end_skew_p50_bounds_ns: Bounds | None = Field(default=None, description="where clocks may err")
    steps: list[RankStep] = Field(default_factory=list)
    collectives: list[RankCollective] = Field(default_factory=list)


class KernelName(_Part):
    """One kernel function over the measured steps."""

    bucket: str
    name: str
    sum_ns: int
    sum_ms_per_step: float
    launches_per_step: float
    max_us: float | None


class ApiCall(_Part):
    """One kind of API call within the measured steps."""

    name: str
    kind: str
    calls_per_step: float
    ms_per_step: float


class LaunchAccount(_Part):
    """What the host does in a measured step, from its first launch to the next step's."""

    graph_launches_per_step: float
    kernels_per_graph_launch: float | None
    kernel_launch_calls_per_step: float
    eager_kernels_per_step: float | None
    launch_ms_per_step: float = Field(description="host time in launch calls")
    wait_ms_per_step: float = Field(description="host time in blocking waits")
    verdict: Literal["gpu-bound", "launch-bound", "host-bound", "idle", "unknown"]
    verdict_evidence: str
    api: list[ApiCall]


class PrefillRequest(_Part):
    """One prefill."""

    process: int
    device: int | None
    request: int | None
    kernels: int
    gpu_sum_ns: int
    gpu_busy_ns: int
    start_ns: int
    end_ns: int


class Prefill(_Part):
    """Prefill: its own table, in no step."""

    instances: int
    sum_ms_per_instance: float
    busy_ms_per_instance: float | None
    layers: int | None
    ms_per_layer: float | None
    top: list[KernelName]
    requests: list[PrefillRequest]


class RangeRow(_Part):
    """One NVTX range name, projected to kernels by launch containment on its own thread."""

    name: str
    domain: int | None
    instances: int
    kernels: int
    sum_ns: int


class LayerCount(_Part):
    """A number of layers that the instance counts show."""

    layers: int
    kernels: int = Field(description="rows that ran so often, or a multiple of it, a pass")
    sum_ns: int


class SummaryRow(_Part):
    """One row of a kernel summary, and what its count says."""

    name: str
    bucket: str
    phase: Literal["decode", "prefill", "both", "unclear", "other"] = Field(
        description="by its count; both: of either phase; unclear: fits decode and prefill alike"
    )
    counted_as: Literal["decode", "prefill", "outside"] = Field(
        description="where its time is in this document; a profile's rules may overrule the count"
    )
    instances: int
    factors: str = Field(description="the count as passes x launches a pass")
    per_pass: int | None
    prefill_instances: int | None = Field(description="of a row of both phases, where told")
    sum_ns: int


class SummaryGroup(_Part):
    """Rows that a profile adds up across buckets, over the decode rows."""

    group: str
    sum_ns: int
    ms_per_step: float


class KernelSummary(_Part):
    """How a kernel summary was read: there is no timeline, so passes come from its counts."""

    rows: int
    passes: int | None = Field(description="decode and prefill passes together")
    decode_passes: int | None
    prefill_passes: int | None
    beside_passes: int | None = Field(description="passes of another kind: drafts, sampling")
    layers: int | None = Field(description="layers that hold most of the time: the cached ones")
    layer_counts: list[LayerCount]
    requests: int | None
    divisor: int | None = Field(description="decode sums are divided by it: ms per step")
    divisor_basis: Literal["counts", "given", "profile", "none"]
    lead_bits: float | None = Field(
        description="by how many bits this reading of the counts is shorter than the next best"
    )
    prefill_ms_per_layer: float | None = Field(
        description="of the prefill kernels that run once a layer"
    )
    both_phases_ns: int = Field(description="rows that ran in decode and prefill; all in decode")
    prefill_within_most_ns: int | None = Field(
        description="the most of it that can be prefill, by counts and longest durations"
    )
    groups: list[SummaryGroup]
    table: list[SummaryRow]


class AttributionDocument(_Part):
    """Everything that `attribution.json` holds."""

    schema_: Literal["lanescope.attribution/1"] = Field(default=SCHEMA, alias="schema")
    lanescope_version: str
    profile: str
    profile_sha256: str
    trace: Trace
    coverage: Coverage
    phases: list[PhaseRow]
    steps: Steps | None
    buckets: list[Bucket]
    kernels: list[KernelName]
    launches: LaunchAccount | None
    prefill: Prefill | None
    ranges: list[RangeRow]
    misses: Misses | None = None
    link: Link | None = None
    model: CostModel | None = None
    ranks: Ranks | None = Field(default=None, description="of a trace with several ranks")
    summary: KernelSummary | None = Field(default=None, description="of a kernel summary alone")
    warnings: list[Finding]
    abstained: list[Abstention]

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
