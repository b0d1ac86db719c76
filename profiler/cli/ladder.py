"""`lanescope ladder`: an append-only record of what was changed, measured, kept and taken back."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from statistics import median
from typing import Any

import rich_click as click

from lanescope.attribution.lanes import ladder as ladders
from lanescope.dashboards import ladders as views
from lanescope.dashboards.terminal import console
from lanescope.profiler.cli.writing import write_text
from lanescope.schemas.catalogue import Rung, open_catalogue
from lanescope.schemas.documents.ladder import STATUSES
from lanescope.schemas.errors import UnusableInput, UsageError

LADDER = click.option("--ladder", "name", default="default", show_default=True, help="Which one.")
CATALOGUE = click.option("--catalogue", help="The catalogue's URL or file.")


@click.group("ladder")
def command() -> None:
    """An append-only record of rungs: what was changed, kept, retracted.

    A rung is one change. It is kept when it beats the incumbent's median and its gate did not
    fail; corrections and retractions are added to it and stay visible. Lives in the catalogue.
    """


@command.command("add")
@click.argument("rung")
@click.option("--change", required=True, help="The one thing that was changed.")
@click.option("--status", type=click.Choice(STATUSES), required=True)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME=MEDIAN[,MIN,MAX[,N]]",
    help="A measured metric; the first one of a ladder is its primary metric.",
)
@click.option("--values", multiple=True, metavar="NAME=V,V,...", help="The repetitions themselves.")
@click.option("--lower", multiple=True, metavar="NAME", help="A metric of which less is better.")
@click.option("--diff", "differences", multiple=True, metavar="KEY=BEFORE->AFTER")
@click.option("--gate", "verdict", help="Verdict, or the JSON that `lanescope gate --out` wrote.")
@click.option("--because", default="", help="What decides a tie in this rung's favour.")
@click.option("--note", default="")
@click.option("--link", "links", multiple=True, help="A window, a receipt, a page.")
@LADDER
@CATALOGUE
def add(
    rung: str,
    change: str,
    status: str,
    metrics: tuple[str, ...],
    values: tuple[str, ...],
    lower: tuple[str, ...],
    differences: tuple[str, ...],
    verdict: str | None,
    because: str,
    note: str,
    links: tuple[str, ...],
    name: str,
    catalogue: str | None,
) -> None:
    """Append RUNG."""
    measured = {**_metrics(metrics), **_values(values)}
    for metric in lower:
        if metric not in measured:
            raise UsageError(f"--lower {metric}: not among the metrics", ", ".join(measured))
        measured[metric]["better"] = "lower"
    row = Rung(
        ladder=name,
        name=rung,
        change=change,
        difference=_differences(differences),
        metrics=measured,
        gate=_verdict(verdict),
        status=status,
        note=note,
        because=because,
        links=list(links),
    )
    store = open_catalogue(catalogue)
    with store.write() as session:
        ladders.add(session, row)
        document = ladders.read(session, name)
    view = next(r for r in document.rungs if r.name == rung)
    click.echo(f"{view.name}: {view.standing}{f' ({view.reason})' if view.reason else ''}")
    incumbent = document.incumbents[-1].name if document.incumbents else "nobody"
    click.echo(f"incumbent of {name}: {incumbent}")


@command.command("show")
@LADDER
@CATALOGUE
@click.option("--primary", help="The metric that decides.  [default: the first one measured]")
@click.option(
    "--format", "kind", type=click.Choice(["table", "markdown", "html", "json"]), default="table"
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--out", type=click.Path(path_type=Path), help="Write it to a file.")
@click.option("--force", is_flag=True, help="Overwrite --out.")
@click.option("--plain", is_flag=True, help="No colour.")
def show(
    name: str,
    catalogue: str | None,
    primary: str | None,
    kind: str,
    as_json: bool,
    out: Path | None,
    force: bool,
    plain: bool,
) -> None:
    """Show a ladder as it reads today."""
    store = open_catalogue(catalogue)
    with store.read() as session:
        document = ladders.read(session, name, primary)
    kind = "json" if as_json else kind
    if kind == "table" and out is None:
        views.show(document, console(plain=plain))
        return
    if kind == "json":
        text = document.model_dump_json(indent=1, by_alias=True) + "\n"
    elif kind == "html":
        from lanescope.dashboards.pages.ladder_page import ladder_page

        text = ladder_page(document)
    else:
        text = views.markdown(document)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text, force)


@command.command("retract")
@click.argument("rung")
@click.option("--why", required=True, help="What was wrong, with the evidence.")
@LADDER
@CATALOGUE
def retract(rung: str, why: str, name: str, catalogue: str | None) -> None:
    """Take RUNG back. It stays on the record, and loses any incumbency."""
    _mark(catalogue, name, rung, "retraction", why)


@command.command("correct")
@click.argument("rung")
@click.option("--text", required=True, help="What is so instead.")
@LADDER
@CATALOGUE
def correct(rung: str, text: str, name: str, catalogue: str | None) -> None:
    """Add a correction to RUNG. What it said before stays."""
    _mark(catalogue, name, rung, "correction", text)


def _mark(catalogue: str | None, name: str, rung: str, kind: str, text: str) -> None:
    store = open_catalogue(catalogue)
    with store.write() as session:
        ladders.mark(session, name, rung, kind, text)
        document = ladders.read(session, name)
    incumbent = document.incumbents[-1].name if document.incumbents else "nobody"
    click.echo(f"{kind} added to {rung}; incumbent of {name}: {incumbent}")


def _numbers(option: str, item: str) -> tuple[str, list[float]]:
    name, equals, text = item.partition("=")
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not equals or not name or not numbers or not all(map(math.isfinite, numbers)):
        raise UsageError(
            f"{option} {item}: not NAME=NUMBER,...", "for example code=28.4,26.9,29.8,5"
        )
    return name, numbers


def _metrics(items: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    out = {}
    for item in items:
        name, numbers = _numbers("--metric", item)
        if len(numbers) not in {1, 3, 4} or (len(numbers) == 4 and numbers[3] % 1):
            raise UsageError(f"--metric {item}: {len(numbers)} numbers", "MEDIAN[,MIN,MAX[,N]]")
        out[name] = dict(zip(("median", "min", "max", "n"), numbers, strict=False))
    return out


def _values(items: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    out = {}
    for item in items:
        name, v = _numbers("--values", item)
        out[name] = {"median": median(v), "min": min(v), "max": max(v), "n": len(v)}
    return out


def _differences(items: tuple[str, ...]) -> dict[str, list[str]]:
    out = {}
    for item in items:
        key, equals, change = item.partition("=")
        before, arrow, after = change.partition("->")
        if not equals or not arrow or not key:
            raise UsageError(f"--diff {item}: not KEY=BEFORE->AFTER", "for example tokens=8->6")
        out[key] = [before, after]
    return out


def _verdict(text: str | None) -> str | None:
    """A verdict by name, or the one in a gate's document."""
    if text is None or text in ladders.GATES:
        return text
    try:
        return str(json.loads(Path(text).read_text(encoding="utf-8"))["verdict"])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise UnusableInput(
            f"--gate {text}: neither a verdict nor a gate's document",
            f"one of {', '.join(ladders.GATES)}, or a file of `lanescope gate --out`",
        ) from exc
