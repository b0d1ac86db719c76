"""`lanescope replay check`."""

from __future__ import annotations

import rich_click as click
from click.exceptions import Exit

from lanescope.attribution.replay.check import check
from lanescope.dashboards.replay_tables import check_table
from lanescope.dashboards.terminal import console
from lanescope.profiler.cli.replaying.common import (
    Source,
    notes,
    print_tables,
    source_options,
)
from lanescope.schemas.errors import ExitCode


@click.command("check")
@source_options()
@click.option("--json", "as_json", is_flag=True, help="Print the document instead of the table.")
def command(source: Source, as_json: bool) -> None:
    """Count what TRACE holds. Exit code 3 when it cannot be replayed as it is."""
    result = check(source.path, source.columns, source.experts, source.axes)
    if as_json:
        click.echo(result.model_dump_json(by_alias=True))
    else:
        con = console()
        print_tables([check_table(result)], con)
        notes(result.warnings, (), con)
        click.echo("a whole routing trace" if result.usable else f"not usable: {result.fault}")
    if not result.usable:
        raise Exit(ExitCode.UNUSABLE_INPUT)
