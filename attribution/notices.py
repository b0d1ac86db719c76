"""What the document has to warn of, and what it has to withhold."""

from __future__ import annotations

from lanescope.attribution.attribute import GRAPH_BLOCKS, Analysis
from lanescope.attribution.phases.by_nvtx import EVIDENCE
from lanescope.attribution.rules.profile import UNMATCHED
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.findings import Abstained, Abstention, Finding, TraceWarning
from lanescope.schemas.nsight import known_schema, table_specs

#: Unmatched time above this share of the decode GPU sum is worth a warning.
_UNMATCHED_SHARE = 0.05
_FEW_STEPS = 20


def notices(analysis: Analysis, doc: AttributionDocument) -> tuple[list[Finding], list[Abstention]]:
    """Warnings and abstentions of a finished document."""
    return _warnings(analysis, doc), _abstentions(analysis, doc)


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


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0 %"


def _abstentions(analysis: Analysis, doc: AttributionDocument) -> list[Abstention]:
    out: list[Abstention] = []
    absent = set(analysis.staged.info.absent)
    rows = analysis.staged.info.rows

    def missing(table: str) -> bool:
        return table in absent or rows.get(table, 0) == 0

    if missing("api"):
        why = _missing("api", absent)
        out.append(Abstained.LAUNCHES.because(why))
        out.append(Abstained.HOST_WAIT.because(why))
    if missing("ranges"):
        out.append(Abstained.RANGES.because(_missing("ranges", absent)))
    if missing("memcpy") and missing("memset"):
        out.append(Abstained.MEMORY_OPS.because(_missing("memcpy", absent)))
    if "gpus" in absent:
        out.append(Abstained.GPU.because("table TARGET_INFO_GPU is missing"))
    if doc.steps is None:
        reasons = "; ".join(dict.fromkeys(analysis.phased.reasons))
        why = reasons or "no range or recurring work looks like a verification step"
        if missing("api"):
            why = f"{why} ({_missing('api', absent)})"
        out.append(Abstained.STEPS.because(why))
        out.append(Abstained.BUCKETS.because("no verification steps", Abstained.STEPS.remedy))
    elif any(b.bucket == GRAPH_BLOCKS for b in doc.buckets):
        block = next(b for b in doc.buckets if b.bucket == GRAPH_BLOCKS)
        out.append(
            Abstained.BUCKETS.because(
                f"{block.share_of_sum:.1%} of the decode GPU time lies in graphs traced as blocks"
            )
        )
    if doc.steps is not None and doc.steps.period_ms is None:
        out.append(Abstained.PERIOD.because("no two steps run straight into one another"))
    if doc.prefill is None:
        out.append(Abstained.PREFILL.because("no prefill was found"))
    if (
        doc.steps is not None
        and not analysis.phased.node_layers.num_rows
        and not (analysis.phased.assignment.layer >= 0).any()
    ):
        out.append(Abstained.LAYERS.because("no layer ranges reach the kernels of the steps"))
    return out


def _missing(table: str, absent: set[str]) -> str:
    source = table_specs()[table].sources[0]
    return f"table {source} is {'missing' if table in absent else 'empty'}"
