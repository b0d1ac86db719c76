"""`lanescope replay convert`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from lanescope.attribution.replay.files import write_trace
from lanescope.profiler.cli.replaying.common import (
    FILE,
    Source,
    source_options,
)


@click.command("convert")
@source_options()
@click.argument("out", type=FILE)
@click.option("--force", is_flag=True, help="Overwrite OUT.")
def command(
    source: Source,
    out: Path,
    force: bool,
) -> None:
    """Turn TRACE (Parquet, CSV, .npy, .npz) into the routing trace OUT.

    For a file with other column names: --column step=verify_step --column experts=topk_ids
    (a list column, or the prefix of numbered ones). For an array: --axes ltk.
    """
    loaded = source.load()
    write_trace(loaded, out, force)
    click.echo(
        f"{out}: {loaded.tokens:,} tokens x {len(loaded.layers)} layers x top-{loaded.top_k} of "
        f"{loaded.n_experts}, {loaded.steps:,} passes"
    )
