"""A kernel summary in the terminal: what the counts say, where decode goes, what to be wary of."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lanescope.dashboards.terminal import Column, sentence, table
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.units import duration, significant


def verdict_lines(doc: AttributionDocument) -> list[str]:
    """The answer in at most four lines."""
    steps, cov, summary = doc.steps, doc.coverage, doc.summary
    assert summary is not None
    lines = ["The counts do not tell the verification steps."]
    if steps is not None:
        lines = [
            f"{significant(steps.gpu_sum_ns.mean / 1e6)} ms of kernel time a step "
            f"(a sum: kernels may overlap), over {steps.measured:,} steps ({steps.basis})"
        ]
    if summary.decode_passes:
        lines.append(f"By the counts: {_counts(doc)}")
    lines.append(
        f"{summary.rows:,} rows, {cov.kernels:,} kernels, {duration(cov.kernel_sum_ns)} of kernel "
        f"time; no timeline; profile {doc.profile}"
    )
    return lines


def _counts(doc: AttributionDocument) -> str:
    summary = doc.summary
    assert summary is not None
    words = [f"{summary.decode_passes:,} decode passes"]
    if summary.prefill_passes:
        words.append(f"{summary.prefill_passes:,} prefill passes, {summary.passes:,} in all")
    if summary.layers:
        others = [c.layers for c in summary.layer_counts if c.layers != summary.layers]
        also = f" (also {', '.join(str(k) for k in sorted(others))})" if others else ""
        words.append(f"{summary.layers} layers{also}")
    return ", ".join(words)


def show(doc: AttributionDocument, con: Console) -> None:
    """Print the whole answer."""
    for i, line in enumerate(verdict_lines(doc)):
        sentence(con, Text(line, style="bold" if i == 0 else ""))
    if doc.buckets:
        _buckets(doc, con)
    _phases(doc, con)
    _prefill(doc, con)
    if doc.launches:
        account = doc.launches
        sentence(
            con,
            Text(
                f"Per step: {account.graph_launches_per_step:.2f} graph launches, "
                f"{account.kernel_launch_calls_per_step:,.1f} kernel launch calls, "
                f"{account.wait_ms_per_step:.2f} ms in waits"
            ),
        )
    for warning in doc.warnings:
        sentence(con, Text(f"warning [{warning.code}] {warning.message}: {warning.advice}"))
    _withheld(doc, con)


def _withheld(doc: AttributionDocument, con: Console) -> None:
    """One line a reason: a summary withholds many things for the same one."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for item in doc.abstained:
        by_reason.setdefault((item.why, item.remedy), []).append(item.what)
    for (why, remedy), what in by_reason.items():
        sentence(con, Text(f"withheld: {', '.join(what)}: {why} ({remedy})"))


def _buckets(doc: AttributionDocument, con: Console) -> None:
    assert doc.steps is not None
    columns = [
        Column("bucket", numeric=False),
        Column("ms/step"),
        Column("share"),
        Column("launches/step"),
        Column("p50 us"),
        Column("max us"),
        Column("most of it in", numeric=False),
    ]
    rows = [
        [
            b.bucket,
            f"{b.sum_ms_per_step:.3f}",
            f"{b.share_of_sum:.1%}",
            f"{b.launches_per_step:,.1f}",
            f"{b.p50_us:,.1f}" if b.p50_us is not None else "-",
            f"{b.max_us:,.1f}" if b.max_us is not None else "-",
            b.top_names[0][:28] if b.top_names else "",
        ]
        for b in doc.buckets
    ]
    sums, kernels = doc.steps.gpu_sum_ns, doc.steps.kernels
    rows.append(["sum", f"{sums.mean / 1e6:.3f}", "100.0%", f"{kernels.mean:,.1f}", "", "", ""])
    table("Where decode goes (summed kernel time)", columns, rows, con)
    assert doc.summary is not None
    for group in doc.summary.groups:
        sentence(con, Text(f"{group.group}: {group.ms_per_step:.4f} ms a step"))


def _phases(doc: AttributionDocument, con: Console) -> None:
    columns = [
        Column("phase", numeric=False),
        Column("passes"),
        Column("kernels"),
        Column("sum ms"),
        Column("found by", numeric=False),
    ]
    rows = [
        [
            p.phase,
            f"{p.instances:,}" if p.instances else "-",
            f"{p.kernels:,}",
            f"{p.sum_ns / 1e6:,.3f}",
            p.evidence,
        ]
        for p in doc.phases
    ]
    table("Phases", columns, rows, con)


def _prefill(doc: AttributionDocument, con: Console) -> None:
    if doc.prefill is None or doc.summary is None:
        return
    layer = doc.summary.prefill_ms_per_layer
    words = f", {layer:.3f} ms a layer in kernels that run once a layer" if layer else ""
    sentence(
        con,
        Text(
            f"Prefill: {doc.prefill.instances} of {doc.prefill.sum_ms_per_instance:,.2f} ms "
            f"kernel time each{words}"
        ),
    )
