"""`lanescope attribute`: where does a decode step's time go?"""

from __future__ import annotations

import contextlib
import gc
import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from lanescope.attribution.digest import Ahead
from lanescope.profiler.cli.ending import ending
from lanescope.profiler.cli.progress import progress
from lanescope.schemas.errors import ExitCode

if TYPE_CHECKING:
    from lanescope.attribution.closeup import Drawing
    from lanescope.attribution.ingest import Staged
    from lanescope.attribution.summary.reading import Given
    from lanescope.schemas.documents.attribution import AttributionDocument
    from lanescope.schemas.documents.misses import ScoreRow

Say = Callable[[str], None]

#: Modules that an answer needs and reading does not.
_NEEDED = (
    "lanescope.attribution.output",
    "lanescope.attribution.copies.results",
    "lanescope.dashboards.pages.attribution_page",
    "lanescope.dashboards.attribution_text",
)

#: What --require may name: a value that may be withheld.
REQUIRABLE = (
    "steps", "buckets", "layers", "prefill", "launches", "ranges", "period",
    "misses", "exact_counts", "hit_rate", "link", "model",
)  # fmt: skip


def _required(_ctx: click.Context, _param: click.Parameter, value: str) -> list[str]:
    names = [n.strip() for n in value.split(",") if n.strip()]
    unknown = [n for n in names if n not in REQUIRABLE]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(REQUIRABLE)}")
    return names


@click.command("attribute")
@click.pass_context
@click.argument(
    "traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder to write.  [default: ./NAME.lanescope; of many traces ./lanescope-dataset]",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace the folder if lanescope wrote it; in a dataset, ask anew.",
)
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Many traces: processes.  [default: 1]"
)
@click.option("--dask", metavar="ADDRESS", help="Many traces: work on this Dask cluster.")
@click.option(
    "--profile", metavar="NAME|FILE", help="Rules to use; by default the kernel names decide."
)
@click.option(
    "--window",
    default="",
    metavar="A..B",
    help="Steps to measure: range names (request_0..request_3), times after the first kernel "
    "(1.2s..3.4s) or on the trace's clock (clock:5ms..9ms), or step indices "
    "(10..59).  [default: all but warm-up]",
)
@click.option(
    "--require",
    default="",
    callback=_required,
    metavar="LIST",
    help="Exit with 1 if one of these had to be withheld: " + ", ".join(REQUIRABLE) + ".",
)
@click.option(
    "--truth",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Score the misses against exact counts (JSON: misses[step][layer]).",
)
@click.option("--steps", type=click.IntRange(1), help="Kernel summary: decode steps to divide by.")
@click.option("--layers", type=click.IntRange(1), help="Kernel summary: cached layers.")
@click.option("--requests", type=click.IntRange(1), help="Kernel summary: prefill passes.")
@click.option(
    "--api",
    type=click.Path(path_type=Path),
    help="Kernel summary: a CSV of cuda_api_sum of the same capture.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the document alone, write nothing.")
@click.option("--no-cache", is_flag=True, help="Stage the trace for this call alone.")
@click.option("--plain", is_flag=True, help="No colour, no frames.")
def command(
    ctx: click.Context,
    traces: tuple[Path, ...],
    out: Path | None,
    force: bool,
    jobs: int | None,
    dask: str | None,
    profile: str | None,
    window: str,
    require: list[str],
    truth: Path | None,
    steps: int | None,
    layers: int | None,
    requests: int | None,
    api: Path | None,
    as_json: bool,
    no_cache: bool,
    plain: bool,
) -> int:
    """Attribute a trace: phases, verification steps, cost buckets, to the nanosecond.

    TRACE is an Nsight Systems export (SQLite, plain or .xz, .zst, .gz; a folder of Parquet
    tables), an .nsys-rep, or a CSV of `nsys stats`. Writes attribution.json, steps.parquet,
    step_buckets.parquet, kernels.parquet, layer_steps.parquet (where rows are copied) and
    report.html, and prints the answer. A kernel summary (cuda_gpu_kern_sum) has no timeline: passes
    come from its counts, and only attribution.json and report.html are written.

    Several traces, a folder of them, --jobs or --dask: the results land in one dataset, a folder a
    trace, that `lanescope query` reads whole. What is there already is not worked out again.
    """
    from lanescope.profiler.cli import many

    found = many.expand(traces)
    if len(traces) > 1 or jobs or dask or found != list(traces):
        single = {
            "--truth": truth, "--steps": steps, "--layers": layers, "--requests": requests,
            "--api": api,
        }  # fmt: skip
        many.refuse([name for name, value in single.items() if value is not None])
        plan = many.Plan(found, profile, window, not no_cache, force, jobs or 1, dask, require)
        return many.run(plan, out, as_json, plain)
    trace = traces[0]
    gc.disable()  # much is made here, and little of it in cycles
    ctx.call_on_close(_collect_again)
    digest = Ahead(trace)
    from lanescope.attribution.folders import check_target, default_folder

    given = _given(steps, layers, requests)
    folder = out or default_folder(trace)
    if not as_json:
        check_target(folder, force)
    asked = Asked(trace, profile, window, given, api, not no_cache, digest)
    with ending(), progress() as say:
        document, card = _answer(asked, None if as_json else folder, truth, say)
    if as_json:
        click.echo(document.model_dump_json(indent=1, by_alias=True))
    else:
        from lanescope.dashboards import attribution_text, copies_text
        from lanescope.dashboards.terminal import console, sentence

        con = console(plain=plain)
        attribution_text.show(document, con)
        if card:
            copies_text.scorecard([(trace.name, card)], con)
        sentence(con, f"Written to {folder}/: open {folder}/report.html")
    withheld = {a.what for a in document.abstained}
    return ExitCode.ABSTAINED if withheld & set(require) else ExitCode.DONE


def _collect_again() -> None:
    """Enable the collection of cycles, for what is made from now on."""
    gc.freeze()  # and unfreeze: what is there counts as old, and is not looked through at once
    gc.unfreeze()
    gc.enable()


def _given(steps: int | None, layers: int | None, requests: int | None) -> Given | None:
    if not (steps or layers or requests):
        return None
    from lanescope.attribution.summary.reading import Given

    return Given(steps, layers, requests)


@dataclass(frozen=True)
class Asked:
    """What the options say of the question, see `attribution.attribute.attribute`."""

    trace: Path
    profile: str | None
    window: str
    given: Given | None
    api: Path | None
    use_cache: bool
    digest: Ahead


def _answer(
    asked: Asked, folder: Path | None, truth: Path | None, say: Say
) -> tuple[AttributionDocument, ScoreRow | None]:
    """Answer, from the kept answer where the same was asked before; write `folder` if named."""
    from lanescope.attribution.ingest import open_trace
    from lanescope.attribution.ingest.stats_csv import is_summary
    from lanescope.profiler.cli import answers

    if asked.given is not None or asked.api is not None or is_summary(asked.trace):
        return _work_out(asked, asked.trace, folder, truth, say)
    if not asked.digest.done:
        _import_beside()
    opened = open_trace(asked.trace, asked.use_cache, say, asked.digest, begins=_import_beside)
    with opened as staged:
        if staged.temporary or truth is not None:
            return _work_out(asked, staged, folder, truth, say)
        key = answers.asked(asked.trace, asked.profile, asked.window)
        kept = answers.find(staged, key)
        if kept is not None and (document := _repeat(kept, folder)) is not None:
            return document, None
        document, _ = _work_out(asked, staged, folder, None, say)
        if folder is not None:
            answers.keep(staged, key, folder)
        return document, None


@cache
def _import_beside() -> None:
    """Import what answering needs while the trace is read: that leaves the processor time."""

    def imports() -> None:
        for name in _NEEDED:
            importlib.import_module(name)

    threading.Thread(target=imports, daemon=True).start()


def _repeat(kept: Path, folder: Path | None) -> AttributionDocument | None:
    """The kept answer, written to `folder` if named; None when it is gone or damaged."""
    from lanescope.attribution.beside import beside
    from lanescope.attribution.folders import DOCUMENT
    from lanescope.profiler.cli import answers
    from lanescope.schemas.documents.attribution import AttributionDocument

    try:
        document = AttributionDocument.model_validate_json((kept / DOCUMENT).read_bytes())
    except (FileNotFoundError, ValueError):  # another process put its own in place, or damage
        return None
    if folder is not None:
        with beside(folder, folder=True) as work:
            answers.take(kept, work)
    return document


def _work_out(
    asked: Asked, source: Path | Staged, folder: Path | None, truth: Path | None, say: Say
) -> tuple[AttributionDocument, ScoreRow | None]:
    from lanescope.attribution.attribute import attribute
    from lanescope.attribution.output import writing
    from lanescope.dashboards.pages import attribution_page

    with contextlib.ExitStack() as stack:
        out = None if folder is None else stack.enter_context(writing(folder))
        drawn: list[Drawing] = []
        result = stack.enter_context(
            attribute(
                source,
                profile=asked.profile,
                window=asked.window,
                use_cache=asked.use_cache,
                say=say,
                given=asked.given,
                api=asked.api,
                ahead=out.begin if out else None,
                meanwhile=(lambda a: drawn.append(attribution_page.draw(a))) if out else None,
            )
        )
        card = result.score(truth) if truth else None
        if out is not None:
            say("writing")
            out.finish(result, lambda f: attribution_page.write(result, f, truth, *drawn))
        return result.document, card
