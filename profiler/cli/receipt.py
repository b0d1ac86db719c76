"""`lanescope receipt`: a window's folder against its manifest."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from lanescope.profiler.window.folder import verify as verify_folder
from lanescope.schemas.errors import UnusableInput


@click.group()
def command() -> None:
    """Hold a window's folder against its manifest."""


@command.command("verify")
@click.argument("folder", type=click.Path(path_type=Path))
def verify(folder: Path) -> None:
    """Say whether every file is as it was when the window closed."""
    wrong = verify_folder(folder)
    for line in wrong:
        click.echo(line)
    if wrong:
        raise UnusableInput(
            f"{folder}: {len(wrong)} file(s) differ from the manifest", "the folder was changed"
        )
    from lanescope.dashboards.terminal import console, sentence

    sentence(console(), f"ok: {folder} is as its manifest says")
