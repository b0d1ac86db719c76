"""Every table of an attribution, in reading order."""

from __future__ import annotations

from lanescope.dashboards import copies_tables, ranks_tables
from lanescope.dashboards.figures.look import bucket_colours
from lanescope.dashboards.tables import Col, Table, Value
from lanescope.schemas.documents.attribution import AttributionDocument


def tables(doc: AttributionDocument) -> list[Table]:
    """All tables of the document that have rows."""
    found = [
        buckets(doc),
        *ranks_tables.tables(doc.ranks),
        phases(doc),
        prefill(doc),
        prefill_names(doc),
        api_calls(doc),
        kernels(doc),
        ranges(doc),
        *copies_tables.tables(doc),
        coverage(doc),
        warnings(doc),
        abstained(doc),
    ]
    return [t for t in found if t.rows]


def buckets(doc: AttributionDocument) -> Table:
    """One row a bucket over the measured steps, then idle and the wall they add up to."""
    cols: tuple[Col, ...] = (
        Col("bucket", "bucket"),
        Col("exclusive_ms_per_step", "ms/step", 3, hint="exclusive: the rows add up to the wall"),
        Col("share_of_wall", "of wall", 1, percent=True),
        Col("exclusive_p50_ms", "p50", 3),
        Col("exclusive_p95_ms", "p95", 3),
        Col("sum_ms_per_step", "sum ms", 3, hint="summed kernel time, overlap counted twice"),
        Col("launches_per_step", "launches", 1),
        Col("p50_us", "p50 us", 1, hint="duration of one launch"),
        Col("p95_us", "p95 us", 1),
        Col("max_us", "max us", 1),
        Col("under_10us", "<10 us", 0, percent=True, hint="share of launches under 10 us"),
    )
    if any(b.wait_ms_per_step is not None for b in doc.buckets):
        cols += (
            Col("wait_ms_per_step", "wait ms", 3, hint="of the sum: until the last rank's start"),
            Col("transfer_ms_per_step", "transfer ms", 3, hint="of the sum: the rest"),
        )
    rows: list[list[Value]] = [[getattr(b, c.key) for c in cols] for b in doc.buckets]
    foot = 0
    if doc.steps and doc.steps.idle_ns and doc.steps.wall_ms and rows:
        idle, wall, blank = doc.steps.idle_ns, doc.steps.wall_ms, [None] * (len(cols) - 5)
        share = idle.mean / 1e6 / wall.mean if wall.mean else None
        p50, p95 = (None if v is None else v / 1e6 for v in (idle.p50, idle.p95))
        rows.append(["idle", idle.mean / 1e6, share, p50, p95, *blank])
        rows.append(["wall", wall.mean, 1.0, wall.p50, wall.p95, *blank])
        foot = 2
    return Table(
        "buckets",
        "Where a step goes",
        cols,
        rows,
        "Exclusive time: the rows and idle add up to the wall to the nanosecond. What kernels of "
        "two buckets share belongs to the one that reached it first.",
        foot,
        swatches=bucket_colours(b.bucket for b in doc.buckets),
    )


def phases(doc: AttributionDocument) -> Table:
    """One row a (process, device, phase, part)."""
    cols = (
        Col("phase", "phase"),
        Col("part", "part"),
        Col("range_name", "range"),
        Col("process", "process", 0),
        Col("device", "gpu", 0),
        Col("instances", "instances", 0),
        Col("kernels", "kernels", 0),
        Col("sum_ns", "sum ms", 3, scale=1e6),
        Col("busy_ns", "busy ms", 3, scale=1e6, hint="union: overlap counts once"),
        Col("evidence", "found by"),
    )
    rows = [[getattr(p, c.key) for c in cols] for p in doc.phases]
    return Table("phases", "Phases", cols, rows, "Every kernel is in exactly one phase.")


def prefill(doc: AttributionDocument) -> Table:
    """One row a prefill."""
    cols = (
        Col("request", "request", 0),
        Col("process", "process", 0),
        Col("device", "gpu", 0),
        Col("kernels", "kernels", 0),
        Col("gpu_sum_ns", "sum ms", 3, scale=1e6),
        Col("gpu_busy_ns", "busy ms", 3, scale=1e6),
        Col("start_ns", "start ns", 0, hint="on the capture's clock"),
        Col("end_ns", "end ns", 0),
    )
    found = doc.prefill.requests if doc.prefill else []
    return Table("prefill", "Prefills", cols, [[getattr(r, c.key) for c in cols] for r in found])


def _kernel_cols(per: str) -> tuple[Col, ...]:
    return (
        Col("bucket", "bucket"),
        Col("name", "kernel"),
        Col("sum_ms_per_step", f"ms/{per}", 3, hint="summed kernel time"),
        Col("launches_per_step", f"launches/{per}", 1),
        Col("max_us", "max us", 1),
        Col("sum_ns", "sum ms", 2, scale=1e6),
    )


def prefill_names(doc: AttributionDocument) -> Table:
    """One row a kernel function of prefill, the most time first."""
    cols = _kernel_cols("prefill")
    found = doc.prefill.top if doc.prefill else []
    rows = [[getattr(k, c.key) for c in cols] for k in found]
    shades = bucket_colours(k.bucket for k in found)
    return Table("prefill_kernels", "Kernels of prefill", cols, rows, swatches=shades)


def kernels(doc: AttributionDocument) -> Table:
    """One row a kernel function over the measured steps, the most time first."""
    cols = _kernel_cols("step")
    rows = [[getattr(k, c.key) for c in cols] for k in doc.kernels]
    shades = bucket_colours(k.bucket for k in doc.kernels)
    return Table("kernels", "Kernels by bucket", cols, rows, swatches=shades)


def api_calls(doc: AttributionDocument) -> Table:
    """One row an API call's name within the measured steps."""
    cols = (
        Col("name", "call"),
        Col("kind", "kind"),
        Col("calls_per_step", "calls/step", 2),
        Col("ms_per_step", "ms/step", 3, hint="host time; waits overlap GPU work"),
    )
    found = doc.launches.api if doc.launches else []
    return Table(
        "api_calls", "API calls of a step", cols, [[getattr(a, c.key) for c in cols] for a in found]
    )


def ranges(doc: AttributionDocument) -> Table:
    """One row a range name, projected to the kernels launched inside it."""
    cols = (
        Col("name", "range"),
        Col("domain", "domain", 0),
        Col("instances", "instances", 0),
        Col("kernels", "kernels", 0),
        Col("sum_ns", "sum ms", 3, scale=1e6),
    )
    return Table(
        "ranges",
        "NVTX ranges",
        cols,
        [[getattr(r, c.key) for c in cols] for r in doc.ranges],
        "Kernels launched inside the range, on its thread.",
    )


def coverage(doc: AttributionDocument) -> Table:
    """One row a count of what the trace holds and what of it could be used."""
    cov = doc.coverage
    rows: list[list[Value]] = [
        ["kernels", cov.kernels, cov.kernel_sum_ns],
        ["replayed by CUDA graphs", cov.graph_kernels, None],
        ["launched one by one", cov.eager_kernels, None],
        ["graphs traced as one block", cov.graph_blocks, None],
        ["launch not in the trace", cov.unattributed, cov.unattributed_ns],
        ["GPU busy (union, all devices)", None, cov.kernel_busy_ns],
        ["API calls", cov.api_calls, None],
        ["memory copies", cov.memcpy, None],
        ["memory sets", cov.memset, None],
    ]
    rows += [[f"left out: {why.replace('_', ' ')}", n, None] for why, n in cov.excluded.items()]
    cols = (Col("what", "what"), Col("count", "count", 0), Col("ns", "ms", 3, scale=1e6))
    return Table("coverage", "What the trace holds", cols, rows)


def warnings(doc: AttributionDocument) -> Table:
    """One row a warning."""
    cols = (Col("code", "code"), Col("message", "what"), Col("advice", "advice"))
    return Table(
        "warnings", "Warnings", cols, [[w.code, w.message, w.advice] for w in doc.warnings]
    )


def abstained(doc: AttributionDocument) -> Table:
    """One row a value that is withheld."""
    cols = (Col("what", "value"), Col("why", "why"), Col("remedy", "what would make it available"))
    rows = [[a.what, a.why, a.remedy] for a in doc.abstained]
    return Table("abstained", "Withheld", cols, rows)
