"""What the document has to withhold, and what would make it available."""

from __future__ import annotations

from lanescope.attribution.attribute import GRAPH_BLOCKS, Analysis
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.findings import Abstained, Abstention
from lanescope.schemas.nsight import table_specs


def abstentions(analysis: Analysis, doc: AttributionDocument) -> list[Abstention]:
    """Every value that the document does not give, with the reason."""
    return [
        *_missing_tables(analysis),
        *_missing_steps(analysis, doc),
        *_missing_parts(analysis, doc),
    ]


def _missing_tables(analysis: Analysis) -> list[Abstention]:
    info = analysis.staged.info
    out: list[Abstention] = []
    for table, values in (
        ("api", (Abstained.LAUNCHES, Abstained.HOST_WAIT)),
        ("ranges", (Abstained.RANGES,)),
        ("memcpy", (Abstained.MEMCPY,)),
        ("memset", (Abstained.MEMSET,)),
    ):
        if why := missing_table(analysis, table):
            out += [value.because(why) for value in values]
    if not info.gpus:
        out.append(Abstained.GPU.because("table TARGET_INFO_GPU is missing or lists no GPU"))
    if not info.nsys_version:
        out.append(Abstained.NSYS_VERSION.because("table META_DATA_EXPORT is missing or empty"))
    return out


def _missing_steps(analysis: Analysis, doc: AttributionDocument) -> list[Abstention]:
    if doc.steps is None:
        reasons = "; ".join(dict.fromkeys(analysis.phased.reasons))
        why = reasons or "no range or recurring work looks like a verification step"
        if without_calls := missing_table(analysis, "api"):
            why = f"{why} ({without_calls})"
        return [
            Abstained.STEPS.because(why),
            Abstained.BUCKETS.because("no verification steps", Abstained.STEPS.remedy),
        ]
    out: list[Abstention] = []
    block = next((b for b in doc.buckets if b.bucket == GRAPH_BLOCKS), None)
    if block is not None:
        share = f"{block.share_of_sum:.1%} of the decode GPU time"
        out.append(Abstained.BUCKETS.because(f"{share} lies in graphs traced as blocks"))
    if missing_table(analysis, "strings"):
        out.append(
            Abstained.BUCKETS.because(
                "kernels have no names: table StringIds is missing or empty",
                "export the report again",
            )
        )
    return out


def _missing_parts(analysis: Analysis, doc: AttributionDocument) -> list[Abstention]:
    out: list[Abstention] = []
    if doc.steps is not None and doc.steps.period_ms is None:
        out.append(Abstained.PERIOD.because("no two steps run straight into one another"))
    if doc.prefill is None:
        out.append(Abstained.PREFILL.because("no prefill was found"))
    if doc.steps is not None and not _layered(analysis):
        out.append(Abstained.LAYERS.because(_why_no_layers(analysis)))
    return out


def _layered(analysis: Analysis) -> bool:
    """Whether a kernel of a step has a layer."""
    phased = analysis.phased
    if not phased.node_layers.num_rows and not (phased.assignment.layer >= 0).any():
        return False
    return bool(
        analysis.rows(
            "SELECT 1 FROM kernel_rows JOIN segments USING (segment)"
            " WHERE step >= 0 AND layer >= 0 LIMIT 1"
        )
    )


def _why_no_layers(analysis: Analysis) -> str:
    if missing_table(analysis, "ranges"):
        return missing_table(analysis, "ranges")
    if doc_nodes := missing_table(analysis, "graph_nodes"):
        return f"no layer range reaches the kernels of the steps ({doc_nodes})"
    return "no layer range reaches the kernels of the steps"


def missing_table(analysis: Analysis, table: str) -> str:
    """Why a table says nothing: missing or empty; '' where it has rows."""
    info = analysis.staged.info
    source = table_specs()[table].sources[0]
    if table in info.absent:
        return f"table {source} is missing"
    if info.rows.get(table, 0) == 0:
        return f"table {source} is empty"
    return ""
