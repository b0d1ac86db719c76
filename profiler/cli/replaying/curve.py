"""`lanescope replay curve`."""

from __future__ import annotations

import rich_click as click
from rich.console import Console

from lanescope.attribution.replay.curve import curves
from lanescope.dashboards.pages.replay import curve_page
from lanescope.dashboards.replay_tables import about, curve_tables
from lanescope.profiler.cli.replaying.common import (
    Output,
    Source,
    output_options,
    print_tables,
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
    say(about(result.trace), con)
    print_tables(curve_tables(result), con)
