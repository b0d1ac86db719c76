"""Ranks in the terminal: of one report, and of several joined ones."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lanescope.dashboards import ranks_tables
from lanescope.dashboards.terminal import Column, sentence, table
from lanescope.schemas.documents.attribution import IntSpread, Ranks
from lanescope.schemas.documents.ranks import RanksDocument
from lanescope.schemas.units import duration


def show(doc: RanksDocument, con: Console) -> None:
    """Print the whole answer."""
    steps = max(r.steps for r in doc.ranks.ranks)
    several = len(doc.reports) > 1
    of = f" of {len(doc.reports)} reports" if several else ""
    head = f"{doc.ranks.count} rank{'s' if doc.ranks.count > 1 else ''}{of}, {steps:,} steps"
    sentence(con, Text(head if doc.joined else f"{head}: not joined", style="bold"))
    if doc.joined and several:
        how = (
            "their clocks are not known to agree"
            if doc.clock_error_ns is None
            else "on one clock"
            if not doc.clock_error_ns
            else f"clocks within {duration(doc.clock_error_ns)}"
        )
        sentence(con, f"Times of different reports: {how} ({doc.clock_basis})")
    for report in doc.reports:
        sentence(con, f"report {report.report}: {report.path}")
    ranks(doc.ranks, con)
    for item in doc.abstained:
        sentence(con, f"withheld: {item.what}: {item.why} ({item.remedy})")


def ranks(found: Ranks, con: Console) -> None:
    """The table of ranks, skew and collectives."""
    joined = len({r.report for r in found.ranks}) > 1
    columns = [
        *([Column("report")] if joined else []),
        Column("process"),
        Column("gpu"),
        Column("steps"),
        Column("ms/step"),
        Column("p50", drop_order=2),
        Column("p95", drop_order=1),
        Column("slowest"),
        Column("wait ms"),
        Column("transfer ms"),
    ]
    rows = [
        [
            *([str(r.report)] if joined else []),
            str(r.process),
            str(r.device),
            str(r.steps),
            *(f"{v:.3f}" for v in (r.wall_ms.mean, r.wall_ms.p50, r.wall_ms.p95)),
            "-" if r.slowest is None else str(r.slowest),
            _ms(r.wait_ms_per_step, r.wait_bounds_ms_per_step),
            _ms(r.transfer_ms_per_step, r.transfer_bounds_ms_per_step),
        ]
        for r in found.ranks
    ]
    table("Ranks (ms per step; wait and transfer: in collectives)", columns, rows, con)
    by_rank = ranks_tables.buckets(found)
    table(
        f"{by_rank.title} (exclusive ms)",
        [Column(c.heading, numeric=c.numeric) for c in by_rank.cols],
        [[c.text(v) for c, v in zip(by_rank.cols, r, strict=True)] for r in by_rank.rows],
        con,
    )
    if found.start_skew_ns and found.end_skew_ns:
        starts = _skew(found.start_skew_ns, found.start_skew_p50_bounds_ns)
        ends = _skew(found.end_skew_ns, found.end_skew_p50_bounds_ns)
        sentence(con, f"Skew across ranks: starts {starts}; ends {ends}")
    for c in found.collectives:
        early = f"; {c.ended_early:,} ended before the last rank began" if c.ended_early else ""
        bounds = ""
        if c.wait_bounds_ns:
            low, high = (v / 1e6 for v in c.wait_bounds_ns)
            bounds = f" [{low:,.3f}, {high:,.3f}]"
        sentence(
            con,
            f"{c.name}: {c.count:,} collectives, over all ranks {c.wait_ns / 1e6:,.3f}{bounds} ms "
            f"wait and {c.transfer_ns / 1e6:,.3f} ms transfer{early}",
        )


def _ms(value: float | None, bounds: tuple[float, float] | None) -> str:
    """A time, or what it can be where clocks may err."""
    if bounds is not None:
        return f"[{bounds[0]:,.3f}, {bounds[1]:,.3f}]"
    return "-" if value is None else f"{value:,.3f}"


def _skew(found: IntSpread, bounds: tuple[int, int] | None) -> str:
    within = f" [{bounds[0]:,}, {bounds[1]:,}]" if bounds else ""
    return f"p50 {found.p50:,}{within} ns, most {found.max:,} ns"
