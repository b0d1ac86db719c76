"""A window file: which incumbent steps aside, which candidate is profiled, how, and until when."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from lanescope.schemas.documents.lane import Positive, Seconds, Strict
from lanescope.schemas.documents.toml import mistake


class Incumbent(Strict):
    """The lane that serves people now."""

    #: lane file; paths in a window file are relative to it
    lane: str
    #: docker: name or id of the running container; it is stopped and started, never removed
    container: str | None = None


class Candidate(Strict):
    """The lane that is profiled."""

    lane: str


class Probe(Strict):
    """What is asked of the candidate. Control and profiled probe ask the same."""

    #: JSON lines with `id` and `prompt`
    prompts: str
    max_tokens: Positive = 64
    warmup: Annotated[int, Field(ge=0)] = 2
    repetitions: Positive = 1
    concurrency: list[Positive] = Field(default=[1], min_length=1)
    temperature: Annotated[float, Field(ge=0)] = 0.0
    timeout_s: Seconds = 300.0


class Durations(Strict):
    """Bounds in seconds."""

    #: between `nsys start` and the first profiled request: the opening second is left out
    settle_s: Annotated[float, Field(ge=0)] = 1.0
    #: longer captures are not supported by Nsight Systems
    profile_max_s: Annotated[float, Field(gt=0, le=300)] = 300.0
    #: from `nsys stop` to its return
    stop_s: Seconds = 300.0
    #: how long a report must keep its size to count as whole
    stable_s: Seconds = 3.0
    export_s: Seconds = 3600.0


class Failsafe(Strict):
    """What brings the incumbent back if everything else fails."""

    kind: Literal["auto", "systemd", "watchdog"] = "auto"
    #: from arming to firing
    deadline_s: Seconds = 7200.0
    #: watchdog: silence of the runner after which it fires before the deadline
    lease_s: Seconds = 120.0
    #: how far ahead the proof is armed
    proof_s: Seconds = 3.0


class Checks(Strict):
    """What preflight asks for before anything is touched."""

    #: free space for report, export and staged tables
    free_gib: Annotated[float, Field(ge=0)] = 10.0
    #: GPUs must be below this utilisation while the incumbent is idle
    gpu_busy_percent_max: Annotated[float, Field(ge=0, le=100)] = 10.0
    #: another client on the incumbent stops the window
    require_idle: bool = True


class Window(Strict):
    """One experiment on one machine."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,62}$")]
    incumbent: Incumbent
    candidate: Candidate
    #: the one difference between the two lanes, as `lanescope lane diff` names it
    axis: str | None = None
    probe: Probe
    durations: Durations = Durations()
    failsafe: Failsafe = Failsafe()
    checks: Checks = Checks()
    #: folder that gets one new folder a window
    output: str
    #: folder for what may hold secrets (the raw report); default: beside the output folder
    private: str | None = None
    #: rules files that are scored on this window's control probe
    gates: list[str] = Field(default=[])
    #: folder of an earlier window (the incumbent's own, say) that the gates compare with
    baseline: str | None = None
    #: attribution profile, by name or file
    profile: str | None = None

    @field_validator("output", "private")
    @classmethod
    def _named(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise mistake("is empty", "name a folder")
        return value

    @field_validator("failsafe")
    @classmethod
    def _deadline(cls, value: Failsafe) -> Failsafe:
        if not 10 <= value.deadline_s < 86400:
            raise mistake(
                f"deadline_s = {value.deadline_s:g} is not between 10 s and a day",
                "give the window time to run, and the incumbent a way back in time",
            )
        return value
