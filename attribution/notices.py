"""What the document has to warn of, and what it has to withhold."""

from __future__ import annotations

from lanescope.attribution.abstentions import abstentions
from lanescope.attribution.attribute import Analysis
from lanescope.attribution.host import seconds_without_kernels, workers_without_kernels
from lanescope.attribution.phases.by_nvtx import EVIDENCE
from lanescope.attribution.rules.profile import UNMATCHED
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.findings import Abstention, Finding, TraceWarning
from lanescope.schemas.nsight import known_schema

#: Unmatched time above this share of the decode GPU sum is worth a warning.
_UNMATCHED_SHARE = 0.05
_FEW_STEPS = 20


def notices(analysis: Analysis, doc: AttributionDocument) -> tuple[list[Finding], list[Abstention]]:
    """Warnings and abstentions of a finished document."""
    return _warnings(analysis, doc), abstentions(analysis, doc)


def _warnings(analysis: Analysis, doc: AttributionDocument) -> list[Finding]:
    out: list[Finding] = []
    info, coverage = analysis.staged.info, doc.coverage
    for cell in info.bad_cells:
        out.append(
            TraceWarning.BAD_CELLS.finding(
                f"{cell['cells']:,} cells of {cell['table']}.{cell['column']} are no integers"
            )
        )
    if info.excluded:
        words = ", ".join(f"{n:,} {_REASON[k]}" for k, n in info.excluded.items())
        out.append(TraceWarning.BROKEN_KERNELS.finding(f"kernels left out: {words}"))
    if info.clock_skew_kernels:
        out.append(
            TraceWarning.CLOCK_SKEW.finding(
                f"{info.clock_skew_kernels:,} kernels start before their own launch"
            )
        )
    if coverage.unattributed:
        out.append(
            TraceWarning.UNATTRIBUTED.finding(
                f"{coverage.unattributed:,} of {coverage.kernels:,} kernels "
                f"({_share(coverage.unattributed_ns, coverage.kernel_sum_ns)} of the time) have no "
                "launch in the trace"
            )
        )
    out += _structure_warnings(analysis, doc)
    out += _step_warnings(doc)
    return out


_REASON = {
    "no_time": "without times",
    "end_before_start": "that end before they start",
    "before_launch": "that start before their own launch",
    "impossible_duration": "that last longer than a day",
}


def _structure_warnings(analysis: Analysis, doc: AttributionDocument) -> list[Finding]:
    out: list[Finding] = []
    info = analysis.staged.info
    if doc.coverage.graph_blocks:
        out.append(
            TraceWarning.GRAPH_LEVEL.finding(
                f"{doc.coverage.graph_blocks:,} graph launches were traced as one block each; the "
                "kernels inside are not in the trace"
            )
        )
    major, minor = known_schema()
    version = info.schema_version.split(".")
    if version[0].isdigit() and int(version[0]) > major:
        out.append(
            TraceWarning.NEWER_SCHEMA.finding(
                f"export schema {info.schema_version}, checked up to {major}.{minor}"
            )
        )
    if "demangled_id" in info.absent_columns.get("kernels", []):
        out.append(TraceWarning.SHORT_NAMES.finding("column demangledName is missing"))
    if info.gpus and not info.devices_known and len(info.processes) > 1:
        out.append(
            TraceWarning.DEVICES_UNKNOWN.finding(
                f"{len(info.processes)} processes and no TARGET_INFO_CUDA_DEVICE table"
            )
        )
    out += _record_warnings(analysis, doc)
    host = analysis.host
    if host.open_ranges:
        out.append(TraceWarning.RANGES_OPEN.finding(f"{host.open_ranges:,} ranges never closed"))
    if host.crossing_ranges:
        out.append(
            TraceWarning.RANGES_CROSS_THREADS.finding(
                f"{host.crossing_ranges:,} start/end ranges cross threads"
            )
        )
    return out


def _record_warnings(analysis: Analysis, doc: AttributionDocument) -> list[Finding]:
    """Records that should be there and are not: names, device rows, workers."""
    out: list[Finding] = []
    unnamed = analysis.rows(
        "SELECT coalesce(sum(kernels), 0)::BIGINT AS n, coalesce(sum(sum_ns), 0)::BIGINT AS ns"
        " FROM facts JOIN buckets_of_names AS b USING (name) WHERE starts_with(b.function, '#')"
    )[0]
    if unnamed["n"]:
        out.append(
            TraceWarning.NAMES_MISSING.finding(
                f"{unnamed['n']:,} kernels ({_share(unnamed['ns'], doc.coverage.kernel_sum_ns)} of "
                "the time) have no name in the trace"
            )
        )
    lost = seconds_without_kernels(analysis.host, analysis.staged.info.launches_rebuilt)
    if lost:
        launches = sum(n for _, n in lost)
        out.append(
            TraceWarning.DROPPED_RECORDS.finding(
                f"{launches:,} launches in {len(lost)} whole seconds have no device rows"
            )
        )
    idle = workers_without_kernels(analysis.host, len(analysis.staged.info.processes))
    if idle:
        pids = ", ".join(str(analysis.staged.info.processes[p]["pid"]) for p in idle)
        out.append(TraceWarning.WORKERS_IDLE.finding(f"processes {pids} launched, yet ran nothing"))
    return out


def _step_warnings(doc: AttributionDocument) -> list[Finding]:
    out: list[Finding] = []
    steps = doc.steps
    if steps is None:
        return out
    if steps.warmup:
        out.append(
            TraceWarning.WARMUP.finding(f"{steps.warmup} of {steps.count} steps are warm-up")
        )
    if steps.measured < _FEW_STEPS:
        out.append(TraceWarning.STEPS_FEW.finding(f"only {steps.measured} steps are measured"))
    if EVIDENCE not in steps.basis:
        out.append(TraceWarning.INFERRED.finding(f"phases and steps come from {steps.basis}"))
    other = next((b for b in doc.buckets if b.bucket == UNMATCHED), None)
    if other is not None and other.share_of_sum > _UNMATCHED_SHARE:
        out.append(
            TraceWarning.UNMATCHED_TIME.finding(
                f"{other.share_of_sum:.1%} of the decode GPU sum matches no rule; most of it in "
                + ", ".join(other.top_names[:3])
            )
        )
    return out


def _share(part: int | None, whole: int) -> str:
    return f"{part / whole:.1%}" if whole and part else "0 %"
