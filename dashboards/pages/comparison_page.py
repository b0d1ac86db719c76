"""`compare.html`: comparability first, then what changed, by how much, and for sure."""

from __future__ import annotations

from lanescope.dashboards import comparison_tables as tables
from lanescope.dashboards.figures import comparison as figures
from lanescope.dashboards.pages.blocks import Block, Notice, page
from lanescope.dashboards.pages.rendering import plot
from lanescope.schemas.documents.comparison import ComparisonDocument, PairDocument


def comparison_page(doc: ComparisonDocument) -> str:
    """The page as text: the same bytes for the same document."""
    blocks = [
        Block(
            "comparable",
            "Comparability",
            f"Intervals by block bootstrap, {doc.resamples:,} resamples, seed {doc.seed}.",
            tables=[tables.lanes(doc), tables.differs(doc)],
        )
    ]
    spread = [lane for lane in doc.lanes if len(lane.wall_quantiles_ms) > 1]
    if spread:
        told = "Share of the steps by wall, lane by lane"
        drawn = plot(figures.distributions(spread), "distributions", told)
        blocks.append(Block("spread", "How the steps spread", "", [drawn]))
    for number, pair in enumerate(doc.pairs):
        blocks += _pair(pair, number, len(doc.pairs) > 1)
    if doc.trend:
        slope = f"{doc.trend.wall_slope_ms:+.4f} ms per unit"
        words = f"{doc.trend.axis}: {slope}; wall {doc.trend.direction}."
        figure = plot(figures.trend(doc.trend), "trend-wall", "Wall of a step over the axis")
        blocks.append(Block("trend", "Trend", words, [figure]))
    if doc.model:
        blocks.append(
            Block(
                "model",
                "Cost model through the lanes",
                f"step ms = {doc.model.base_ms:.3f} + {doc.model.ms_per_miss:.3f} x misses per "
                f"layer-step (R2 {doc.model.r2:.3f}, n {doc.model.n}). {doc.model.verdict}",
            )
        )
    notices: list[Notice] = [(w.message, w.advice) for w in doc.warnings]
    notices += [(f"withheld: {a.what}: {a.why}", a.remedy, True) for a in doc.abstained]
    title = " / ".join(lane.name for lane in doc.lanes)
    lead = doc.pairs[0].headline if len(doc.pairs) == 1 else f"{len(doc.lanes)} lanes"
    return page(title, lead, blocks, notices)


def _pair(pair: PairDocument, number: int, several: bool) -> list[Block]:
    name = f"{pair.incumbent} to {pair.candidate}"
    if pair.refused:
        why = "; ".join(f"{a.why} ({a.remedy})" for a in pair.refused)
        return [Block(f"pair-{number}", name, f"Not compared: {why}")]
    plots = []
    if pair.waterfall:
        told = "From the incumbent's step to the candidate's, by bucket"
        drawn = figures.waterfall(pair.waterfall, pair.incumbent, pair.candidate)
        plots.append(plot(drawn, f"waterfall-{number}", told))
    if pair.deltas:
        told = "Differences with their 95 % intervals; grey where the sign is unclear"
        plots.append(plot(figures.deltas(pair), f"deltas-{number}", told))
    withheld = "; ".join(f"{a.what} withheld: {a.why}" for a in pair.withheld)
    words = " ".join(w for w in (pair.headline if several else "", withheld) if w)
    found = [
        tables.deltas(pair, number),
        tables.counts(pair, number),
        tables.kernels(pair, number),
    ]
    return [Block(f"pair-{number}", name, words, plots, found)]
