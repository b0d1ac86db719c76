"""The state machine as a table: what a window does, in order, and what each step may touch.

The runner walks `EXPERIMENT` from the top. Whatever happens there, once the incumbent may have been
stopped it walks `RESTORE`; then, with the incumbent serving, `OFFLINE`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lanescope.profiler.window import before, experiment, offline, restoring
from lanescope.profiler.window.run import Run


@dataclass(frozen=True)
class State:
    """One step. `touches`: it stops or starts something, so the release is read again before it."""

    name: str
    does: str
    act: Callable[[Run], dict[str, Any]]
    touches: bool = False
    #: seconds that the failsafe must still give before the step begins
    needs_s: Callable[[Run], float] | None = None


EXPERIMENT = (
    State("preflight", "check files, pins, nsys, disk, GPU, incumbent, clients", before.preflight),
    State(
        "snapshot",
        "record the executed source, containers, GPU, clocks",
        before.snapshot,
        touches=True,
    ),
    State("failsafe_proof", "fire a dummy that only looks", before.failsafe_proof),
    State("failsafe_armed", "arm the failsafe and read it back", before.failsafe_armed),
    State("incumbent_stopped", "stop the incumbent", experiment.stop_incumbent, touches=True),
    State(
        "candidate_launched",
        "start the candidate under nsys with a clean environment",
        experiment.launch,
        touches=True,
    ),
    State(
        "ready",
        "wait until the candidate serves",
        experiment.ready,
        needs_s=lambda run: run.plan.candidate.ready.budget_s,
    ),
    State("warm_up", "send the warm-up requests", experiment.warm_up),
    State("control_probe", "probe with nsys attached, not collecting", experiment.control_probe),
    State(
        "profiled_probe",
        "the same probe, collected",
        experiment.profiled_probe,
        touches=True,
        needs_s=lambda run: run.plan.window.durations.profile_max_s,
    ),
    State(
        "profile_stopped",
        "stop collecting, wait for a stable report",
        experiment.stop_profile,
        needs_s=lambda run: run.plan.window.durations.stop_s,
    ),
    State("candidate_stopped", "stop the candidate", experiment.stop_candidate, touches=True),
)

RESTORE = (
    State("incumbent_restored", "start and verify the incumbent", restoring.restore),
    State("failsafe_disarmed", "disarm the failsafe, confirm it unfired", restoring.disarm),
)

OFFLINE = (
    State("export", "export, scrub, checksum", offline.export),
    State("attribution", "attribute, slowdown, gates", offline.attribute),
    State("catalogued", "write the catalogue row", offline.catalogue),
)

ALL = (*EXPERIMENT, *RESTORE, *OFFLINE)
