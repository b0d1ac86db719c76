"""Row copies in the terminal: misses, the link, the cost of a step."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lanescope.dashboards.terminal import Column, sentence, table
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.documents.misses import EngineHits, Interval, Link, Misses, ScoreRow
from lanescope.schemas.documents.model import CostModel, ModelDocument, WhatIf
from lanescope.schemas.findings import Finding

_MOST_LEVELS = 18


def with_interval(value: Interval, digits: int = 3) -> str:
    """`2.227 [2.226, 2.229]`, or the bounds alone."""
    bounds = f"[{value.low:.{digits}f}, {value.high:.{digits}f}]"
    return bounds if value.estimate is None else f"{value.estimate:.{digits}f} {bounds}"


def show(doc: AttributionDocument, con: Console) -> None:
    """Print what the row copies say; nothing where there are none."""
    if doc.misses is not None:
        for line in miss_lines(doc.misses):
            sentence(con, Text(line))
        _levels(doc.misses, con)
    if doc.link is not None:
        sentence(con, Text(link_line(doc.link)))
    if doc.model is not None:
        sentence(con, Text(model_line(doc.model)))
        what_if(doc.model.what_if, con)


def miss_lines(misses: Misses) -> list[str]:
    """The answer in words: misses, hit rate, where it is worst."""
    head = f"Misses per layer-step {with_interval(misses.per_layer_step)}"
    if misses.hit_rate is not None and misses.routed_rows:
        head += f"; hit rate {with_interval(misses.hit_rate)} of {misses.routed_rows} routed rows"
    identity = misses.identifiability
    lines = [
        head,
        f"{misses.layers} layers x {misses.copies_per_layer_step} copies a step"
        f" ({misses.structure_basis}); {identity.confident_share:.1%} of {misses.layer_steps:,}"
        f" layer-steps sure; {misses.disturbed_share:.1%} of the copies disturbed",
        f"Per step {misses.per_step.mean:.1f} misses (p50 {misses.per_step.p50:.0f}, p95"
        f" {misses.per_step.p95:.0f}); most in layers"
        f" {', '.join(str(n) for n in misses.worst_layers)}",
    ]
    if identity.verdict != "exact":
        lines.append(f"counts are {identity.verdict} identifiable: {identity.reason}")
    return lines


def link_line(link: Link) -> str:
    """Time and rates of the link."""
    text = (
        f"Copies {link.copy_ms_per_step:.3f} ms/step: {link.byte_ms_per_step:.3f} bytes,"
        f" {link.overhead_ms_per_step:.3f} overhead, {link.contention_ms_per_step:.3f} contention"
    )
    if link.marginal_GBps and link.effective_GBps:
        text += (
            f"; {link.marginal_GBps:.1f} GB/s marginal ({', '.join(link.counted_tensors)}),"
            f" {link.effective_GBps:.1f} effective"
        )
    if link.reference_GBps:
        text += f"; plain copy {link.reference_GBps:.1f} GB/s"
    return text


def model_line(model: CostModel) -> str:
    """The cost model in one line."""
    rate = f", {model.slope_GBps:.1f} GB/s" if model.slope_GBps else ""
    return (
        f"Step = {model.base_ms:.3f} ms + {with_interval(model.ms_per_miss)} ms x {model.per}"
        f" (R2 {model.r2:.3f}, {model.n} steps{rate})"
    )


def what_if(rows: list[WhatIf], con: Console) -> None:
    """The what-if table."""
    columns = [
        Column("if", numeric=False),
        Column("ms/step"),
        Column("95 %"),
        Column("assuming", numeric=False),
    ]
    cells = []
    for row in rows:
        ms = row.ms
        cells.append(
            [
                row.case,
                f"{ms.estimate:.3f}" if ms and ms.estimate is not None else "-",
                f"{ms.low:.3f}..{ms.high:.3f}" if ms else "-",
                row.withheld or row.assumption,
            ]
        )
    if cells:
        table("What if", columns, cells, con)


def _levels(misses: Misses, con: Console) -> None:
    names = [t.tensor for t in misses.tensors]
    columns = [Column("misses"), Column("layer-steps")]
    columns += [Column(f"{n} us") for n in names] + [Column("", numeric=False)]
    rows = [
        [
            str(level.misses),
            f"{level.layer_steps:,.0f}",
            *(f"{level.us[n]:,.1f}" for n in names),
            "" if level.basis == "seen" else "by the law",
        ]
        for level in misses.levels[:_MOST_LEVELS]
    ]
    table("Levels of the copy durations", columns, rows, con)


def scorecard(rows: list[tuple[str, ScoreRow]], con: Console) -> None:
    """The estimates against exact counts."""
    columns = [
        Column("trace", numeric=False),
        Column("layer-steps"),
        Column("exact"),
        Column("in 95 %"),
        Column("width"),
        Column("true mean"),
        Column("estimate"),
        Column("error"),
    ]
    cells = [
        [
            name,
            f"{row.layer_steps:,}",
            f"{row.exact:.2%}",
            f"{row.covered:.2%}",
            f"{row.mean_width:.3f}",
            f"{row.mean_true:.4f}",
            f"{row.mean_estimate:.4f}",
            f"{row.mean_error:+.3%}",
        ]
        for name, row in rows
    ]
    table("Misses against the truth", columns, cells, con)


def hits(found: EngineHits, findings: list[Finding], other: Misses | None, con: Console) -> None:
    """What the engine's log says, beside the estimate where there is one."""
    sentence(
        con,
        Text(
            f"{found.lines} lines, {found.steps:,.0f} steps per layer:"
            f" {with_interval(found.misses)} misses per layer-step, weighted by steps"
            f" ({found.misses_unweighted:.3f} as a plain mean over lines)",
            style="bold",
        ),
    )
    if found.hit_rate is not None:
        sentence(
            con,
            Text(
                f"Hit rate {with_interval(found.hit_rate)} of {found.routed_rows:g} routed rows"
                f" ({found.routed_rows_basis})"
            ),
        )
    else:
        sentence(con, Text("withheld: hit rate: routed rows not known (--routed-rows)"))
    if found.printed_hit_unweighted is not None:
        made = (
            f", made with {found.printed_denominator:.1f} rows" if found.printed_denominator else ""
        )
        sentence(
            con,
            Text(
                f"Printed HIT {found.printed_hit_unweighted:.4f} as a plain mean{made};"
                f" {found.printed_negative} lines below zero"
            ),
        )
    if other is not None:
        sentence(
            con,
            Text(
                f"By the copy durations {with_interval(other.per_layer_step)} misses per layer-step"
            ),
        )
    for finding in findings:
        sentence(con, Text(f"warning [{finding.code}] {finding.message}: {finding.advice}"))


def model_document(found: ModelDocument, con: Console) -> None:
    """The cost model over windows: line, points, what was left out, predictions."""
    fit = found.fit
    if fit is not None:
        rate = ""
        if found.slope_GBps and found.counted_bytes:
            rate = f"; {found.slope_GBps:.1f} GB/s at {found.counted_bytes:,} bytes a row"
        terms = "".join(f" {value:+.3f} x {name}" for name, value in found.terms.items())
        sentence(
            con,
            Text(
                f"Step = {fit.base_ms:.3f} ms + {with_interval(fit.ms_per_miss)} ms x misses per"
                f" layer-step{terms}",
                style="bold",
            ),
        )
        sentence(
            con,
            Text(
                f"R2 {fit.r2:.3f}, RMSE {fit.rmse_ms:.3f} ms, {fit.n} windows, weights:"
                f" {found.weights}{rate}"
            ),
        )
    sentence(con, Text(found.verdict[0].upper() + found.verdict[1:]))
    columns = [
        Column("window", numeric=False),
        Column("lane", numeric=False),
        Column("misses"),
        Column("step ms"),
        Column("steps"),
        Column("off by ms"),
        Column("left out by", numeric=False),
    ]
    rows = [
        [
            p.name,
            p.lane,
            f"{p.misses:.3f}",
            f"{p.step_ms:.3f}",
            f"{p.steps:,}" if p.steps else "-",
            f"{p.residual_ms:+.3f}" if p.residual_ms is not None else "-",
            p.left_out_by,
        ]
        for p in found.points
    ]
    table("Windows", columns, rows, con)
    lanes = [w for w in found.within if w.ms_per_miss is not None]
    for lane in lanes:
        assert lane.ms_per_miss is not None
        sentence(
            con,
            Text(
                f"within {lane.lane}: {with_interval(lane.ms_per_miss)} ms per miss"
                f" (R2 {lane.r2:.2f}, {lane.n} points)"
            ),
        )
    for p in found.predictions:
        at = f"hit rate {p.hit_rate:.3f}, " if p.hit_rate is not None else ""
        tokens = f", {with_interval(p.tok_s, 2)} tok/s" if p.tok_s else ""
        outside = "" if p.inside_range else " (OUTSIDE the measured range)"
        sentence(
            con,
            Text(f"At {at}{p.misses:.2f} misses: {with_interval(p.ms)} ms{tokens}{outside}"),
        )
    what_if(found.what_if, con)
