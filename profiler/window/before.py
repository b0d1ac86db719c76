"""The states before anything is touched: checks, records, the failsafe."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

from lanescope.profiler.adapters import nsight, nvml
from lanescope.profiler.adapters.completion import serving
from lanescope.profiler.adapters.metrics import scrape
from lanescope.profiler.window import guard, lanefile, release, restore_script
from lanescope.profiler.window.plan import Plan
from lanescope.profiler.window.run import Run
from lanescope.schemas.errors import UnusableInput


def preflight(run: Run) -> dict[str, Any]:
    """Everything that can be known without touching anything."""
    plan = run.plan
    facts: dict[str, Any] = {"release": release.require(plan), "plan_sha256": plan.sha256}
    facts["launcher"] = run.launcher.check()
    facts["disk"] = disk(plan)
    facts["nsys"] = nsight.self_test(run.nsight)
    facts["gpu"] = gpu(plan)
    facts["incumbent"] = incumbent(plan)
    return facts


def disk(plan: Plan) -> dict[str, float]:
    """Free space where output and private folder lie (or will)."""
    found = {}
    for name, folder in (("output", plan.output), ("private", plan.private)):
        place = folder
        while not place.exists():
            place = place.parent
        if not os.access(place, os.W_OK):
            raise UnusableInput(f"{plan.path}: {name}: {place} is not writable", "name another")
        free = shutil.disk_usage(place).free / 2**30
        found[f"{name}_free_gib"] = round(free, 1)
        if free < plan.window.checks.free_gib:
            raise UnusableInput(
                f"{plan.path}: {name}: {free:.1f} GiB free, checks.free_gib asks for "
                f"{plan.window.checks.free_gib:g}",
                "free space for report, export and staging",
            )
    return found


def gpu(plan: Plan) -> dict[str, Any]:
    """The lane's GPUs by UUID, and that nobody works them beside the idle incumbent."""
    state = nvml.snapshot()
    wanted = [*plan.candidate.devices, *plan.incumbent.devices]
    if not wanted:
        return state
    known = {d["uuid"]: d for d in state["devices"]}
    for uuid in dict.fromkeys(wanted):
        if uuid not in known:
            why = state["why"] or f"this machine has {', '.join(known) or 'none'}"
            raise UnusableInput(f"{plan.path}: devices: no GPU {uuid}: {why}", "see nvidia-smi -L")
        busy = known[uuid]["gpu_util_percent"]["value"]
        if busy is not None and busy > plan.window.checks.gpu_busy_percent_max:
            raise UnusableInput(
                f"{plan.path}: checks.gpu_busy_percent_max: {uuid} is {busy} % busy",
                "wait until it is idle",
            )
    return state


def incumbent(plan: Plan) -> dict[str, Any]:
    """The incumbent serves, and serves nobody right now."""
    lane = plan.incumbent
    key = plan.key(lane)
    why = serving(lane.ready.model_dump(), key)
    if why:
        raise UnusableInput(
            f"{plan.incumbent_path}: ready: the incumbent does not serve: {why}",
            "there is nothing to come back to: start it, or correct the lane file",
        )
    if not plan.window.checks.require_idle:
        return {"serves": True, "idle": "not asked"}
    time.sleep(0.5)  # the completion just sent leaves the gauges a moment after its answer
    before = scrape(lane.ready.url, key)
    seen = []
    for _ in range(4):
        time.sleep(0.25)
        seen.append(scrape(lane.ready.url, key))
    return {"serves": True, "idle": _idle(plan, [before, *seen])}


def _idle(plan: Plan, samples: list[Any]) -> str:
    where = f"{plan.incumbent_path}: ready"
    if any(s is None or s["running"] is None for s in samples):
        raise UnusableInput(
            f"{where}: /metrics does not tell whether other clients are served",
            "make sure nobody is, and set checks.require_idle = false",
        )
    crowd = max(s["running"] + (s["waiting"] or 0) for s in samples)
    moved = samples[0]["requests"] != samples[-1]["requests"]
    if crowd or moved:
        raise UnusableInput(
            f"{where}: another client is being served now", "wait, or route it away"
        )
    return "no request in one second"


def snapshot(run: Run) -> dict[str, Any]:
    """The candidate's executed source, the incumbent's record, GPU, driver, clocks."""
    run.folder.write_document("lane.toml", lanefile.text(run.plan.candidate))
    run.folder.write_document("incumbent.toml", lanefile.text(run.plan.incumbent))
    found = run.launcher.snapshot()
    found["gpu"] = nvml.snapshot()
    run.folder.write_json("snapshot.json", found)
    source = found.get("candidate_source", {})
    return {
        "file": "snapshot.json",
        "source_files": len(source.get("files", {})),
        "installed_packages": len(source.get("installed", [])),
        "why": source.get("why", ""),
    }


def failsafe_proof(run: Run) -> dict[str, Any]:
    """Write the restore script, check it, and let a dummy timer run it in its looking mode."""
    run.restore_command = restore_script.write(run.state_folder, restore_config(run))
    settings = run.plan.window.failsafe
    failsafe = guard.choose(settings, run.restore_command, run.state_folder, run.run)
    run.guard = guard.Guard(failsafe, run.state_folder, settings)
    run.private_json("failsafe.json", {"kind": failsafe.kind, "command": run.restore_command})
    with run.signals.shielded():
        return run.guard.prove()


def restore_config(run: Run) -> dict[str, Any]:
    """What the restore script needs to know; secrets stay in their files."""
    lane, plan = run.plan.incumbent, run.plan
    key = lane.secrets[lane.ready.api_key].file if lane.ready.api_key else None
    return {
        "window": plan.window.name,
        "run": run.run,
        "launcher": lane.launcher,
        "candidate": {
            "container": f"lanescope-{run.run}",
            "mark": run.run,
            "grace_s": plan.candidate.shutdown.grace_s,
        },
        "ready": lane.ready.model_dump(),
        "key": {"file": key} if key else None,
        "give_up_s": 3 * lane.ready.budget_s + 600,
        **run.launcher.restore_part(),
    }


def failsafe_armed(run: Run) -> dict[str, Any]:
    """Arm it, and leave the marker that a boot unit looks for."""
    assert run.guard is not None
    with run.signals.shielded():
        facts = run.guard.arm()
    script = run.state_folder / "armed.sh"
    words = " ".join(f"'{w}'" for w in run.restore_command)
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o700)
    link = run.state_folder.parent.parent / "armed"
    partial = Path(f"{link}.partial")
    partial.unlink(missing_ok=True)
    partial.symlink_to(script)
    partial.rename(link)
    return facts
