"""`lanescope windows`: captured windows, from the catalogue."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import rich_click as click

from lanescope.dashboards.terminal import Column, console, table
from lanescope.profiler.cli.ending import ending
from lanescope.profiler.window.folder import utc
from lanescope.profiler.window.offline import TRACE
from lanescope.schemas.catalogue import Catalogue, Window, open_catalogue
from lanescope.schemas.errors import UsageError
from lanescope.schemas.units import size

CATALOGUE = click.option("--catalogue", help="Path or URL (default: the user's own).")
JSON = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


@click.group()
def command() -> None:
    """List and show captured windows."""


def _row(window: Window) -> dict[str, Any]:
    return {
        "run": window.run,
        "started": utc(window.started_ns / 1e9),
        "incumbent": window.incumbent,
        "candidate": window.candidate,
        "axis": window.axis,
        "outcome": window.outcome,
        "exit_code": window.exit_code,
        "folder": window.folder,
    }


def _opened(url: str | None) -> contextlib.closing[Catalogue]:
    return contextlib.closing(open_catalogue(url))


@command.command("list")
@CATALOGUE
@JSON
def list_(catalogue: str | None, as_json: bool) -> None:
    """All windows, newest first."""
    with _opened(catalogue) as store, store.read() as session:
        rows = [_row(w) for w in session.query(Window).order_by(Window.started_ns.desc())]
    if as_json:
        click.echo(json.dumps(rows))
        return
    if not rows:
        click.echo("no windows yet")
        return
    columns = ("run", "candidate", "axis", "outcome")
    cells = [[str(row[c] or "-") for c in columns] for row in rows]
    table("Windows", [Column(c, numeric=False) for c in columns], cells, console())


@command.command("page")
@click.argument("window", metavar="FOLDER|RUN")
@click.option(
    "--out", type=click.Path(path_type=Path), help="File to write.  [default: ./RUN.html]"
)
@click.option("--force", is_flag=True, help="Replace what is there.")
@CATALOGUE
def page(window: str, out: Path | None, force: bool, catalogue: str | None) -> None:
    """Write a window's page: its states, probes, GPU, marks. Half-done windows too."""
    from lanescope.attribution.window import read_window
    from lanescope.dashboards.pages.window_page import window_page
    from lanescope.profiler.cli.writing import write_text

    folder = Path(window)
    if not folder.is_dir():
        with _opened(catalogue) as store, store.read() as session:
            found = session.query(Window).filter_by(run=window).one_or_none()
            if found is None:
                raise UsageError(
                    f"{window}: no folder, and no window in {store.name}",
                    "see lanescope windows list",
                )
            folder = Path(found.folder)
    target = out or Path(f"{folder.resolve().name}.html")
    write_text(target, window_page(read_window(folder)), force)
    click.echo(f"page written to {target}")


@command.command("tail")
@click.option(
    "--dataset",
    type=click.Path(path_type=Path),
    default=Path("lanescope-dataset"),
    show_default=True,
    help="Where the results land; see lanescope query.",
)
@click.option("--follow", is_flag=True, help="Go on, and take each window as it closes.")
@click.option(
    "--every", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Seconds to wait."
)
@click.option("--profile", metavar="NAME|FILE", help="Rules to use, as in attribute.")
@CATALOGUE
def tail(
    dataset: Path, follow: bool, every: float, profile: str | None, catalogue: str | None
) -> None:
    """Attribute closed windows into a dataset, with time that nobody else wants.

    The next window may run meanwhile: one process, below all others. Ctrl-C or SIGTERM ends it;
    what is finished is kept.
    """
    from lanescope.attribution.many.dataset import open_dataset
    from lanescope.attribution.many.engines import in_processes
    from lanescope.attribution.many.work import Task

    open_dataset(dataset)
    seen: set[str] = set()
    with ending(dataset):
        while True:
            new = [t for t in _closed(catalogue) if t not in seen]
            seen.update(new)
            tasks = [Task(t, str(dataset.absolute()), profile) for t in new]
            for outcome in in_processes(tasks, 1, idle=True):
                click.echo(outcome.error or f"{outcome.path}: {outcome.state}")
            if not follow:
                return
            time.sleep(every)


def _closed(catalogue: str | None) -> list[str]:
    """The traces of all closed windows, oldest first."""
    with _opened(catalogue) as store, store.read() as session:
        closed = session.query(Window).filter(Window.outcome.is_not(None))
        traces = [Path(w.folder) / TRACE for w in closed.order_by(Window.started_ns)]
    return [str(t) for t in traces if t.is_file()]


@command.command("show")
@click.argument("run")
@CATALOGUE
@JSON
def show(run: str, catalogue: str | None, as_json: bool) -> None:
    """One window with its files."""
    with _opened(catalogue) as store, store.read() as session:
        window = session.query(Window).filter_by(run=run).one_or_none()
        if window is None:
            raise UsageError(f"no window {run} in {store.name}", "see lanescope windows list")
        found = _row(window)
        found["artifacts"] = [
            {
                "kind": a.kind,
                "path": a.path,
                "bytes": a.size_bytes,
                "sha256": a.sha256,
                "private": a.private,
            }
            for a in window.artifacts
        ]
    if as_json:
        click.echo(json.dumps(found))
        return
    for key, value in found.items():
        if key != "artifacts":
            click.echo(f"{key:10} {value if value is not None else '-'}")
    columns = [
        Column("kind", False),
        Column("size"),
        Column("sha256", False),
        Column("path", False),
    ]
    cells = [
        [a["kind"] + (" (private)" if a["private"] else ""), size(a["bytes"]), a["sha256"][:12],
         a["path"]]
        for a in found["artifacts"]
    ]  # fmt: skip
    table("Files", columns, cells, console())
