"""`lanescope doctor`: what this machine can do for a window, each lack with its remedy."""

from __future__ import annotations

import json

import rich_click as click

from lanescope.dashboards.terminal import Column, console, table
from lanescope.profiler.adapters import systemd
from lanescope.profiler.window import doctor, places


@click.command()
@click.option("--boot-unit", is_flag=True, help="Install the unit that restores after a reboot.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(boot_unit: bool, as_json: bool) -> None:
    """What this machine can do for a window, and the remedy where it cannot."""
    if boot_unit:
        path = systemd.install_boot_unit(places.state_folder())
        click.echo(f"{path} is read at the next boot")
        return
    found = doctor.examine()
    if as_json:
        click.echo(json.dumps([vars(f) for f in found]))
        return
    words = {True: "yes", False: "no", None: "unknown"}
    rows = [[f.what, words[f.can], f.detail, f.remedy] for f in found]
    columns = [Column(c, numeric=False) for c in ("part", "can", "found", "remedy")]
    table("This machine", columns, rows, console())
