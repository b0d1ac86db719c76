"""The states with the incumbent serving again: export, scrub, attribution, catalogue."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanescope.profiler.adapters import nsight
from lanescope.profiler.window import attribution, figures, scrub
from lanescope.profiler.window.folder import sha256_of
from lanescope.profiler.window.run import Run
from lanescope.schemas.documents.receipt import Outcome

if TYPE_CHECKING:
    from lanescope.schemas.catalogue import Artifact, AttributionRow

TRACE = "trace.sqlite"


def export(run: Run) -> dict[str, Any]:
    """The raw export stays private; the scrubbed one goes to the output folder, by its checksum."""
    keep_log(run)
    private = run.folder.private
    report = nsight.settled_report(private / "report", 0.1, 1.0)
    raw = private / "raw.sqlite"
    if not raw.exists():
        nsight.export(run.nsight, report, raw, run.plan.window.durations.export_s)
    target = run.folder.path / TRACE
    result: dict[str, Any] = {"made": "before this runner"}
    if not target.exists():  # it has its name only once it is whole and proved
        result = scrub.scrub(raw, target, run.redact.values)
    run.results["kernels"] = nsight.kernels(run.folder.path / TRACE)
    return {
        "report_sha256": sha256_of(report),
        "report_bytes": report.stat().st_size,
        "trace": TRACE,
        "trace_sha256": sha256_of(run.folder.path / TRACE),
        "kernels": run.results["kernels"],
        "scrubbed": result,
    }


def keep_log(run: Run) -> None:
    """The engine's log without secrets, and the lines that the lane asks for."""
    raw = run.folder.private / "engine.log"
    if not raw.exists():
        return
    text = raw.read_text(encoding="utf-8", errors="replace")
    run.folder.write("engine.log", text)
    patterns = [re.compile(p) for p in run.plan.candidate.log.patterns]
    if patterns:
        lines = [line for line in text.splitlines() if any(p.search(line) for p in patterns)]
        run.folder.write("engine-lines.log", "".join(line + "\n" for line in lines))


def attribute(run: Run) -> dict[str, Any]:
    """Slowdown, the attribution of the export, gates. No kernels is a result, not a failure."""
    facts: dict[str, Any] = {"slowdown": _slowdown(run)}
    if run.results.get("kernels") == 0:
        facts["attribution"] = "no device activity: the report holds no kernels"
        return facts | {"gates": _gates(run)}
    target = run.folder.path / "attribution"
    facts["attribution"] = attribution.attribute(
        run.folder.path / TRACE, target, run.plan.window.profile
    )
    run.results["attribution"] = facts["attribution"]
    return facts | {"gates": _gates(run)}


def _gates(run: Run) -> list[dict[str, Any]]:
    return attribution.gates(run.plan.gates, run.folder.path, run.plan.baseline)


def _slowdown(run: Run) -> dict[str, Any]:
    control, profiled = (figures.read_rows(run.folder, phase) for phase in ("control", "profiled"))
    found = figures.slowdown(control, profiled)
    run.results["slowdown"] = found
    return found


def catalogue(run: Run) -> dict[str, Any]:
    """One row for the window and one for each file worth finding again."""
    from lanescope.schemas.catalogue import Window, open_catalogue  # slow to import: last

    with contextlib.closing(open_catalogue()) as store, store.write() as session:
        for before in session.query(Window).filter_by(run=run.run):
            session.delete(before)  # a killed runner's
        session.flush()
        row = Window(
            run=run.run,
            incumbent=run.plan.incumbent.name,
            candidate=run.plan.candidate.name,
            axis=run.plan.window.axis,
            state="catalogued",
            outcome=None,
            folder=str(run.folder.path),
            facts={"plan_sha256": run.plan.sha256, "nsys": run.nsight.version},
        )
        row.artifacts = _artifacts(run)
        row.attributions = _attributions(run)
        session.add(row)
        return {"catalogue": store.name, "artifacts": len(row.artifacts)}


def _attributions(run: Run) -> list[AttributionRow]:
    """The attribution of this window's export, where there is one."""
    from lanescope.schemas.catalogue import AttributionRow

    found = run.results.get("attribution")
    if found is None:
        return []
    return [
        AttributionRow(
            lane=run.plan.candidate.name,
            trace_sha256=sha256_of(run.folder.path / TRACE),
            folder=str(run.folder.path / found["folder"]),
            steps=found["steps"],
            wall_ms=found["wall_ms"],
        )
    ]


def conclude(run: Run, outcome: Outcome, state: str) -> None:
    """The outcome on the window's row, and a row also for a window that failed."""
    from lanescope.schemas.catalogue import Window, open_catalogue

    with contextlib.closing(open_catalogue()) as store, store.write() as session:
        row = session.query(Window).filter_by(run=run.run).one_or_none()
        if row is None:
            row = Window(
                run=run.run,
                incumbent=run.plan.incumbent.name,
                candidate=run.plan.candidate.name,
                axis=run.plan.window.axis,
                state=state,
                folder=str(run.folder.path),
            )
            session.add(row)
        row.state, row.outcome, row.exit_code = state, outcome.word, outcome.code
        row.ended_ns = time.time_ns()


def _artifacts(run: Run) -> list[Artifact]:
    rows = []
    for path in sorted(run.folder.path.rglob("*")):
        if path.is_file() and path.name != ".reserve":
            rows.append(_artifact(path, str(path.relative_to(run.folder.path)), private=False))
    for path in sorted((run.folder.private / "report").glob("*.nsys-rep")):
        rows.append(_artifact(path, str(path), private=True))
    return rows


def _artifact(path: Path, name: str, private: bool) -> Artifact:
    from lanescope.schemas.catalogue import Artifact

    kinds = {".nsys-rep": "report", ".sqlite": "export", ".log": "log", ".jsonl": "probe"}
    kind = "receipt" if "receipts/" in name else kinds.get(path.suffix, "result")
    return Artifact(
        kind=kind,
        path=name,
        sha256=sha256_of(path),
        size_bytes=path.stat().st_size,
        private=private,
    )
