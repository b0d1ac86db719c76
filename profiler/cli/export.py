"""`lanescope export`: an attribution for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from lanescope.profiler.cli.ending import ending
from lanescope.profiler.cli.progress import progress
from lanescope.schemas.errors import UsageError

if TYPE_CHECKING:
    from lanescope.attribution.attribute import Attribution
    from lanescope.schemas.documents.windowrecord import GpuSeries

#: What is written, and the suffix of the default name.
_FORMS = {"perfetto": ".pftrace", "csv": ".csv", "parquet": ".parquet", "markdown": ".md"}
#: The forms that are a folder of one file a table.
_FOLDERS = ("csv", "parquet")


@click.command("export")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--to", "form", type=click.Choice(list(_FORMS)), required=True, help="What to write.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File to write, or folder for csv and parquet.  [default: ./NAME with a fitting suffix]",
)
@click.option("--force", is_flag=True, help="Replace what is there.")
@click.option("--profile", metavar="NAME|FILE", help="Rules to use, as in attribute.")
@click.option("--window", default="", metavar="A..B", help="Steps to measure, as in attribute.")
@click.option(
    "--window-dir",
    type=click.Path(path_type=Path),
    help="Folder of the captured window, for its NVML tracks.  [default: the trace's own]",
)
@click.option("--no-cache", is_flag=True, help="Stage the trace for this call alone.")
def command(
    trace: Path,
    form: str,
    out: Path | None,
    force: bool,
    profile: str | None,
    window: str,
    window_dir: Path | None,
    no_cache: bool,
) -> None:
    """Attribute TRACE and write the result for other tools.

    perfetto: a timeline for ui.perfetto.dev and its trace processor, with counters for misses, the
    host link and, of a captured window, the GPU's sensors. csv, parquet: a folder with one file a
    table, one of them a row a kernel. markdown: the tables as one document.
    """
    from lanescope.attribution.attribute import attribute
    from lanescope.attribution.beside import beside
    from lanescope.attribution.folders import default_folder

    target = out or Path(f"{default_folder(trace).name.removesuffix('.lanescope')}{_FORMS[form]}")
    _check(target, form, force)
    samples = _samples(trace, window_dir)
    with (
        ending(),
        progress() as say,
        attribute(trace, profile=profile, window=window, use_cache=not no_cache, say=say) as result,
        beside(target, folder=form in _FOLDERS) as work,
    ):
        say("writing")
        said = _write(result, work, form, samples)
    click.echo(f"{said} written to {target}")


def _check(target: Path, form: str, force: bool) -> None:
    if not target.exists():
        return
    if not force:
        raise UsageError(f"{target} exists", "choose another --out, or --force to replace it")
    if target.is_dir() != (form in _FOLDERS):
        raise UsageError(f"{target} is no {form} export", "choose another --out")
    strangers = (
        [f.name for f in target.iterdir() if f.suffix != _FORMS[form]] if target.is_dir() else []
    )
    if strangers:
        raise UsageError(
            f"{target} holds more than tables ({strangers[0]})", "choose another --out"
        )


def _samples(trace: Path, window_dir: Path | None) -> list[GpuSeries]:
    """NVML samples of the named window, or of the one in whose folder the trace lies."""
    from lanescope.attribution.window import read_window

    if window_dir is not None:
        return read_window(window_dir).gpu
    own = trace.resolve().parent
    return read_window(own).gpu if (own / "receipts").is_dir() else []


def _write(result: Attribution, work: Path, form: str, samples: list[GpuSeries]) -> str:
    from lanescope.dashboards import exports

    if form == "perfetto":
        return _perfetto(result, work, samples)
    if form == "markdown":
        with work.open("w", encoding="utf-8", newline="\n") as text:
            exports.write_markdown(result, text)
        return "tables"
    return f"{len(exports.write_folder(result, work, form))} tables"


def _perfetto(result: Attribution, work: Path, samples: list[GpuSeries]) -> str:
    from lanescope.attribution.counters import copy_counters, gpu_counters
    from lanescope.attribution.timeline import tracks
    from lanescope.dashboards import perfetto

    gpus = {g.gpu: g.name for g in result.document.trace.gpus}
    sensors, left_out = gpu_counters(result, samples)
    counters = [*copy_counters(result), *sensors]
    with work.open("wb") as stream:
        slices = perfetto.write(tracks(result.analysis), gpus, stream, counters)
    said = f"{slices:,} slices, {len(counters):,} counter(s)"
    if left_out:
        said += f" ({left_out:,} NVML samples lie before the trace, or are of other GPUs)"
    return said
