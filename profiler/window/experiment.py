"""The states that touch the machine: incumbent out, candidate in, probes, candidate out."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from lanescope.profiler.adapters import metrics, nsight, probe
from lanescope.profiler.adapters.completion import ask, serving
from lanescope.profiler.adapters.launcher import LaunchError
from lanescope.profiler.adapters.nvml import Sampler, compute_pids
from lanescope.profiler.window import figures
from lanescope.profiler.window.run import Run
from lanescope.schemas.errors import LanescopeError

#: in the private state folder: how far a probe under way is
PROGRESS = "probe.json"


class ProbeError(LanescopeError):
    """The probe did not come to its end."""


def stop_incumbent(run: Run) -> dict[str, Any]:
    """Stop it; the mark that it may be down is left before, not after."""
    with run.restore_lock():
        run.mark("touched")
        run.results["stopped_at"] = time.clock_gettime(time.CLOCK_BOOTTIME)
        return run.launcher.stop_incumbent()


def launch(run: Run) -> dict[str, Any]:
    """Start the candidate under nsys."""
    lane = run.plan.candidate
    command = run.session.wrapped(run.launcher.server_command())
    with run.restore_lock():
        if run.launcher.incumbent_running():
            raise LaunchError("the incumbent came back by itself", "see its restart policy")
        run.results["on_gpu_before"] = compute_pids(lane.devices)[0]
        facts = run.launcher.launch(command)
    return {**facts, "command": command, "nsys": run.nsight.version, "tracer": lane.tracer.trace}


def ready(run: Run) -> dict[str, Any]:
    """Alive, healthy, serving the model, one authenticated completion."""
    lane = run.plan.candidate
    key, began = run.plan.key(lane), time.monotonic()
    why = ""
    while time.monotonic() - began < lane.ready.budget_s:
        if not run.launcher.candidate_alive():
            raise LaunchError("the candidate ended before it was ready", "see engine.log")
        why = serving(lane.ready.model_dump(), key)
        if not why:
            return {"seconds": round(time.monotonic() - began, 3)}
        time.sleep(min(1.0, lane.ready.budget_s / 50))
    raise LaunchError(
        f"the candidate was not ready within {lane.ready.budget_s:g} s: {why}",
        "see engine.log; give ready.budget_s more if it was still loading",
    )


def _client(run: Run) -> probe.Client:
    lane = run.plan.candidate
    return probe.Client(lane.ready, run.plan.key(lane), run.plan.window.probe)


def _failures(rows: list[probe.Request]) -> None:
    bad = [r for r in rows if r.error]
    if bad:
        raise ProbeError(
            f"{len(bad)} of {len(rows)} requests failed, first {bad[0].prompt_id}: {bad[0].error}",
            "see engine.log",
        )


def warm_up(run: Run) -> dict[str, Any]:
    """The warm-up requests, one after another."""
    client = _client(run)
    try:
        rows = probe.warm_up(client, run.plan.prompts)
    finally:
        client.close()
    _failures(rows)
    return {"requests": len(rows)}


def control_probe(run: Run) -> dict[str, Any]:
    """nsys is attached and does not collect: what the profiled probe is held against."""
    limit = 1000 * run.plan.window.probe.timeout_s
    return _probe(run, "control", limit)


def profiled_probe(run: Run) -> dict[str, Any]:
    """Open the collection, leave its opening second out, and ask the same again."""
    run.mark("collecting")
    facts = _open(run)
    time.sleep(run.plan.window.durations.settle_s)
    facts.update(_probe(run, "profiled", run.plan.window.durations.profile_max_s))
    return facts


def _probe(run: Run, phase: str, limit_s: float) -> dict[str, Any]:
    lane = run.plan.candidate
    client, key = _client(run), run.plan.key(lane)
    watch = metrics.Watch(lane.ready.url, key, client.in_flight)
    sampler = Sampler(lane.devices, run.folder.path / f"gpu-{phase}.parquet")
    with sampler, ThreadPoolExecutor(1) as pool:
        try:
            with watch as bracket:
                future = pool.submit(probe.run, client, run.plan.prompts, phase)
                rows = _wait(run, future, limit_s, lambda: _progress(run, client, phase))
        finally:
            client.close()
    figures.write_rows(run.folder, phase, rows)
    found = figures.probe_figures(rows, bracket)
    found["gpu"] = sampler.summary()
    run.results[phase] = {"figures": found}
    run.folder.write_json(f"probe-{phase}.json", found)
    _failures(rows)
    return {k: found[k] for k in ("requests", "contamination", "not_reported", "wall_s")}


def _progress(run: Run, client: probe.Client, phase: str) -> None:
    """What `lanescope serve` shows of a probe under way."""
    settings = run.plan.window.probe
    asked = len(run.plan.prompts) * settings.repetitions * len(settings.concurrency)
    run.private_json_quietly(PROGRESS, {"phase": phase, "asked": asked, **client.progress()})


def _wait(run: Run, future: Any, limit_s: float, tell: Callable[[], None]) -> list[probe.Request]:
    """The probe's rows; looks at the candidate's life meanwhile, and tells how far it is."""
    limit = time.monotonic() + limit_s
    while True:
        try:
            rows: list[probe.Request] = future.result(timeout=0.25)
            return rows
        except FutureTimeout:
            tell()
            if not run.launcher.candidate_alive():
                raise ProbeError("the candidate died in the probe", "see engine.log") from None
            if time.monotonic() > limit:
                raise ProbeError(
                    f"the probe did not end within {limit_s:g} s", "ask for fewer tokens or prompts"
                ) from None
            if run.guard is not None:
                run.guard.check()


def _open(run: Run) -> dict[str, Any]:
    tracer = run.plan.candidate.tracer
    if tracer.mode == "session":
        return dict(run.session.start(run.launcher.run_inside))
    if tracer.mode == "capture-range":
        return _endpoint(run, tracer.start_endpoint)
    return _control(run, "start")


def _close(run: Run) -> dict[str, Any]:
    tracer = run.plan.candidate.tracer
    if tracer.mode == "session":
        return dict(run.session.stop(run.launcher.run_inside, run.plan.window.durations.stop_s))
    if tracer.mode == "capture-range":
        return _endpoint(run, tracer.stop_endpoint)
    return _control(run, "stop")


def _endpoint(run: Run, path: str) -> dict[str, Any]:
    """A 200 proves nothing here: the report does."""
    lane = run.plan.candidate
    url = lane.ready.url + path
    status, text = ask(url, run.plan.key(lane), {}, timeout=run.plan.window.durations.stop_s)
    if status != 200:
        remedy = "the engine needs a configured profiler for its profile endpoints"
        raise nsight.ReportLost(f"{path} gave {status or 'no answer'}: {text[:100]}", remedy)
    return {path: status}


def _control(run: Run, word: str) -> dict[str, Any]:
    """Write the word where the engine's hook polls; wait until it wrote it back beside that."""
    place = run.launcher.control_file
    acknowledged = place.with_name(place.name + ".ack")
    partial = place.with_name(place.name + ".partial")
    partial.write_text(word)
    partial.rename(place)
    limit = time.monotonic() + run.plan.window.durations.stop_s
    while time.monotonic() < limit:
        if acknowledged.exists() and acknowledged.read_text().strip() == word:
            return {"control_file": f"{word} acknowledged"}
        if not run.launcher.candidate_alive():
            break
        time.sleep(0.05)
    raise nsight.ReportLost(f"{place}: the engine's hook did not acknowledge {word}", "install it")


def stop_profile(run: Run) -> dict[str, Any]:
    """Close the collection, check it, and wait for a file that keeps its size."""
    bounds, began = run.plan.window.durations, time.monotonic()
    run.mark("stopping")
    facts = _close(run)
    place = run.folder.private / "report"
    try:
        report = nsight.settled_report(place, bounds.stable_s, bounds.stop_s)
    except nsight.ReportLost:
        run.launcher.keep_unfinished()
        left_s = max(1.0, began + bounds.stop_s - time.monotonic())
        facts |= nsight.import_again(run.nsight, place, left_s)
        report = nsight.settled_report(place, 0.1, 1.0)  # names what there is instead
    run.mark("collected")
    return {**facts, "report": report.name, "bytes": report.stat().st_size}


def stop_candidate(run: Run) -> dict[str, Any]:
    """End it with a long grace, then keep its log. Only after the report is whole."""
    with run.restore_lock():
        if run.plan.candidate.tracer.mode == "session":
            run.session.shutdown(run.launcher.run_inside)
        facts = run.launcher.stop_candidate()
    run.launcher.save_log(run.folder.private / "engine.log")
    return {**facts, "gpu": _gpu_free(run)}


def _gpu_free(run: Run, budget_s: float = 60.0) -> str:
    """Wait until nothing that came with the candidate computes on its GPUs."""
    before, began = run.results.get("on_gpu_before", set()), time.monotonic()
    while True:
        now, why = compute_pids(run.plan.candidate.devices)
        if why:
            return f"not known: {why}"
        if not now - before:
            return f"free after {time.monotonic() - began:.1f} s"
        if time.monotonic() - began > budget_s:
            raise LaunchError("the candidate's processes still show on the GPU", "see nvidia-smi")
        time.sleep(0.25)
