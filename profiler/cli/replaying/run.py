"""`lanescope replay run`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click
from click.exceptions import Exit
from rich.console import Console

from lanescope.attribution.replay.against import agreement, write_misses
from lanescope.attribution.replay.cost import read_cost_model
from lanescope.attribution.replay.policies import ABOUT, DEFAULT, Scope, priced, replay
from lanescope.dashboards.pages.replay import run_page
from lanescope.dashboards.replay_tables import about, run_tables
from lanescope.profiler.cli.replaying.common import (
    FILE,
    Output,
    Source,
    notes,
    output_options,
    print_tables,
    say,
    slots_of,
    source_options,
    warmup_option,
)
from lanescope.schemas.documents.replay import Agreement, Replay
from lanescope.schemas.errors import ExitCode


@click.command("run", epilog="Policies: " + "; ".join(f"{k}: {v}" for k, v in ABOUT.items()))
@source_options()
@warmup_option
@click.option("--slots", required=True, help="Slots per layer: a number, or a slot map (JSON).")
@click.option(
    "--policy", "policies", multiple=True, help="A policy; may be repeated. Default: all."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For random.")
@click.option("--against", type=FILE, help="An engine's own miss counts: exit 10 if not LRU's.")
@click.option("--misses", "misses_out", type=FILE, help="Write LRU's misses per layer-step here.")
@click.option("--model", type=FILE, help="Cost model file of `lanescope model`.")
@click.option("--accepted", type=float, help="Accepted tokens per step, for tokens per second.")
@output_options
def command(
    source: Source,
    output: Output,
    warmup: int,
    slots: str,
    policies: tuple[str, ...],
    seed: int,
    against: Path | None,
    misses_out: Path | None,
    model: Path | None,
    accepted: float | None,
) -> None:
    """Replay policies side by side over TRACE at a slot map."""
    loaded = source.load()
    names = tuple(policies) or DEFAULT
    if (against or misses_out) and "lru" not in names:
        names = ("lru", *names)
    result, lru = replay(loaded, slots_of(slots, loaded), names, warmup, seed, keep="lru")
    scope = Scope.of(loaded, warmup)
    if against is not None and lru is not None:
        found = agreement(against, loaded, lru, scope)
        result = result.model_copy(update={"agreement": found})
    if misses_out is not None and lru is not None:
        write_misses(misses_out, loaded, lru, scope, output.force)
    if model is not None:
        result = priced(result, read_cost_model(model), accepted)
    output.emit(result, run_page, show)
    if result.agreement is not None and result.agreement.equal < result.agreement.layer_steps:
        raise Exit(ExitCode.GATE_FAIL)


def show(result: Replay, con: Console) -> None:
    """The policy table in the terminal."""
    say(about(result.trace, sum(result.slots.values())), con)
    print_tables(run_tables(result), con)
    if result.agreement is not None:
        say(agreement_line(result.agreement), con)
    notes(result.warnings, result.abstained, con)


def agreement_line(found: Agreement) -> str:
    """Whether the engine and the replay say the same."""
    if found.equal == found.layer_steps:
        return f"{found.file}: the engine's misses equal LRU's in all {found.equal:,} layer-steps"
    return (
        f"{found.file}: the engine's misses equal LRU's in {found.equal:,} of "
        f"{found.layer_steps:,} layer-steps; first difference: {found.first_difference}"
    )
