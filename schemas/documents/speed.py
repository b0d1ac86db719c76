"""What a client measured: rows of a speed probe, and the paired comparison of two lanes of them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from lanescope.schemas.findings import Abstention, Finding

Better = Literal["higher", "lower"]


class Strict(BaseModel):
    """A document: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SpeedRow(Strict):
    """One request as its client saw it. Seconds are of the client's clock."""

    prompt: str
    kind: str | None = None
    repetition: int
    warmup: bool = False  # not scored
    tokens: int  # completion tokens
    prompt_tokens: int | None = None
    wall_s: float  # sent to last token
    ttft_s: float | None = None  # sent to first token
    decode_s: float | None = None  # as the file states it; else wall - ttft
    drafts: float | None = None  # verification steps that the server counted meanwhile
    drafted: float | None = None
    accepted: float | None = None
    concurrency: int = 1
    rate_tok_s: float | None = None  # as the probe recorded it
    start_s: float | None = None  # when it was sent, on a clock common to the streams


class SourceFile(Strict):
    """One input file by content."""

    path: str
    sha256: str
    modified_ns: int


class SpeedLaneSummary(Strict):
    """One lane (one launch of it) by itself."""

    name: str
    files: list[SourceFile]
    rate_rule: str  # how the decode rate was made of the file's fields
    rows: int
    scored: int
    prompts: int
    repetitions: int
    decode_rate_median: float | None  # tok/s: median over prompts of medians over repetitions
    decode_rate_min: float | None
    decode_rate_max: float | None
    spread_pct: float | None  # the largest (max - min) / median of a prompt
    ttft_median_s: float | None
    accepted_per_step: float | None  # tokens a verification step yields
    contaminated_rows: int
    memory_mib: float | None


class PairedPrompt(Strict):
    """One prompt: the medians over its repetitions, and what the candidate gains, in per cent."""

    prompt: str
    kind: str | None
    base: float
    candidate: float
    gain_pct: float


class PairedMetric(Strict):
    """One metric of a candidate against its base, paired by prompt."""

    metric: str
    unit: str
    better: Better
    prompts: list[PairedPrompt]
    mean_gain_pct: float
    low_pct: float  # percentile bootstrap over prompts
    high_pct: float
    interval: str
    t_low_pct: float
    t_high_pct: float
    launch_low_pct: float | None  # covers relaunches, where they were measured or a floor was given
    launch_high_pct: float | None
    launch_interval: str | None
    wins: int
    losses: int
    ties: int


class ControlGain(Strict):
    """The candidate's decode rate against one control alone, or one control against the others."""

    control: str
    mean_gain_pct: float
    wins: int
    n: int
    control_level_pct: float  # this control against the mean of all controls


class Concurrency(Strict):
    """One lane at one concurrency."""

    lane: str
    concurrency: int
    streams: int
    walls_s: list[float]  # per stream
    straggler: str | None
    straggler_wall_s: float | None
    aggregate_tok_s: float  # all tokens / wall of the slowest stream
    steady_tok_s: float | None  # all streams decoding at once


class SpeedComparison(Strict):
    """Two lanes' probes, paired by prompt."""

    base: list[SpeedLaneSummary]  # the controls; the base is their mean per prompt
    candidate: SpeedLaneSummary
    base_launches: list[SpeedLaneSummary]
    candidate_launches: list[SpeedLaneSummary]
    refused: list[Abstention]  # why nothing was paired; empty: it was
    metrics: list[PairedMetric]
    controls: list[ControlGain]
    long_wall_ratio: float | None  # median wall of long prompts, candidate / base
    long_prompts: int
    concurrency: list[Concurrency]
    findings: list[Finding]
    abstained: list[Abstention]
    seed: int
