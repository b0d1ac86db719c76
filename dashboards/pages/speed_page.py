"""`compare.html` of probe rows, and the page of a gate: paired by prompt, with every prompt."""

from __future__ import annotations

from lanescope.dashboards.figures import speed as figures
from lanescope.dashboards.pages.blocks import Block, Notice, Tile, page
from lanescope.dashboards.pages.rendering import plot
from lanescope.dashboards.tables import Col, Table
from lanescope.dashboards.verdicts import headline
from lanescope.schemas.documents.gate import GateDocument
from lanescope.schemas.documents.speed import PairedMetric, SpeedComparison, SpeedLaneSummary
from lanescope.schemas.findings import Abstention, Finding


def speed_page(found: SpeedComparison) -> str:
    """Two lanes or more of probe rows. No bars, so no verdict."""
    title = " / ".join([*(lane.name for lane in found.base), found.candidate.name])
    return page(
        title,
        "Probe rows, paired by prompt.",
        _blocks(found),
        _notices(found.findings, [*found.refused, *found.abstained]),
        tiles=_tiles(found),
    )


def gate_page(doc: GateDocument) -> str:
    """The verdict of a gate, its bars, and what they were held against."""
    shown = doc.speed if doc.verdict != "invalid" else None
    blocks = [Block("bars", "Bars", "; ".join(doc.reasons), tables=[_bars(doc)])]
    if doc.speed is not None:
        blocks += _blocks(doc.speed) if shown else [Block("lanes", "Lanes", "", [], [
            _lanes(doc.speed)])]  # fmt: skip
    age = "post hoc" if doc.post_hoc else f"older than the data, by {doc.age.rules_basis}"
    if not doc.age.older and not doc.post_hoc:
        age = f"younger than the data, by {doc.age.rules_basis}"
    return page(
        headline(doc),
        f"{doc.candidate} against {doc.base}",
        blocks,
        _notices(doc.findings, doc.abstained),
        tiles=_tiles(shown) if shown else [],
        card=[("Rules", doc.rules_path), ("SHA-256", doc.rules_sha256), ("Frozen", age)],
    )


def _notices(findings: list[Finding], gaps: list[Abstention]) -> list[Notice]:
    out: list[Notice] = [(f.message, f.advice) for f in findings]
    return out + [(f"withheld: {a.what}: {a.why}", a.remedy, True) for a in gaps]


def _tiles(found: SpeedComparison) -> list[Tile]:
    return [
        Tile(
            m.metric,
            f"{m.mean_gain_pct:+.2f}",
            "%",
            f"{m.low_pct:+.2f} to {m.high_pct:+.2f} at 95 %; {m.wins} of {len(m.prompts)} won",
        )
        for m in found.metrics
    ]


def _blocks(found: SpeedComparison) -> list[Block]:
    blocks = [Block("lanes", "Lanes", tables=[_lanes(found)])]
    for number, metric in enumerate(found.metrics):
        plots = [
            plot(figures.gains(metric), f"gains-{number}", f"Change in {metric.metric} by prompt"),
            plot(
                figures.distributions(metric),
                f"spread-{number}",
                f"{metric.metric} of either lane, share of the prompts",
            ),
        ]
        words = f"{metric.better} is better; interval: {metric.interval}."
        tables = [_prompts(metric, number)]
        blocks.append(Block(f"metric-{number}", metric.metric, words, plots, tables))
    return blocks


def _lanes(found: SpeedComparison) -> Table:
    """One row a lane and launch."""
    cols = (
        Col("role", "role"),
        Col("name", "lane"),
        Col("prompts", "prompts", 0),
        Col("repetitions", "repetitions", 0),
        Col("decode_rate_median", "tok/s", 2),
        Col("decode_rate_min", "smallest", 2),
        Col("decode_rate_max", "largest", 2),
        Col("spread_pct", "spread %", 2),
        Col("ttft_median_s", "TTFT s", 3),
        Col("rate_rule", "rate"),
    )
    lanes: list[tuple[str, SpeedLaneSummary]] = [
        *[("base", lane) for lane in found.base],
        *[("base again", lane) for lane in found.base_launches],
        ("candidate", found.candidate),
        *[("candidate again", lane) for lane in found.candidate_launches],
    ]
    rows = [[role, *(getattr(lane, c.key) for c in cols[1:])] for role, lane in lanes]
    return Table("speed_lanes", "Lanes", cols, rows)


def _prompts(metric: PairedMetric, number: int) -> Table:
    """One row a prompt."""
    cols = (
        Col("prompt", "prompt"),
        Col("kind", "kind"),
        Col("base", f"base, {metric.unit}", 4),
        Col("candidate", f"candidate, {metric.unit}", 4),
        Col("gain_pct", "change %", 2),
    )
    rows = [[getattr(p, c.key) for c in cols] for p in metric.prompts]
    return Table(f"prompts_{number}", f"{metric.metric} by prompt", cols, rows)


def _bars(doc: GateDocument) -> Table:
    """One row a bar of the rules."""
    cols = (
        Col("name", "bar"),
        Col("metric", "metric"),
        Col("value", "value", 4),
        Col("low", "low", 4),
        Col("high", "high", 4),
        Col("unit", "unit"),
        Col("threshold", "threshold", 4),
        Col("verdict", "verdict"),
        Col("why", "why"),
    )
    rows = [[getattr(b, c.key) for c in cols] for b in doc.bars]
    return Table("bars", "Bars", cols, rows)
