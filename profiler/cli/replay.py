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
        """A stand-in with the one-line help: rendering `--help` asks for every sub-command."""
        if cmd_name not in SUBCOMMANDS:
            return None
        return click.RichCommand(name=cmd_name, short_help=SUBCOMMANDS[cmd_name])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The sub-command that is called, imported now."""
        name, found, rest = super().resolve_command(ctx, args)
        if name is None or found is None:
            return name, found, rest
        module = importlib.import_module(f"lanescope.profiler.cli.replaying.{name}")
        command: click.Command = module.command
        return name, command, rest


@click.group("replay", cls=ReplayGroup)
def command() -> None:
    """What a slot budget, a policy or a predictor could win, from a routing trace."""
