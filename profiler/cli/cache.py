"""`lanescope cache`: the staged tables of traces seen before."""

from __future__ import annotations

import rich_click as click


@click.group("cache")
def command() -> None:
    """Show or clear the staged tables of traces seen before."""


@command.command("clear")
def clear() -> None:
    """Remove all staged tables. They are made again when a trace is next attributed."""
    from lanescope.attribution.ingest import cache
    from lanescope.schemas import units

    count, freed = cache.clear()
    click.echo(f"removed {count} staged traces, {units.size(freed)}, from {cache.root()}")


@command.command("path")
def path() -> None:
    """Print the cache folder (LANESCOPE_CACHE_DIR names another)."""
    from lanescope.attribution.ingest import cache

    click.echo(str(cache.root()))
