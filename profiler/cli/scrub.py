"""`lanescope scrub`: a shareable export of a trace, and the proof that it is one."""

from __future__ import annotations

import json
import lzma
import shutil
from pathlib import Path

import rich_click as click

from lanescope.attribution import rooms
from lanescope.profiler.adapters import nsight
from lanescope.profiler.window import scrub as scrubbing
from lanescope.schemas.errors import UnusableInput, UsageError
from lanescope.schemas.units import size


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Default: NAME.scrubbed.sqlite.")
@click.option("--secret-file", type=click.Path(path_type=Path), multiple=True,
              help="A file whose content must not appear either.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite the target.")
@click.option("--json", "as_json", is_flag=True, help="Print what was removed as JSON.")
def command(
    trace: Path, out: Path | None, secret_file: tuple[Path, ...], force: bool, as_json: bool
) -> None:
    """Remove environments, program output, user and host names from a trace; search every byte.

    TRACE is a SQLite export (plain or .xz) or a report (.nsys-rep). It is not changed.
    """
    target = out or trace.with_name(trace.name.split(".")[0] + ".scrubbed.sqlite")
    if not trace.is_file():
        raise UnusableInput(f"{trace}: no such file", "name a trace")
    if target.exists() and not force:
        raise UsageError(f"{target} exists", "--force overwrites it")
    known = []
    for path in secret_file:
        try:
            known.append(path.read_text().strip())
        except (OSError, UnicodeDecodeError) as exc:
            raise UsageError(f"{path}: cannot be read", "name a text file") from exc
    with rooms.room(target.resolve().parent, "scrub") as scratch:
        made = scratch / "scrubbed.sqlite"
        found = scrubbing.scrub(_plain(trace, scratch), made, known)
        made.replace(target)
    if as_json:
        click.echo(json.dumps({"target": str(target), **found}))
        return
    click.echo(f"{target}: {size(target.stat().st_size)}")
    names = found["removed_variables"]
    click.echo(f"removed {len(names)} variables, {found['values_searched']} values searched for "
               f"in {found['bytes_searched']:,} bytes: none found")  # fmt: skip
    if found["kept_because_in_kernel_names"]:
        kept = ", ".join(found["kept_because_in_kernel_names"])
        click.echo(f"values kept because the trace's own names contain them: {kept}")


def _plain(trace: Path, scratch: Path) -> Path:
    """A plain SQLite export of what was given."""
    if trace.suffix == ".nsys-rep":
        target = scratch / "export.sqlite"
        nsight.export(nsight.find(), trace, target, 3600)
        return target
    if trace.suffix == ".xz":
        target = scratch / "export.sqlite"
        try:
            with lzma.open(trace) as packed, target.open("wb") as file:
                shutil.copyfileobj(packed, file)
        except (lzma.LZMAError, EOFError) as exc:
            raise UnusableInput(f"{trace}: not xz: {exc}", "pack it again") from exc
        return target
    return trace
