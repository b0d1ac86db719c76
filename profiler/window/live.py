"""Windows that run now, read from their state folders. Nothing is written, nothing is touched."""

from __future__ import annotations

import json
import time
from pathlib import Path

from pydantic import ValidationError

from lanescope.profiler.adapters import nvml
from lanescope.profiler.window import places, recovery
from lanescope.profiler.window.experiment import PROGRESS
from lanescope.profiler.window.guard import CLOCK
from lanescope.schemas.documents.livewindow import LiveGpu, LiveWindow, ProbeProgress

#: windows are run one after another: an older folder than these is no running window's
_NEWEST = 20


def running() -> list[LiveWindow]:
    """The windows of this machine that have not ended, the latest first.

    Empty where the state folder cannot be read: it is private to the user who captures.
    """
    try:
        folders = sorted(
            (places.state_place() / "runs").iterdir(), key=lambda p: p.stat().st_mtime, reverse=True
        )[:_NEWEST]
    except OSError:
        return []
    found = [recovery.status(folder) | {"folder": folder} for folder in folders]
    return [
        LiveWindow(
            run=f["run"],
            state=f["state"],
            since=f["since"],
            runner_alive=bool(f["runner"]),
            touched=f["touched"],
            failsafe_fires_in_s=_fires_in(f["folder"]),
            failsafe_fired=f["failsafe_fired"],
            restored=f["restored"],
            probe=_probe(f["folder"], f["state"]),
            output=f["output"],
        )
        for f in found
        if not f["outcome"]
    ]


def gpus() -> list[LiveGpu]:
    """The machine's GPUs now; empty where NVML gives none."""
    return [
        LiveGpu(
            name=device["name"],
            uuid=device["uuid"],
            values={c: device[c]["value"] for c in nvml.COLUMNS},
        )
        for device in nvml.snapshot()["devices"]
    ]


def _fires_in(folder: Path) -> float | None:
    """Seconds until the armed failsafe fires; None where none is armed."""
    try:
        rows = json.loads((folder / "armed.json").read_text())
        last = max((float(deadline) for _, deadline in rows), default=None)
    except (OSError, ValueError, TypeError):
        return None
    return None if last is None else last - time.clock_gettime(CLOCK)


def _probe(folder: Path, state: str) -> ProbeProgress | None:
    """The progress that the runner left, while a probe is its state."""
    try:
        found = ProbeProgress.model_validate_json((folder / PROGRESS).read_bytes())
    except (OSError, ValidationError):
        return None
    return found if state == f"{found.phase}_probe" else None
