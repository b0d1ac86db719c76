"""What a window's folder tells, whole or left half-done: read by the page, the dashboard, exports.

Times are Unix nanoseconds (UTC), spans seconds; a value that was not measured is None, never 0.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from lanescope.schemas.documents.receipt import Receipt


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Span(_Frozen):
    """A stretch of the window: a state, or one that several states make together."""

    name: str
    #: experiment, restore, offline; or `whole` for a stretch over several states
    part: str
    ok: bool
    from_ns: int
    #: None: it had not ended when the folder was read
    to_ns: int | None
    note: str = ""


class ProbeRequest(BaseModel):
    """One request of a probe, as its row says."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    phase: str = ""
    concurrency: int = 1
    repetition: int = 0
    prompt_id: str = ""
    began_unix_ns: int = 0
    wall_ns: int | None = None
    ttft_ns: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens_by: str = ""
    decode_tokens_per_s: float | None = None
    gap_p50_ns: int | None = None
    gap_p95_ns: int | None = None
    error: str = ""


class Gaps(_Frozen):
    """Gaps between the chunks of a probe: counts by bins of equal width."""

    width_ms: float
    count: list[int]


class Contamination(_Frozen):
    """Whether others used the server during a probe, and why that is thought."""

    verdict: str
    reasons: list[str] = []
    unknown: list[str] = []


class ProbeRecord(_Frozen):
    """A probe: its rows and what its figures file says."""

    phase: str
    requests: list[ProbeRequest]
    by_concurrency: list[dict[str, float | None]]
    contamination: Contamination | None
    gaps: Gaps | None
    not_reported: list[str] = []


class GpuSeries(_Frozen):
    """NVML samples of one GPU in one probe; columns of equal length, units in their names."""

    phase: str
    uuid: str
    unix_ns: list[int]
    columns: dict[str, list[int | None]]


class Slowdown(_Frozen):
    """What the profiler cost, in per cent of the decode rate, with its 95 % interval."""

    percent: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""


class WindowRecord(_Frozen):
    """A window's folder, read."""

    folder: str
    window: str
    run: str
    #: of the manifest; empty where the folder was never closed
    outcome: str
    meaning: str
    from_ns: int | None
    receipts: list[Receipt]
    spans: list[Span]
    probes: list[ProbeRecord]
    gpu: list[GpuSeries]
    slowdown: Slowdown | None
    #: name -> value, of the receipts: versions, failsafe, restoration
    facts: dict[str, str]
    #: files that are damaged, cut off or of another version: what, why
    unreadable: list[tuple[str, str]]
    files: list[dict[str, Any]]
