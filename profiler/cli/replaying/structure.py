"""`lanescope replay structure`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import rich_click as click
from rich.console import Console

from lanescope.attribution.replay.structure import structure
from lanescope.dashboards.pages.replay import structure_page
from lanescope.dashboards.replay_tables import about, structure_tables
from lanescope.profiler.cli.replaying.common import (
    FILE,
    Output,
    Source,
    notes,
    output_options,
    print_tables,
    say,
    slots_of,
    source_options,
    warmup_option,
)
from lanescope.schemas.documents.replay import Structure

#: layers shown at either end
_ENDS = 4


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
    """The tables in the terminal; of many layers, the ends by reuse distance."""
    say(about(result.trace), con)
    for table in structure_tables(result):
        if table.id == "layers" and len(table.rows) > 2 * _ENDS:
            order = sorted(table.rows, key=lambda row: (row[1] is None, row[1], row[0]))
            ends = [*order[:_ENDS], *order[-_ENDS:]]
            table = replace(table, title="Layers of the nearest and the farthest reuse", rows=ends)
        print_tables([table], con)
    notes((), result.abstained, con)
