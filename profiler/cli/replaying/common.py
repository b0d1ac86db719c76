"""What the sub-commands share: how a trace and a slot map are named on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import rich_click as click
from pydantic import BaseModel
from rich.console import Console

from lanescope.attribution.replay.files import read_trace, whole_file
from lanescope.attribution.replay.trace import RoutingTrace
from lanescope.dashboards.tables import Table
from lanescope.dashboards.terminal import Column, console, sentence
from lanescope.dashboards.terminal import table as terminal_table
from lanescope.schemas.documents.replay import read_slot_map
from lanescope.schemas.errors import UsageError
from lanescope.schemas.findings import Abstention, Finding

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=BaseModel)

FILE = click.Path(path_type=Path)


@dataclass(frozen=True)
class Source:
    """A trace as the command line names it."""

    path: Path
    columns: dict[str, str]
    axes: str
    experts: int | None
    bypass_over: int | None
    tokens_per_step: int | None

    def load(self) -> RoutingTrace:
        """The trace."""
        trace = read_trace(self.path, self.columns, self.experts, self.axes)
        if self.bypass_over is not None:
            trace = replace(trace, bypass_over=self.bypass_over)
        return trace if self.tokens_per_step is None else trace.regrouped(self.tokens_per_step)


def source_options(required: bool = True) -> Callable[[F], F]:
    """The argument TRACE and how to read it, given to the command as `source`."""

    def decorate(function: F) -> F:
        @wraps(function)
        def with_source(*args: Any, **kwargs: Any) -> Any:
            names = ("axes", "experts", "bypass_over", "tokens_per_step")
            how = {name: kwargs.pop(name) for name in names}
            path, columns = kwargs.pop("trace"), mapping(kwargs.pop("columns"))
            source = None if path is None else Source(path, columns, **how)
            return function(*args, source=source, **kwargs)

        decorated: Any = with_source
        for option in (
            click.option(
                "--tokens-per-step",
                type=click.IntRange(1),
                help="Regroup the tokens into steps of K+1, as if every draft were accepted.",
            ),
            click.option(
                "--bypass-over",
                type=click.IntRange(0),
                help="Prefill passes of more tokens skip the cache. [the file's, or 16]",
            ),
            click.option("--experts", type=click.IntRange(1), help="Experts of a layer."),
            click.option("--axes", default="tlk", help="Axes of a NumPy array. [tlk]"),
            click.option(
                "--column",
                "columns",
                multiple=True,
                metavar="ROLE=NAME",
                help="A column by another name; roles: step, token, layer, experts, prefill.",
            ),
            click.argument("trace", type=FILE, required=required),
        ):
            decorated = option(decorated)
        return cast(F, decorated)

    return decorate


@dataclass(frozen=True)
class Output:
    """Where a result goes: a page, JSON, or tables in the terminal."""

    html: Path | None
    force: bool
    as_json: bool
    plain: bool

    def emit(self, result: R, page: Callable[[R], str], show: Callable[[R, Console], None]) -> None:
        """Write the page, if one is wanted; then print JSON or the tables."""
        if self.html is not None:
            write_text(self.html, page(result), self.force)
        if self.as_json:
            click.echo(result.model_dump_json(by_alias=True))
        else:
            show(result, console(plain=self.plain))


def output_options(function: F) -> F:
    """How the result is shown, given to the command as `output`."""

    @wraps(function)
    def with_output(*args: Any, **kwargs: Any) -> Any:
        names = ("html", "force", "as_json", "plain")
        output = Output(**{name: kwargs.pop(name) for name in names})
        return function(*args, output=output, **kwargs)

    decorated: Any = with_output
    for option in (
        click.option("--plain", is_flag=True, help="No colour."),
        click.option("--json", "as_json", is_flag=True, help="Print the document, not tables."),
        click.option("--force", is_flag=True, help="Overwrite files."),
        click.option("--html", type=FILE, help="Write a page with tables and figures here."),
    ):
        decorated = option(decorated)
    return cast(F, decorated)


def warmup_option(function: F) -> F:
    """`--warmup`: steps that fill the cache and are not counted."""
    return click.option(
        "--warmup",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Verification steps that fill the cache and are not scored.",
    )(function)


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
    """A line of text."""
    sentence(con, text)


def notes(warnings: Sequence[Finding], abstained: Sequence[Abstention], con: Console) -> None:
    """What to be wary of, and what is not given."""
    for warning in warnings:
        say(f"! {warning.message}: {warning.advice}", con)
    for gap in abstained:
        say(f"- withheld: {gap.what}: {gap.why} ({gap.remedy})", con)


def print_tables(tables: Sequence[Table], con: Console) -> None:
    """Tables one below the other; numbers to the right."""
    for table in tables:
        words_first = not table.cols[0].numeric
        columns = [Column(c.heading, i > 0 or not words_first) for i, c in enumerate(table.cols)]
        cells = [
            [col.text(value) for col, value in zip(table.cols, row, strict=True)]
            for row in table.rows
        ]
        terminal_table(table.title, columns, cells, con)
