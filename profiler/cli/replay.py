"""`lanescope replay`: what a slot budget, a policy or a predictor could win, from routing traces.

The sub-commands live in `replaying/`, and each is imported when it is called: they bring compiled
loops with them.
"""

from __future__ import annotations

import importlib

import rich_click as click

#: sub-command -> its one-line help; the module in `replaying/` has its name
SUBCOMMANDS = {
    "run": "Replay policies side by side at a slot map.",
    "curve": "Misses at every slot count, layer by layer.",
    "plan": "Divide a slot budget over layers; weigh context against slots.",
    "structure": "Overlaps, reuse, working sets, predictors: what could be won at all.",
    "check": "Count what a routing trace holds, and what is wrong with it.",
    "convert": "Turn a trace with other names or axes into a routing trace.",
    "generate": "Make a routing trace with planted structure.",
}


class ReplayGroup(click.RichGroup):
    """A group whose sub-commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The sub-commands, in the order of the table."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command object of a sub-command."""
        if cmd_name not in SUBCOMMANDS:
            return None
        module = importlib.import_module(f"lanescope.profiler.cli.replaying.{cmd_name}")
        found: click.Command = module.command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the sub-commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))


@click.group("replay", cls=ReplayGroup)
def command() -> None:
    """What a slot budget, a policy or a predictor could win, from a routing trace."""
