"""`lanescope replay curve`."""

from __future__ import annotations

import rich_click as click
from rich.console import Console

from lanescope.attribution.replay.curve import curve_points, curves
from lanescope.dashboards.pages.replay import curve_page
from lanescope.dashboards.terminal import Column, table
from lanescope.profiler.cli.replaying.common import (
    Output,
    Source,
    output_options,
    say,
    source_options,
    warmup_option,
)
from lanescope.schemas.documents.replay import Curves


@click.command("curve")
@source_options()
@warmup_option
@click.option("--policy", "policies", multiple=True, help="Also replay this policy, at 16 counts.")
@output_options
def command(
    source: Source,
    output: Output,
    warmup: int,
    policies: tuple[str, ...],
) -> None:
    """Misses at every slot count, layer by layer: LRU by stack distance, the best static pin."""
    loaded = source.load()
    result = curves(loaded, policies, warmup)
    output.emit(result, curve_page, show)


def show(result: Curves, con: Console) -> None:
    """Hit rates over all layers at sixteen slot counts."""
    facts = result.trace
    say(
        f"{facts.source}: {facts.scored_steps:,} verification steps, {len(facts.layers)} layers, "
        f"top-{facts.top_k} of {facts.experts}; hit rate when every layer has so many slots",
        con,
    )
    names = list(result.other_hit_rates)
    routed = facts.routed_rows / (facts.scored_steps * len(facts.layers))
    rows = []
    for i, slots in enumerate(curve_points(facts.experts)):
        hit = result.lru_hit_rate[slots]
        cells = [f"{slots}", f"{hit:.4f}", f"{(1 - hit) * routed:.3f}"]
        cells += [f"{result.static_hit_rate[slots]:.4f}"]
        rows.append(cells + [f"{result.other_hit_rates[name][i]:.4f}" for name in names])
    headings = ["slots/layer", "lru", "lru misses/layer-step", "static", *names]
    table("", [Column(heading) for heading in headings], rows, con)
