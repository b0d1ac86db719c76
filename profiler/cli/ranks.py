"""`lanescope ranks`: the ranks of one run, from several reports."""

from __future__ import annotations

import re
from pathlib import Path

import rich_click as click

from lanescope.profiler.cli.ending import ending
from lanescope.profiler.cli.progress import progress
from lanescope.schemas.errors import ExitCode

_UNIT = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def _time(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """A duration in nanoseconds."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s)", value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is no time; for example 200us or 1.5ms")
    return round(float(found[1]) * _UNIT[found[2]])


@click.command("ranks")
@click.argument(
    "reports", metavar="REPORT...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--clock-error",
    callback=_time,
    metavar="TIME",
    help="How far the times of two reports can be apart (200us, 1.5ms): how well the machines' "
    "clocks are kept in step, and drift over the capture. Not needed for one machine.",
)
@click.option("--profile", metavar="NAME|FILE", help="Rules to attribute the reports by.")
@click.option("--window", default="", metavar="A..B", help="Steps to measure, as for `attribute`.")
@click.option("--json", "as_json", is_flag=True, help="Print the document alone.")
@click.option("--no-cache", is_flag=True, help="Stage the reports for this call alone.")
@click.option("--plain", is_flag=True, help="No colour, no frames.")
def command(
    reports: tuple[Path, ...],
    clock_error: int | None,
    profile: str | None,
    window: str,
    as_json: bool,
    no_cache: bool,
    plain: bool,
) -> int:
    """The ranks of one run, from several reports: steps matched, skew, slowest, waits.

    REPORT is what `attribute` takes, or a folder of them. Each report is attributed as it is;
    their times meet on the clock that their recorded starts give, and what that clock cannot tell
    is an interval or withheld. A rank is a process on a physical GPU.

    Exit codes: 0 done; 1 the reports were not joined (no clock anchors, or not of one run);
    2 usage; 3 unusable input.
    """
    from lanescope.attribution.joined import join
    from lanescope.dashboards import ranks_text
    from lanescope.dashboards.terminal import console
    from lanescope.profiler.cli.many import expand

    with ending(), progress() as say:
        document = join(
            expand(reports),
            profile=profile,
            window=window,
            clock_error_ns=clock_error,
            use_cache=not no_cache,
            say=say,
        )
    if as_json:
        click.echo(document.model_dump_json(indent=1, by_alias=True))
    else:
        ranks_text.show(document, console(plain=plain))
    return ExitCode.DONE if document.joined else ExitCode.ABSTAINED
