"""Tables of the row copies of an attribution."""

from __future__ import annotations

from lanescope.dashboards.tables import Col, Table, Value
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.documents.misses import Interval, ScoreRow


def tables(doc: AttributionDocument) -> list[Table]:
    """All tables of row copies."""
    return [summary(doc), tensors(doc), layers(doc), link(doc), what_if(doc)]


def scorecard(row: ScoreRow) -> Table:
    """One row a figure of the estimate against exact counts."""
    cols = (Col("figure", "figure"), Col("value", "value", 4), Col("unit", "unit"))
    rows: list[list[Value]] = [
        ["counts told exactly", row.exact, "share of layer-steps"],
        ["counts in their 95 % interval", row.covered, "share of layer-steps"],
        ["exact among disturbed ones", row.disturbed_exact, "share of disturbed layer-steps"],
        ["width of an interval", row.mean_width, "rows"],
        ["true mean", row.mean_true, "misses per layer-step"],
        ["estimated mean", row.mean_estimate, "misses per layer-step"],
        ["error of the mean", 100 * row.mean_error, "% of the true mean"],
    ]
    held = "holds" if row.mean_covered else "does not hold"
    note = (
        f"{row.layer_steps:,} layer-steps against the engine's own counts. "
        f"The window's 95 % interval {held} the true mean."
    )
    return Table("scorecard", "Scorecard", cols, rows, note)


def _three(value: Interval | None) -> list[Value]:
    return [value.estimate, value.low, value.high] if value else [None, None, None]


def summary(doc: AttributionDocument) -> Table:
    """One row a figure of the window, with its interval."""
    cols = (
        Col("figure", "figure"),
        Col("estimate", "estimate", 4),
        Col("low", "low", 4, hint="of the 95 % interval"),
        Col("high", "high", 4),
        Col("unit", "unit"),
    )
    rows: list[list[Value]] = []
    if doc.misses:
        m = doc.misses
        rows.append(["misses per layer-step", *_three(m.per_layer_step), "rows"])
        rows.append(["hit rate", *_three(m.hit_rate), "1 - misses / routed rows"])
        rows.append(["disturbed copies", m.disturbed_share, None, None, "share of copies"])
    if doc.link:
        for name, value in (
            ("copies", doc.link.copy_ms_per_step),
            ("of that, bytes on the link", doc.link.byte_ms_per_step),
            ("of that, launches and latency", doc.link.overhead_ms_per_step),
            ("of that, other traffic", doc.link.contention_ms_per_step),
        ):
            rows.append([name, value, None, None, "ms/step"])
        for name, rate in (
            ("link, marginal", doc.link.marginal_GBps),
            ("link, effective", doc.link.effective_GBps),
            ("link, reference", doc.link.reference_GBps),
        ):
            if rate is not None:
                rows.append([name, rate, None, None, "GB/s"])
    if doc.model:
        rows.append(["cost of one miss in every layer", *_three(doc.model.ms_per_miss), "ms/step"])
        rows.append(["a step without misses", doc.model.base_ms, None, None, "ms"])
        rows.append(["explained by misses (R2)", doc.model.r2, None, None, "of the variance"])
    return Table("copies", "Misses, link and cost", cols, rows)


def tensors(doc: AttributionDocument) -> Table:
    """One row a tensor whose rows are copied."""
    cols = (
        Col("tensor", "tensor"),
        Col("row_bytes", "row bytes", 0),
        Col("launches_per_step", "launches/step", 1),
        Col("mean_us", "mean us", 1),
        Col("p50_us", "p50 us", 1),
        Col("p95_us", "p95 us", 1),
        Col("max_us", "max us", 1),
        Col("under_10us", "<10 us", 1, percent=True),
    )
    found = doc.misses.tensors if doc.misses else []
    rows = [[getattr(t, c.key) for c in cols] for t in found]
    return Table("tensors", "Copies by tensor", cols, rows)


def layers(doc: AttributionDocument) -> Table:
    """One row a layer."""
    cols = (
        Col("process", "process", 0),
        Col("layer", "layer", 0),
        Col("misses_per_step", "misses/step", 3),
        Col("low", "low", 3),
        Col("high", "high", 3),
        Col("hit_rate", "hit rate", 1, percent=True),
    )
    found = doc.misses.per_layer if doc.misses else []
    rows = [[r.process, r.layer, *_three(r.per_step), r.hit_rate] for r in found]
    return Table("miss_layers", "Misses by layer", cols, rows)


def link(doc: AttributionDocument) -> Table:
    """One row a tensor on the host link, decimal GB/s."""
    cols = (
        Col("tensor", "tensor"),
        Col("row_bytes", "row bytes", 0),
        Col("marginal_GBps", "marginal GB/s", 1, hint="slope of time over bytes"),
        Col("effective_GBps", "effective GB/s", 1, hint="all bytes over all copy time"),
        Col("saturated_GBps", "saturated GB/s", 1),
    )
    found = doc.link.by_tensor if doc.link else []
    rows = [[getattr(t, c.key) for c in cols] for t in found]
    return Table("link", "Host link by tensor", cols, rows)


def what_if(doc: AttributionDocument) -> Table:
    """One row a case, with the assumption that it rests on."""
    cols = (
        Col("case", "case"),
        Col("ms", "ms/step", 3),
        Col("low", "low", 3),
        Col("high", "high", 3),
        Col("assumption", "assumption"),
    )
    found = doc.model.what_if if doc.model else []
    rows = [[w.case, *_three(w.ms), w.withheld or w.assumption] for w in found]
    return Table("what_if", "What if", cols, rows)
