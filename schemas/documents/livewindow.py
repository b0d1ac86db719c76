"""A window that has not ended, as it stands now: what `lanescope serve` shows of it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ProbeProgress(BaseModel):
    """A probe under way, as its client counts."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    phase: str
    done: int
    asked: int
    in_flight: int
    tokens: int
    tokens_per_s: float


class LiveGpu(BaseModel):
    """One GPU as NVML gives it now; None where it does not."""

    model_config = ConfigDict(frozen=True)

    name: str
    uuid: str
    values: dict[str, int | None]


class LiveWindow(BaseModel):
    """State, life of the runner, failsafe and probe of a window; `output` is its folder."""

    model_config = ConfigDict(frozen=True)

    run: str
    state: str
    since: str
    runner_alive: bool
    touched: bool
    failsafe_fires_in_s: float | None
    failsafe_fired: bool
    restored: str
    probe: ProbeProgress | None
    output: str
