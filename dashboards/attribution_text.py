"""An attribution in the terminal: the verdict, then where a step goes, then what to be wary of."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lanescope.dashboards import copies_text, ranks_text, summary_text
from lanescope.dashboards.terminal import Column, sentence, table
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.units import duration, significant


def verdict_lines(doc: AttributionDocument) -> list[str]:
    """The answer in at most three lines."""
    if doc.summary is not None:
        return summary_text.verdict_lines(doc)
    steps, lines = doc.steps, []
    if steps is None or steps.wall_ms is None:
        lines.append("No verification steps were found.")
    else:
        wall = steps.wall_ms
        bound = f", {doc.launches.verdict}" if doc.launches else ""
        lines.append(
            f"{steps.measured} verification steps: {significant(wall.mean)} ms each on the "
            f"GPU{bound} (p50 {significant(wall.p50)}, p95 {significant(wall.p95)})"
        )
        if steps.period_ms:
            lines.append(
                f"Step to step {significant(steps.period_ms.mean)} ms; found by {steps.basis}; "
                f"measured: {steps.window}"
            )
    cov = doc.coverage
    lines.append(
        f"{cov.kernels:,} kernels, {duration(cov.kernel_sum_ns)} of kernel time "
        f"({cov.graph_kernels:,} replayed by CUDA graphs); profile {doc.profile}"
    )
    return lines


def show(doc: AttributionDocument, con: Console) -> None:
    """Print the whole answer."""
    if doc.summary is not None:
        summary_text.show(doc, con)
        return
    for i, line in enumerate(verdict_lines(doc)):
        sentence(con, Text(line, style="bold" if i == 0 else ""))
    if doc.launches and doc.launches.verdict != "unknown":
        sentence(con, Text(f"{doc.launches.verdict}: {doc.launches.verdict_evidence}"))
    if doc.steps:
        _buckets(doc, con)
    if doc.ranks:
        ranks_text.ranks(doc.ranks, con)
    copies_text.show(doc, con)
    _phases(doc, con)
    if doc.launches:
        _launches(doc, con)
    for warning in doc.warnings:
        sentence(con, Text(f"warning [{warning.code}] {warning.message}: {warning.advice}"))
    for item in doc.abstained:
        sentence(con, Text(f"withheld: {item.what}: {item.why} ({item.remedy})"))


def _buckets(doc: AttributionDocument, con: Console) -> None:
    columns = [
        Column("bucket", numeric=False),
        Column("ms/step"),
        Column("share"),
        Column("p50"),
        Column("p95"),
        Column("launches"),
        Column("p50 us"),
        Column("p95 us"),
        Column("max us"),
        Column("<10us"),
    ]
    rows = []
    for b in doc.buckets:
        rows.append(
            [
                b.bucket,
                f"{b.exclusive_ms_per_step:.3f}",
                f"{b.share_of_wall:.1%}",
                f"{b.exclusive_p50_ms:.3f}",
                f"{b.exclusive_p95_ms:.3f}",
                f"{b.launches_per_step:,.1f}",
                *(_us(v) for v in (b.p50_us, b.p95_us, b.max_us)),
                f"{b.under_10us:.0%}" if b.under_10us is not None else "-",
            ]
        )
    assert doc.steps is not None
    steps = doc.steps
    idle, wall = steps.idle_ns, steps.wall_ms
    assert idle is not None
    assert wall is not None
    blank = [""] * 5
    rows.append(
        [
            "idle",
            f"{idle.mean / 1e6:.3f}",
            f"{idle.mean / 1e6 / wall.mean:.1%}" if wall.mean else "-",
            f"{(idle.p50 or 0) / 1e6:.3f}",
            f"{(idle.p95 or 0) / 1e6:.3f}",
            *blank,
        ]
    )
    rows.append(
        ["wall", f"{wall.mean:.3f}", "100.0%", f"{wall.p50:.3f}", f"{wall.p95:.3f}", *blank]
    )
    table("Where a step goes (exclusive time: the rows add up to the wall)", columns, rows, con)
    for b in doc.buckets:
        if b.wait_ms_per_step is not None:
            sentence(
                con,
                Text(
                    f"{b.bucket}: {b.sum_ms_per_step:.3f} ms/step of kernel time, of which "
                    f"{b.wait_ms_per_step:.3f} wait for the last rank to begin and "
                    f"{b.transfer_ms_per_step:.3f} transfer"
                ),
            )


def _us(value: float | None) -> str:
    return f"{value:,.1f}" if value is not None else "-"


def _phases(doc: AttributionDocument, con: Console) -> None:
    several = len({p.process for p in doc.phases}) > 1 or len({p.device for p in doc.phases}) > 1
    columns = [Column("phase", numeric=False)]
    if several:
        columns += [Column("process"), Column("gpu")]
    columns += [
        Column("instances"),
        Column("kernels"),
        Column("sum ms"),
        Column("busy ms"),
        Column("found by", numeric=False),
    ]
    rows = []
    for p in doc.phases:
        place = [str(p.process), str(p.device) if p.device is not None else "-"] if several else []
        rows.append(
            [
                f"{p.phase} {p.part}".strip(),
                *place,
                f"{p.instances:,}",
                f"{p.kernels:,}",
                f"{p.sum_ns / 1e6:,.3f}",
                f"{p.busy_ns / 1e6:,.3f}" if p.busy_ns is not None else "-",
                p.evidence,
            ]
        )
    table("Phases", columns, rows, con)


def launch_words(doc: AttributionDocument) -> str:
    """What the host launches in a step, in a sentence."""
    account = doc.launches
    assert account is not None
    per_graph = account.kernels_per_graph_launch
    graph = f" of {per_graph:,.1f} kernels" if per_graph else ""
    return (
        f"Per step: {account.graph_launches_per_step:.2f} graph launches{graph}, "
        f"{account.kernel_launch_calls_per_step:,.1f} kernel launch calls, "
        f"{account.launch_ms_per_step:.3f} ms in launches, "
        f"{account.wait_ms_per_step:.3f} ms in waits"
    )


def _launches(doc: AttributionDocument, con: Console) -> None:
    sentence(con, Text(launch_words(doc)))
    if doc.prefill:
        layer = f", {doc.prefill.ms_per_layer:.3f} ms a layer" if doc.prefill.ms_per_layer else ""
        sentence(
            con,
            Text(
                f"Prefill: {doc.prefill.instances} of {doc.prefill.sum_ms_per_instance:,.2f} ms "
                f"GPU time each{layer}"
            ),
        )
