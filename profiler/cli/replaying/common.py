"""What the sub-commands share: how a trace and a slot map are named on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import rich_click as click
from rich.console import Console

from lanescope.attribution.replay.files import read_trace, whole_file
from lanescope.attribution.replay.trace import RoutingTrace
from lanescope.dashboards.terminal import Column, table
from lanescope.schemas.documents.replay import Interval, read_slot_map
from lanescope.schemas.errors import UsageError
from lanescope.schemas.findings import Abstention, Finding

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)


def trace_options(function: F) -> F:
    """The argument TRACE and how to read it."""
    for option in (
        click.option(
            "--experts", type=click.IntRange(1), help="Experts per layer, if the file does not say."
        ),
        click.option(
            "--axes", default="tlk", show_default=True, help="Axes of a NumPy array: t, l, k."
        ),
        click.option(
            "--column",
            "columns",
            multiple=True,
            metavar="ROLE=NAME",
            help="A column by another name; roles: step, token, layer, experts, prefill.",
        ),
        click.argument("trace", type=FILE),
    ):
        function = option(function)
    return function


def step_option(function: F) -> F:
    """`--tokens-per-step`, for traces that were recorded token by token."""
    return click.option(
        "--tokens-per-step",
        type=click.IntRange(1),
        help="Regroup the tokens into steps of K+1, as if every draft were accepted.",
    )(function)


def warmup_option(function: F) -> F:
    """`--warmup`: steps that fill the cache and are not counted."""
    return click.option(
        "--warmup",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Verification steps that fill the cache and are not scored.",
    )(function)


def load(
    path: Path,
    columns: tuple[str, ...],
    axes: str,
    experts: int | None,
    tokens_per_step: int | None = None,
) -> RoutingTrace:
    """The trace that the options name."""
    trace = read_trace(path, mapping(columns), experts, axes)
    return trace if tokens_per_step is None else trace.regrouped(tokens_per_step)


def mapping(columns: tuple[str, ...]) -> dict[str, str]:
    """`ROLE=NAME` pairs as a dictionary."""
    pairs = [column.partition("=") for column in columns]
    for role, sign, name in pairs:
        if not (role and sign and name):
            raise UsageError(f"--column {role}{sign}{name}", "write ROLE=NAME")
    return {role: name for role, _, name in pairs}


def slots_of(text: str, trace: RoutingTrace) -> dict[int, int]:
    """Slots per layer from a number (the same everywhere) or the path of a slot map."""
    if text.isdigit():
        return dict.fromkeys(trace.layers, int(text))
    return read_slot_map(Path(text)).per_layer


def write_text(path: Path, text: str, force: bool) -> None:
    """Write a file whole, or not at all."""
    with whole_file(path, force) as temporary:
        temporary.write_text(text)


def say(text: str, con: Console) -> None:
    """A line of text. Piped, it stays one line."""
    con.print(text, soft_wrap=not con.is_terminal)


def notes(warnings: Sequence[Finding], abstained: Sequence[Abstention], con: Console) -> None:
    """What to be wary of, and what is not given."""
    for warning in warnings:
        say(f"! {warning.message}: {warning.advice}", con)
    for gap in abstained:
        say(f"- withheld: {gap.what}: {gap.why} ({gap.remedy})", con)


class Priced(Protocol):
    """A row that may have a step time and a rate."""

    @property
    def ms_per_step(self) -> Interval | None:
        """By the cost model, where one was given."""

    @property
    def tokens_per_s(self) -> Interval | None:
        """Where the accepted tokens of a step are known too."""


def costs(rows: Sequence[Priced], names: Sequence[str], heading: str, con: Console) -> None:
    """The table of step times, where a cost model gave any."""
    if not any(row.ms_per_step for row in rows):
        return
    cells = [
        [name, span(row.ms_per_step), span(row.tokens_per_s)]
        for name, row in zip(names, rows, strict=True)
    ]
    columns = [Column(heading, numeric=False), Column("ms/step"), Column("tok/s")]
    table("step time by the cost model", columns, cells, con)


def span(value: Interval | None) -> str:
    """`44.1 [43.0, 45.2]`."""
    if value is None:
        return "-"
    if value.low == value.high:
        return f"{value.estimate:.2f}"
    return f"{value.estimate:.2f} [{value.low:.2f}, {value.high:.2f}]"
