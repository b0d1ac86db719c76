"""`lanescope lane`: lane files checked, compared with each other and with running containers."""

from __future__ import annotations

import json
from pathlib import Path

import rich_click as click

from lanescope.dashboards.terminal import Column, console, table
from lanescope.profiler.adapters.docker import host
from lanescope.profiler.adapters.engine_api import Engine, EngineError
from lanescope.profiler.window import diff as diffing
from lanescope.schemas.documents import toml
from lanescope.schemas.documents.lane import Lane
from lanescope.schemas.errors import UnusableInput


@click.group()
def command() -> None:
    """Check lane files and show what differs between two lanes."""


@command.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Read lane files; the first mistake is one line with file, key and remedy."""
    for path in files:
        click.echo(f"ok: {path}: lane {toml.read(path, Lane).name}")


def _axes(word: str, beside: str) -> dict[str, str]:
    """A lane file's axes, or those of a running container named `docker:NAME`."""
    if not word.startswith("docker:"):
        lane = toml.read(Path(word), Lane)
        if beside.startswith("docker:") and lane.launcher == "docker":
            return diffing.as_container(lane, _image(lane.image or ""))
        return diffing.axes(lane)
    name = word.removeprefix("docker:")
    try:
        found = Engine(host()).inspect(name)
    except EngineError as exc:
        raise UnusableInput(str(exc), "start the engine, or name it in DOCKER_HOST") from exc
    if found is None:
        raise UnusableInput(f"no such container: {name}", "see docker ps -a")
    return diffing.container_axes(found, _image(found["Image"]))


def _image(reference: str) -> dict[str, object]:
    try:
        return Engine(host()).image(reference) or {}
    except EngineError as exc:
        raise UnusableInput(str(exc), "start the engine, or name it in DOCKER_HOST") from exc


@command.command("diff")
@click.argument("a")
@click.argument("b")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def diff(a: str, b: str, as_json: bool) -> None:
    """What two lanes differ in, axis by axis. A and B are lane files or docker:CONTAINER."""
    found = diffing.compare(_axes(a, b), _axes(b, a))
    if as_json:
        click.echo(json.dumps([{"axis": d.axis, "a": d.a, "b": d.b} for d in found]))
        return
    if not found:
        click.echo("no difference")
        return
    cells = [
        [d.axis, d.a if d.a is not None else "-", d.b if d.b is not None else "-"] for d in found
    ]
    columns = [Column("axis", False), Column(Path(a).name, False), Column(Path(b).name, False)]
    table(f"{len(found)} difference(s)", columns, cells, console())
