"""`lanescope replay curve`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from lanescope.attribution.replay.curve import curve_points, curves
from lanescope.dashboards.pages.replay import curve_page
from lanescope.dashboards.terminal import Column, console, table
from lanescope.profiler.cli.replaying.common import (
    FILE,
    load,
    say,
    step_option,
    trace_options,
    warmup_option,
    write_text,
)
from lanescope.schemas.documents.replay import Curves


@click.command("curve")
@trace_options
@step_option
@warmup_option
@click.option("--policy", "policies", multiple=True, help="Also replay this policy, at 16 counts.")
@click.option("--html", type=FILE, help="Write a page with tables and figures here.")
@click.option("--force", is_flag=True, help="Overwrite --html.")
@click.option("--json", "as_json", is_flag=True, help="Print the document instead of the table.")
@click.option("--plain", is_flag=True, help="No colour.")
def command(
    trace: Path,
    columns: tuple[str, ...],
    axes: str,
    experts: int | None,
    tokens_per_step: int | None,
    warmup: int,
    policies: tuple[str, ...],
    html: Path | None,
    force: bool,
    as_json: bool,
    plain: bool,
) -> None:
    """Misses at every slot count, layer by layer: LRU by stack distance, the best static pin."""
    loaded = load(trace, columns, axes, experts, tokens_per_step)
    result = curves(loaded, policies, warmup)
    if html is not None:
        write_text(html, curve_page(result), force)
    if as_json:
        click.echo(result.model_dump_json(by_alias=True))
        return
    show(result, plain)


def show(result: Curves, plain: bool = False) -> None:
    """Hit rates over all layers at sixteen slot counts."""
    facts = result.trace
    con = console(plain=plain)
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
