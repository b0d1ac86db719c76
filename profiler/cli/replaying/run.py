"""`lanescope replay run`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from lanescope.attribution.replay.policies import ABOUT, DEFAULT, replay
from lanescope.dashboards.terminal import Column, console, table
from lanescope.profiler.cli.replaying.common import (
    load,
    slots_of,
    step_option,
    trace_options,
    warmup_option,
)
from lanescope.schemas.documents.replay import Replay


@click.command("run", epilog="Policies: " + "; ".join(f"{k}: {v}" for k, v in ABOUT.items()))
@trace_options
@step_option
@warmup_option
@click.option("--slots", required=True, help="Slots per layer: a number, or a slot map (JSON).")
@click.option(
    "--policy", "policies", multiple=True, help="A policy; may be repeated. Default: all."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For random.")
@click.option("--json", "as_json", is_flag=True, help="Print the document instead of the table.")
@click.option("--plain", is_flag=True, help="No colour.")
def command(
    trace: Path,
    columns: tuple[str, ...],
    axes: str,
    experts: int | None,
    tokens_per_step: int | None,
    warmup: int,
    slots: str,
    policies: tuple[str, ...],
    seed: int,
    as_json: bool,
    plain: bool,
) -> None:
    """Replay policies side by side over TRACE at a slot map."""
    loaded = load(trace, columns, axes, experts, tokens_per_step)
    result, _ = replay(loaded, slots_of(slots, loaded), tuple(policies) or DEFAULT, warmup, seed)
    if as_json:
        click.echo(result.model_dump_json(by_alias=True))
        return
    show(result, plain)


def show(result: Replay, plain: bool = False) -> None:
    """The policy table in the terminal."""
    facts = result.trace
    con = console(plain=plain)
    low, high = facts.tokens_per_step
    span = f"{low}" if low == high else f"{low} to {high}"
    con.print(
        f"{facts.source}: {facts.scored_steps:,} verification steps of {span} token(s), "
        f"{len(facts.layers)} layers, top-{facts.top_k} of {facts.experts}, "
        f"{sum(result.slots.values()):,} slots"
    )
    rows = [
        [p.policy, f"{p.hit_rate:.4f}", f"{p.misses_per_layer_step:.3f}", f"{p.misses:,}"]
        for p in result.policies
    ]
    headings = [
        Column("policy", numeric=False),
        Column("hit rate"),
        Column("misses/layer-step"),
        Column("misses"),
    ]
    table("", headings, rows, con)
