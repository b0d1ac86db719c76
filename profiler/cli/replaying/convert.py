"""`lanescope replay convert`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from lanescope.attribution.replay.files import write_trace
from lanescope.profiler.cli.replaying.common import FILE, load, step_option, trace_options


@click.command("convert")
@trace_options
@step_option
@click.argument("out", type=FILE)
@click.option("--force", is_flag=True, help="Overwrite OUT.")
def command(
    trace: Path,
    out: Path,
    columns: tuple[str, ...],
    axes: str,
    experts: int | None,
    tokens_per_step: int | None,
    force: bool,
) -> None:
    """Turn TRACE (Parquet, CSV, .npy, .npz) into the routing trace OUT.

    For a file with other column names: --column step=verify_step --column experts=topk_ids
    (a list column, or the prefix of numbered ones). For an array: --axes ltk.
    """
    loaded = load(trace, columns, axes, experts, tokens_per_step)
    write_trace(loaded, out, force)
    click.echo(
        f"{out}: {loaded.tokens:,} tokens x {len(loaded.layers)} layers x top-{loaded.top_k} of "
        f"{loaded.n_experts}, {loaded.steps:,} passes"
    )
