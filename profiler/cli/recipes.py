"""`lanescope recipes`: the questions of `attribute` and `compare`, asked through `nsys recipe`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import rich_click as click

from lanescope.profiler.cli.ending import ending
from lanescope.schemas.errors import UnusableInput


@click.group()
def command() -> None:
    """Recipes for `nsys recipe`: buckets of a step, row copies, lanes compared."""


@command.command("install")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder to put them in.  [default: $NSYS_RECIPE_PATH, or a folder of yours]",
)
@click.option("--force", is_flag=True, help="Replace what lies there under the same names.")
def install(folder: Path | None, force: bool) -> None:
    """Put the recipes where `nsys recipe` finds them.

    They call this lanescope, with this Python, whatever Python Nsight Systems runs: install again
    after moving either.
    """
    from lanescope.profiler.recipes import installing

    target = (folder or installing.default_folder()).absolute()
    installing.install(target, force)
    names = [r.name for r in installing.recipes()]
    click.echo(f"installed {', '.join(names)} in {target}")
    if not os.environ.get("NSYS_RECIPE_PATH"):
        click.echo(f"then: NSYS_RECIPE_PATH={target} nsys recipe {names[-1]} --input REPORT")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--plain", is_flag=True, help="No colour, no frames.")
def list_(as_json: bool, plain: bool) -> None:
    """The recipes, and what is installed."""
    from lanescope.dashboards.terminal import console
    from lanescope.profiler.recipes import installing

    folder = installing.default_folder().absolute()
    found = installing.record(folder)
    recipes = installing.recipes()
    if as_json:
        data = {
            "folder": str(folder),
            "installed": found["lanescope"] if found else None,
            "python": found["python"] if found else None,
            "recipes": [vars(r) for r in recipes],
        }
        click.echo(json.dumps(data, indent=1))
        return
    con = console(plain=plain)
    for recipe in recipes:
        con.print(f"{recipe.name}  {recipe.title}", soft_wrap=True, highlight=False)
    state = (
        f"lanescope {found['lanescope']} is installed in {folder}"
        if found
        else f"nothing is installed in {folder}: lanescope recipes install"
    )
    con.print(state, soft_wrap=True, highlight=False)


@command.command("path")
def path() -> None:
    """The folder of the installed recipes, for NSYS_RECIPE_PATH."""
    from lanescope.profiler.recipes import installing

    folder = installing.default_folder().absolute()
    if installing.record(folder) is None:
        raise UnusableInput(f"{folder}: no recipes are installed", "lanescope recipes install")
    click.echo(folder)


@command.command("attribute", hidden=True)
@click.argument("report", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--profile")
@click.option("--window", default="")
def attribute(report: Path, out: Path, profile: str | None, window: str) -> None:
    """What the recipes call: attribute a report into a folder, as `lanescope attribute` does."""
    from lanescope.attribution import folders, output
    from lanescope.dashboards.pages import attribution_page
    from lanescope.profiler.recipes.report import attribute_report

    folders.check_target(out, force=False)
    with (
        ending(),
        attribute_report(
            report,
            profile=profile,
            window=window,
            warn=lambda text: print(f"warning: {text}", file=sys.stderr),
        ) as result,
    ):
        output.write(result, out, lambda folder: attribution_page.write(result, folder))
    lane = report.with_suffix(".lane.toml")
    if lane.is_file():  # what `compare` reads of the engine
        shutil.copy(lane, out / lane.name)
