"""`lanescope replay generate`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from lanescope.attribution.replay.files import write_trace
from lanescope.attribution.replay.generate import (
    Recipe,
    expected_overlap,
    expected_pin_hit,
    generate,
)
from lanescope.profiler.cli.replaying.common import FILE
from lanescope.schemas.errors import UsageError

_RATE = click.FloatRange(0, 1)


def _tiers(text: str | None) -> tuple[tuple[int, float], ...]:
    """`32:0.5,224:0.5` as pairs."""
    if not text:
        return ()
    try:
        pairs = [part.split(":") for part in text.split(",")]
        return tuple((int(size), float(share)) for size, share in pairs)
    except ValueError as exc:
        raise UsageError(f"--tiers {text}", "write EXPERTS:SHARE,EXPERTS:SHARE") from exc


@click.command("generate")
@click.argument("out", type=FILE)
@click.option("--tokens", type=click.IntRange(1), default=4000, show_default=True)
@click.option("--layers", type=click.IntRange(1), default=24, show_default=True)
@click.option("--experts", type=click.IntRange(1, 65535), default=64, show_default=True)
@click.option("--top-k", type=click.IntRange(1), default=4, show_default=True)
@click.option(
    "--tokens-per-step", type=click.IntRange(1), default=1, show_default=True, help="K+1."
)
@click.option("--tiers", help="Unequal popularity: EXPERTS:SHARE,EXPERTS:SHARE.")
@click.option(
    "--repeat", type=_RATE, default=0.0, help="Share of picks copied from the token before."
)
@click.option(
    "--cross", type=_RATE, default=0.0, help="Share of picks copied from the layer above."
)
@click.option("--local", type=_RATE, default=0.0, help="Share of picks from a working set.")
@click.option(
    "--working-set", type=click.IntRange(0), default=0, help="Experts in the working set."
)
@click.option(
    "--turnover", type=_RATE, default=0.0, help="Chance per token that one of them changes."
)
@click.option("--spread", type=_RATE, default=0.0, help="How much working sets differ by layer.")
@click.option(
    "--prefill-tokens", type=click.IntRange(0), default=0, help="Tokens of a prefill pass."
)
@click.option("--prefill-every", type=click.IntRange(0), default=0, help="Steps between them.")
@click.option("--first-layer", type=click.IntRange(0), default=0, help="Number of the first layer.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--force", is_flag=True, help="Overwrite OUT.")
def command(out: Path, tiers: str | None, force: bool, **planted: float) -> None:
    """Make a routing trace with planted structure, so that an analysis has a known answer."""
    recipe = Recipe(tiers=_tiers(tiers), **planted)  # type: ignore[arg-type]
    trace = generate(recipe)
    write_trace(trace, out, force)
    click.echo(
        f"{out}: {trace.tokens:,} tokens x {len(trace.layers)} layers x top-{trace.top_k} of "
        f"{trace.n_experts}, {trace.steps:,} passes"
    )
    chance = expected_overlap(recipe, 0.0)
    if not recipe.tiers and not recipe.local:
        if not recipe.cross:
            told = expected_overlap(recipe, recipe.repeat)
            click.echo(f"planted: token-to-token overlap {told:.4f} (chance {chance:.4f})")
        if not recipe.repeat:
            told = expected_overlap(recipe, recipe.cross)
            click.echo(f"planted: cross-layer overlap {told:.4f} (chance {chance:.4f})")
    if not (recipe.repeat or recipe.cross or recipe.local):
        half = recipe.experts // 2
        hit = expected_pin_hit(recipe, half)
        click.echo(f"planted: best static pin of {half} slots hits {hit:.4f}")
