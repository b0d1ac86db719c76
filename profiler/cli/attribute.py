"""`lanescope attribute`: where does a decode step's time go?"""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from lanescope.profiler.cli.progress import progress
from lanescope.schemas.errors import ExitCode

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
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder to write.  [default: ./NAME.lanescope]"
)
@click.option("--force", is_flag=True, help="Replace the folder if lanescope wrote it.")
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
    trace: Path,
    out: Path | None,
    force: bool,
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
    """Attribute TRACE: phases, verification steps, cost buckets, to the nanosecond.

    TRACE is an Nsight Systems export (SQLite, plain or .xz, .zst, .gz; a folder of Parquet
    tables), an .nsys-rep, or a CSV of `nsys stats`. Writes attribution.json, steps.parquet,
    step_buckets.parquet, kernels.parquet, layer_steps.parquet (where rows are copied) and
    report.html, and prints the answer. A kernel summary (cuda_gpu_kern_sum) has no timeline: passes
    come from its counts, and only attribution.json and report.html are written.
    """
    from lanescope.attribution import output
    from lanescope.attribution.attribute import attribute
    from lanescope.attribution.summary.reading import Given
    from lanescope.dashboards import attribution_text, copies_text
    from lanescope.dashboards.pages import attribution_page
    from lanescope.dashboards.terminal import console, sentence

    given = Given(steps, layers, requests) if steps or layers or requests else None
    folder = out or output.default_folder(trace)
    if not as_json:
        output.check_target(folder, force)
    with (
        progress() as say,
        attribute(
            trace,
            profile=profile,
            window=window,
            use_cache=not no_cache,
            say=say,
            given=given,
            api=api,
        ) as result,
    ):
        document = result.document
        card = result.score(truth) if truth else None
        if as_json:
            click.echo(document.model_dump_json(indent=1, by_alias=True))
        else:
            say("writing")
            output.write(result, folder, lambda f: attribution_page.write(result, f, truth))
    if not as_json:
        con = console(plain=plain)
        attribution_text.show(document, con)
        if card:
            copies_text.scorecard([(trace.name, card)], con)
        sentence(con, f"Written to {folder}/: open {folder}/report.html")
    withheld = {a.what for a in document.abstained}
    return ExitCode.ABSTAINED if withheld & set(require) else ExitCode.DONE
