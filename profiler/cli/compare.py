"""`lanescope compare`: what changed between lanes, by how much, and which bucket paid."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from lanescope.profiler.cli.ending import ending
from lanescope.profiler.cli.progress import progress
from lanescope.schemas.errors import ExitCode, UsageError


@click.command("compare")
@click.argument("lanes", nargs=-1, required=True, metavar="INCUMBENT CANDIDATE [MORE...]")
@click.option("--profile", metavar="NAME|FILE", help="Rules to attribute traces by.")
@click.option("--window", default="", metavar="A..B", help="Steps to measure, as for `attribute`.")
@click.option(
    "--accepted",
    multiple=True,
    metavar="LANE=TOKENS",
    help="Tokens a step of a lane yields, where the lane does not say: adds figures per token.",
)
@click.option(
    "--axis",
    metavar="NAME=A,B,...",
    help="The axis of three lanes or more, and each lane's place on it.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write the document (JSON).")
@click.option("--html", type=click.Path(path_type=Path), help="Write the page (one file).")
@click.option("--force", is_flag=True, help="Overwrite --out and --html.")
@click.option("--json", "as_json", is_flag=True, help="Print the document instead of tables.")
@click.option("--no-cache", is_flag=True, help="Stage the traces for this call alone.")
@click.option("--plain", is_flag=True, help="No colour.")
def command(
    lanes: tuple[str, ...],
    profile: str | None,
    window: str,
    accepted: tuple[str, ...],
    axis: str | None,
    out: Path | None,
    html: Path | None,
    force: bool,
    as_json: bool,
    no_cache: bool,
    plain: bool,
) -> int:
    """What changed between lanes: traces, attribution folders, captured windows, or probe rows.

    The first lane is the incumbent; each other one is held against it. Comparability comes first:
    what differs is listed, and what makes a difference meaningless withholds it.

    Exit codes: 0 compared; 1 a comparison was refused; 2 usage; 3 unusable input.
    """
    if len(lanes) < 2:
        raise UsageError("a comparison needs two lanes", "name INCUMBENT and CANDIDATE")
    from lanescope.attribution.lanes.probes import is_speed_lane

    if all(map(is_speed_lane, lanes)):
        return _speed(lanes, out, html, force, as_json, plain)
    from lanescope.attribution.lanes.compare import compare
    from lanescope.dashboards import comparison_text
    from lanescope.dashboards.terminal import console
    from lanescope.profiler.cli.writing import write_text

    with ending(), progress() as say:
        document = compare(
            lanes[0],
            *lanes[1:],
            profile=profile,
            window=window,
            accepted=dict(_named(item, "--accepted") for item in accepted),
            axis=_axis(axis),
            use_cache=not no_cache,
            say=say,
        )
    text = document.model_dump_json(indent=1, by_alias=True) + "\n"
    if out is not None:
        write_text(out, text, force)
    if html is not None:
        from lanescope.dashboards.pages.comparison_page import comparison_page

        write_text(html, comparison_page(document), force)
    if as_json:
        sys.stdout.write(text)
    else:
        comparison_text.show(document, console(plain=plain))
    return ExitCode.ABSTAINED if any(p.refused for p in document.pairs) else ExitCode.DONE


def _speed(
    lanes: tuple[str, ...],
    out: Path | None,
    html: Path | None,
    force: bool,
    as_json: bool,
    plain: bool,
) -> int:
    """Probe rows: the last lane against the others as controls; no bars, so no verdict."""
    from lanescope.attribution.lanes.probes import read_lane
    from lanescope.attribution.lanes.speed import compare_speed
    from lanescope.dashboards.terminal import console
    from lanescope.dashboards.verdicts import print_notes, print_speed
    from lanescope.profiler.cli.writing import write_text

    read = [read_lane(x) for x in lanes]
    found = compare_speed(read[:-1], read[-1])
    text = found.model_dump_json(indent=1) + "\n"
    if out is not None:
        write_text(out, text, force)
    if html is not None:
        from lanescope.dashboards.pages.speed_page import speed_page

        write_text(html, speed_page(found), force)
    if as_json:
        sys.stdout.write(text)
    else:
        con = console(plain=plain)
        print_speed(found, con)
        print_notes(found.findings, found.abstained, con)
    return ExitCode.ABSTAINED if found.refused else ExitCode.DONE


def _named(text: str, option: str) -> tuple[str, float]:
    name, equals, value = text.rpartition("=")
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not equals or not name or number != number:
        raise UsageError(f"{option} {text}: not NAME=NUMBER", "for example k2=2.41")
    return name, number


def _axis(text: str | None) -> tuple[str, list[float]] | None:
    if text is None:
        return None
    name, equals, values = text.partition("=")
    try:
        places = [float(v) for v in values.split(",")]
    except ValueError:
        places = []
    if not equals or not name or not places:
        raise UsageError(f"--axis {text}: not NAME=A,B,...", "for example slots=20,32,44")
    return name, places
