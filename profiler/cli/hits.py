"""`lanescope hits`: what the engine's own log says of its cache."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import rich_click as click

_FORMATS = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S"]


@click.command("hits")
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--routed-rows", type=click.IntRange(1), help="Routed rows of an engine step: (K+1) x top-k."
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FOLDER|FILE",
    help="An attribution to compare with (attribution.json or its folder).",
)
@click.option("--since", type=click.DateTime(_FORMATS), help="Lines from this time on.")
@click.option("--until", type=click.DateTime(_FORMATS), help="Lines up to this time.")
@click.option("--pattern", help="Regular expression with the groups steps and misses.")
@click.option("--json", "as_json", is_flag=True, help="Print the document alone.")
@click.option("--plain", is_flag=True, help="No colour, no frames.")
def command(
    log: Path,
    routed_rows: int | None,
    against: Path | None,
    since: datetime | None,
    until: datetime | None,
    pattern: str | None,
    as_json: bool,
    plain: bool,
) -> None:
    """Misses and hit rate from the cache statistics lines of LOG.

    Lines weigh by their steps, negative values count, roundings are carried along, and the hit
    rate is taken over the routed rows of an engine step, whatever the engine printed.
    """
    from lanescope.attribution.copies import engine_log, windows
    from lanescope.dashboards import copies_text
    from lanescope.dashboards.terminal import console

    lines = engine_log.read(log, pattern or engine_log.PATTERN)
    lines = engine_log.between(lines, since, until)
    other = windows.load_document(against) if against else None
    if routed_rows is None and other is not None and other.misses is not None:
        routed_rows = other.misses.routed_rows
    hits, findings = engine_log.summarize(lines, routed_rows)
    if as_json:
        click.echo(hits.model_dump_json(indent=1))
        return
    con = console(plain=plain)
    copies_text.hits(hits, findings, other.misses if other else None, con)
