"""Tables of a comparison."""

from __future__ import annotations

from lanescope.dashboards.figures.look import bucket_colours
from lanescope.dashboards.tables import Col, Table
from lanescope.schemas.documents.comparison import ComparisonDocument, PairDocument


def lanes(doc: ComparisonDocument) -> Table:
    """One row a lane."""
    cols = (
        Col("name", "lane"),
        Col("gpu", "GPU"),
        Col("steps", "steps", 0),
        Col("requests", "requests", 0),
        Col("wall_ms", "wall ms", 3),
        Col("busy_ms", "busy ms", 3),
        Col("sum_ms", "sum ms", 3),
        Col("accepted_per_step", "tokens/step", 2),
        Col("window", "window"),
        Col("basis", "found by"),
        Col("nsys_version", "tracer"),
        Col("trace_sha256", "sha256"),
    )
    rows = [
        [getattr(lane, c.key) for c in cols[:-1]] + [lane.trace_sha256[:12]] for lane in doc.lanes
    ]
    return Table("lanes", "Lanes", cols, rows)


def differs(doc: ComparisonDocument) -> Table:
    """One row a thing that is not equal between the lanes."""
    cols = (
        Col("what", "what"),
        Col("values", "lane by lane"),
        Col("effect", "effect"),
        Col("note", "note"),
    )
    rows = [[d.what, " | ".join(d.values), d.effect, d.note] for d in doc.differs]
    return Table("differs", "What differs", cols, rows)


def deltas(pair: PairDocument, number: int) -> Table:
    """One row a figure of a step: both lanes, the difference, its interval, how certain."""
    cols = (
        Col("metric", "figure"),
        Col("incumbent_ms", "incumbent ms", 3),
        Col("candidate_ms", "candidate ms", 3),
        Col("delta_ms", "difference", 4),
        Col("low_ms", "low", 4, hint="of the 95 % interval"),
        Col("high_ms", "high", 4),
        Col("sign", "sign"),
        Col("certainty", "certainty"),
        Col("p_family", "p", 4, hint="corrected for looking at every row"),
        Col("median_delta_ms", "of medians", 4),
    )
    rows = [[getattr(d, c.key) for c in cols] for d in pair.deltas]
    shades = {d.metric: bucket_colours([d.metric])[d.metric] for d in pair.deltas}
    plain = {k: v for k, v in shades.items() if k not in ("wall", "busy", "sum")}
    return Table(f"deltas_{number}", "Differences", cols, rows, swatches=plain)


def counts(pair: PairDocument, number: int) -> Table:
    """One row a count, rate or time without an interval."""
    cols = (
        Col("what", "what"),
        Col("unit", "unit"),
        Col("incumbent", "incumbent", 3),
        Col("candidate", "candidate", 3),
        Col("delta", "difference", 3),
    )
    rows = [[getattr(c, col.key) for col in cols] for c in pair.counts]
    return Table(f"counts_{number}", "Counts and rates", cols, rows)


def kernels(pair: PairDocument, number: int) -> Table:
    """One row a kernel function that appeared, vanished or changed."""
    cols = (
        Col("bucket", "bucket"),
        Col("name", "kernel"),
        Col("change", "change"),
        Col("incumbent_ms", "incumbent ms", 3),
        Col("candidate_ms", "candidate ms", 3),
        Col("delta_ms", "difference", 4),
        Col("incumbent_launches", "launches", 1),
        Col("candidate_launches", "launches now", 1),
    )
    rows = [[getattr(k, c.key) for c in cols] for k in pair.kernels]
    shades = bucket_colours(k.bucket for k in pair.kernels)
    return Table(f"changed_{number}", "Kernels", cols, rows, swatches=shades)
