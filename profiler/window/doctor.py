"""Examining a machine: one finding a part, each lack with its remedy. Changes nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lanescope.profiler.adapters import docker, nsight, nvml, systemd
from lanescope.profiler.adapters.engine_api import Engine, EngineError
from lanescope.profiler.window import places, restore_script
from lanescope.schemas.errors import LanescopeError


@dataclass(frozen=True)
class Examined:
    """One part: whether it can be used (None: could not be told), what was found, what to do."""

    what: str
    can: bool | None
    detail: str
    remedy: str = ""


def examine() -> list[Examined]:
    """Every part that a window may need."""
    parts: tuple[Callable[[], list[Examined]], ...] = (
        _nsys,
        _gpu,
        _engine,
        _failsafe,
        _script,
        _permissions,
        _disk,
    )
    return [found for part in parts for found in part()]


def _nsys() -> list[Examined]:
    try:
        found = nsight.find()
    except LanescopeError as exc:
        return [Examined("nsys", False, exc.message, exc.remedy)]
    rows = [Examined("nsys", True, f"{found.version} at {found.root}")]
    try:
        nsight.self_test(found)
        rows.append(Examined("nsys profiles and exports", True, "a report of /bin/true exports"))
    except LanescopeError as exc:
        rows.append(Examined("nsys profiles and exports", False, exc.message, exc.remedy))
    software = found.has("cuda-sw")
    detail = "cuda-sw beside cuda" if software else "cuda alone"
    rows.append(Examined("tracers", True, detail, "" if software else "tracer.trace = cuda, nvtx"))
    discard = found.has("discard-environment")
    rows.append(
        Examined(
            "nsys discards environments",
            discard,
            "--discard-environment" if discard else "not in this version",
            "" if discard else "reports hold environments: share scrubbed exports only",
        )
    )
    return rows


def _gpu() -> list[Examined]:
    state = nvml.snapshot()
    if not state["devices"]:
        remedy = "a window without a GPU captures ranges and no kernels"
        return [Examined("GPU", False, state["why"], remedy)]
    rows = []
    for device in state["devices"]:
        lacking = [k for k, v in device.items() if isinstance(v, dict) and v["value"] is None]
        detail = f"{device['name']} {device['uuid']}, driver {state['driver']}"
        rows.append(Examined("GPU", True, detail))
        if lacking:
            rows.append(Examined("GPU counters", False, ", ".join(lacking), "they stay null"))
    return rows


def _engine() -> list[Examined]:
    try:
        version = Engine(docker.host()).call("GET", "/version", timeout=10)
    except EngineError as exc:
        return [Examined("container engine", False, str(exc), "start it, or use launcher process")]
    return [Examined("container engine", True, f"{version.get('Version')} at {docker.host()}")]


def _failsafe() -> list[Examined]:
    if not systemd.available():
        why = "systemd is not PID 1" if os.geteuid() == 0 else "system timers need root"
        remedy = "the watchdog is used: it does not survive a reboot"
        return [Examined("systemd timer", False, why, remedy)]
    unit = (systemd.UNIT_PLACE / systemd.BOOT_UNIT).is_file()
    remedy = "" if unit else "lanescope doctor --boot-unit"
    return [
        Examined("systemd timer", True, "system scope"),
        Examined("restore after a reboot", unit, systemd.BOOT_UNIT, remedy),
    ]


def _script() -> list[Examined]:
    try:
        return [Examined("restore script's Python", True, restore_script.interpreter())]
    except LanescopeError as exc:
        return [Examined("restore script's Python", False, exc.message, exc.remedy)]


def _permissions() -> list[Examined]:
    root = os.geteuid() == 0
    remedy = "" if root else "processes of other users cannot be stopped or seen"
    rows = [Examined("root", root, f"uid {os.geteuid()}", remedy)]
    try:
        rows.append(Examined("state folder", True, str(places.state_folder())))
    except OSError as exc:
        rows.append(Examined("state folder", False, str(exc), "set LANESCOPE_STATE"))
    paranoid = Path("/proc/driver/nvidia/params")
    if paranoid.exists() and "RmProfilingAdminOnly: 1" in paranoid.read_text() and not root:
        rows.append(
            Examined("GPU counters for users", False, "RmProfilingAdminOnly", "run as root")
        )
    return rows


def _disk() -> list[Examined]:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    enough = free >= 10
    remedy = "" if enough else "a window asks for 10 GiB unless checks.free_gib says less"
    return [Examined("disk here", enough, f"{free:.1f} GiB free", remedy)]
