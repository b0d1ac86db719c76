"""`lanescope replay structure`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click
from rich.console import Console

from lanescope.attribution.replay.structure import structure
from lanescope.dashboards.pages.replay import structure_page
from lanescope.dashboards.terminal import Column, table
from lanescope.profiler.cli.replaying.common import (
    FILE,
    Output,
    Source,
    notes,
    output_options,
    say,
    slots_of,
    source_options,
    warmup_option,
)
from lanescope.schemas.documents.replay import Structure


@click.command("structure")
@source_options()
@warmup_option
@click.option("--slots", help="Slots per layer, for what concerns misses: a number or a slot map.")
@click.option("--predictor", type=FILE, help="Parquet: step, layer, e0 ...: predicted experts.")
@output_options
def command(
    source: Source,
    output: Output,
    warmup: int,
    slots: str | None,
    predictor: Path | None,
) -> None:
    """Overlaps against chance, reuse, working sets; what predictors and subsamples are worth."""
    loaded = source.load()
    budget = None if slots is None else slots_of(slots, loaded)
    result = structure(loaded, budget, warmup, predictor)
    output.emit(result, structure_page, show)


def show(result: Structure, con: Console) -> None:
    """The tables in the terminal."""
    facts = result.trace
    say(
        f"{facts.source}: {facts.scored_steps:,} verification steps, {len(facts.layers)} layers, "
        f"top-{facts.top_k} of {facts.experts}",
        con,
    )
    rows = []
    overlaps = {"step to step": result.step_to_step, "layer to layer": result.cross_layer}
    for name, overlap in overlaps.items():
        if overlap is not None:
            error = overlap.standard_error
            cells = [name, f"{overlap.overlap:.4f}", "-" if error is None else f"{error:.4f}"]
            rows.append([*cells, f"{overlap.chance_even:.4f}", f"{overlap.chance_popularity:.4f}"])
    headings = ["overlap", "std. error", "chance, even", "chance, popularity"]
    table("shared experts", [Column("between", numeric=False), *map(Column, headings)], rows, con)
    _layers(result, con)
    if result.coverage:
        cells_ = [
            [c.predictor, f"{c.covered:.4f}", f"{c.fetched_for_nothing:.3f}"]
            for c in result.coverage
        ]
        heads = [Column("predictor", numeric=False), Column("LRU misses covered")]
        table("prediction", [*heads, Column("rows for nothing/layer-step")], cells_, con)
    if result.subsamples:
        cells_ = [
            [f"{s.every}", f"{s.steps:,}", f"{s.hit_rate:.4f}", f"{s.misses_per_layer_step:.3f}"]
            for s in result.subsamples
        ]
        heads = [Column("every n-th step"), Column("steps"), Column("LRU hit rate")]
        table("subsamples", [*heads, Column("misses/layer-step")], cells_, con)
    notes((), result.abstained, con)


def _layers(result: Structure, con: Console) -> None:
    """The extreme layers by reuse distance; all of them are in the document."""
    known = [layer for layer in result.layers if layer.reuse_p50 is not None]
    order = sorted(known, key=lambda layer: (layer.reuse_p50 or 0.0, layer.layer))
    shown = order if len(order) <= 8 else [*order[:4], *order[-4:]]
    rows = [
        [
            f"{layer.layer}",
            f"{layer.reuse_p50:.0f}",
            f"{layer.reuse_p90:.0f}",
            "-" if layer.step_to_step is None else f"{layer.step_to_step:.3f}",
            f"{layer.effective_experts:.1f}",
            *("-" if w is None else f"{w:.0f}" for w in layer.working_set),
        ]
        for layer in shown
    ]
    headings = ["layer", "reuse p50", "p90", "overlap", "effective"]
    headings += [f"in {span}" for span in result.spans]
    title = "layers, from near reuse to far" + ("" if shown == order else " (ends only)")
    table(title, [*map(Column, headings)], rows, con)
