"""`report.html` of an attribution: one file, offline, in the order in which a reader asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanescope.attribution.folders import truth_beside
from lanescope.dashboards import attribution_tables
from lanescope.dashboards.attribution_text import launch_words
from lanescope.dashboards.figures import attribution as figures
from lanescope.dashboards.figures.look import bucket_colours
from lanescope.dashboards.pages import copies_page, ranks_page
from lanescope.dashboards.pages.rendering import plot, render
from lanescope.dashboards.pages.summary_page import summary_page
from lanescope.dashboards.tables import Col, Table
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.documents.closeup import Closeup, OddStep, StepCloseup
from lanescope.schemas.documents.misses import ScoreRow
from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.units import significant

if TYPE_CHECKING:
    from lanescope.attribution.attribute import Analysis, Attribution
    from lanescope.attribution.closeup import Drawing

REPORT = "report.html"
#: Rows of a table that a page holds; the exports hold all.
MOST_ROWS = 500

_SECTIONS = (
    ("step", "Step"),
    ("steps", "Over time"),
    ("ranks", "Ranks"),
    ("timeline", "Timeline"),
    ("copies", "Row copies"),
    ("phases", "Phases"),
    ("launches", "Launches"),
    ("kernels", "Kernels"),
    ("coverage", "Coverage"),
    ("provenance", "Provenance"),
)
_BOUND = {
    "gpu-bound": "bound by the GPU",
    "launch-bound": "bound by launches",
    "host-bound": "bound by the host",
    "idle": "mostly idle",
}
#: Warnings that say how something was done rather than that it may be wrong.
_MILD = ("warm-up", "short-names", "phases-inferred")
_PICKS = {"median": "Median step", "p95": "95th percentile", "slowest": "Slowest"}


def draw(analysis: Analysis) -> Drawing:
    """Read what the page shows and the row copies do not change, for `write`."""
    from lanescope.attribution.closeup import Drawing

    return Drawing(analysis)


def write(
    result: Attribution,
    folder: Path,
    truth: Path | None = None,
    drawing: Drawing | None = None,
) -> None:
    """Write the page into `folder`.

    truth: a sidecar of exact counts; by default NAME.truth.json beside the trace, where it fits.
    drawing: what `draw` gave, where it was called while the row copies were worked out.
    """
    if result.document.summary is not None:
        (folder / REPORT).write_text(summary_page(result.document), encoding="utf-8")
        return
    close = (drawing or draw(result.analysis)).closeup(result.layer_steps)
    page = attribution_page(result.document, close, _scorecard(result, truth))
    (folder / REPORT).write_text(page, encoding="utf-8")


def _scorecard(result: Attribution, truth: Path | None) -> ScoreRow | None:
    sidecar = truth or truth_beside(Path(result.document.trace.path))
    if sidecar is None:
        return None
    try:
        return result.score(sidecar)
    except UnusableInput:  # another trace's sidecar, or a trace without row copies
        if truth is not None:
            raise
        return None


def attribution_page(doc: AttributionDocument, close: Closeup, card: ScoreRow | None = None) -> str:
    """The page as text: the same bytes for the same values. card: misses against exact counts."""
    tables = {t.id: t.first(MOST_ROWS) for t in attribution_tables.tables(doc)}
    plots: dict[str, Any] = {"step_bars": None, "steps": None}
    if doc.steps:
        plots["step_bars"] = plot(
            figures.step_bars(doc, close), "step-bars", "Exclusive time of a step by bucket"
        )
    if close.series:
        plots["steps"] = plot(
            figures.steps_over_time(close), "steps-over-time", "Wall and busy time of each step"
        )
    closeups = [_closeup(c) for c in close.closeups]
    copies = copies_page.blocks(doc, close, card)
    ranks = ranks_page.section(doc.ranks, close.lags, tables)
    present = {
        "step": "buckets" in tables,
        "steps": bool(close.series),
        "ranks": ranks is not None,
        "timeline": bool(closeups),
        "copies": bool(copies),
        "launches": "api_calls" in tables,
        "kernels": "kernels" in tables,
    }
    defaults = dict.fromkeys(
        ("buckets", "prefill", "prefill_kernels", "api_calls", "kernels", "ranges", "warnings",
         "abstained", "phases")
    )  # fmt: skip
    return render(
        "attribution.html",
        with_plots=any(plots.values()) or bool(close.lags),
        title=f"{_file_name(doc)} - lanescope",
        head=_head(doc),
        tiles=_tiles(doc),
        notices=doc.warnings,
        mild=_MILD,
        card=_card(doc),
        sections=[s for s in _SECTIONS if present.get(s[0], True)],
        tables=defaults | tables,
        plots=plots,
        steps_note=_steps_note(close),
        odd=[_odd(i, o) for i, o in enumerate(close.odd)],
        odd_note=_odd_note(close),
        ranks=ranks,
        closeups=closeups,
        copies=copies,
        copies_note=copies_page.note(doc),
        launches_words=launch_words(doc) if doc.launches else "",
        provenance=_provenance(doc),
    )


def _file_name(doc: AttributionDocument) -> str:
    return doc.trace.path.replace("\\", "/").rsplit("/", 1)[-1]


def _head(doc: AttributionDocument) -> dict[str, str]:
    if doc.steps is None or doc.steps.wall_ms is None:
        why = next((a.why for a in doc.abstained if a.what == "steps"), "")
        return {"figure": "No verification steps were found", "unit": "", "bound": "", "why": why}
    bound = _BOUND.get(doc.launches.verdict, "") if doc.launches else ""
    return {
        "figure": f"{significant(doc.steps.wall_ms.mean)} ms",
        "unit": "per verification step",
        "bound": bound,
        "why": doc.launches.verdict_evidence if doc.launches else "",
    }


def _tile(name: str, value: str, unit: str = "", note: str = "") -> dict[str, str]:
    return {"name": name, "value": value, "unit": unit, "note": note}


def _tiles(doc: AttributionDocument) -> list[dict[str, str]]:
    tiles = []
    steps = doc.steps
    if steps and steps.wall_ms and steps.idle_ns:
        wall = steps.wall_ms
        tiles.append(
            _tile("p50 / p95, ms", f"{significant(wall.p50, 3)} / {significant(wall.p95, 3)}")
        )
        if steps.period_ms:
            tiles.append(
                _tile(
                    "Step to step", significant(steps.period_ms.mean), "ms", "start to next start"
                )
            )
        top = doc.buckets[0] if doc.buckets else None
        if top:
            tiles.append(_tile("Largest bucket", f"{top.share_of_wall:.0%}", "of wall", top.bucket))
        if wall.mean:
            idle = steps.idle_ns.mean / 1e6
            tiles.append(_tile("Idle", f"{idle / wall.mean:.1%}", "of wall", f"{idle:.3f} ms"))
        warm = f", {steps.warmup:,} of warm-up" if steps.warmup else ""
        tiles.append(
            _tile("Steps measured", f"{steps.measured:,}", "", f"of {steps.count:,} found{warm}")
        )
    if doc.misses and doc.misses.hit_rate and doc.misses.hit_rate.estimate is not None:
        rate = doc.misses.hit_rate
        missed = doc.misses.per_layer_step.estimate
        tiles.append(
            _tile(
                "Hit rate",
                f"{rate.estimate:.1%}",
                "",
                f"{significant(missed, 3)} misses per layer-step" if missed is not None else "",
            )
        )
    cov = doc.coverage
    placed = 1 - (cov.unattributed_ns or 0) / cov.kernel_sum_ns if cov.kernel_sum_ns else None
    tiles.append(
        _tile(
            "Kernel time placed",
            f"{placed:.1%}" if placed is not None else "-",
            "",
            f"{cov.kernels:,} kernels, {cov.graph_kernels:,} from graphs",
        )
    )
    return tiles


def _card(doc: AttributionDocument) -> list[tuple[str, str]]:
    trace = doc.trace
    gpus = ", ".join(sorted({g.name for g in trace.gpus if g.name})) or "unknown"
    if len(trace.gpus) > 1:
        gpus = f"{len(trace.gpus)} x {gpus}"
    rows = [
        ("Trace", _file_name(doc)),
        ("GPU", gpus),
        ("Profile", doc.profile),
        ("Window", doc.steps.window if doc.steps else "none"),
        ("Found by", doc.steps.basis if doc.steps else "-"),
        (
            "Tracer",
            f"Nsight Systems {trace.nsys_version or 'of unknown version'}, "
            f"schema {trace.schema_version or 'unknown'}",
        ),
    ]
    if len(trace.processes) > 1:
        words = ", ".join(f"{p.process} ({p.name or '?'})" for p in trace.processes[:8])
        rows.append(("Processes", f"{len(trace.processes)}: {words}"))
    return rows


def _steps_note(close: Closeup) -> str:
    if not close.series:
        return ""
    bins = max(s.steps_per_bin for s in close.series)
    if bins > 1:
        return f"Each point is the mean of {bins} neighbouring steps; dotted: their longest."
    return "Each point is one step. The line below is the time in which a kernel was running."


def _odd_note(close: Closeup) -> str:
    more = (
        f", the {len(close.odd)} longest of them here" if close.odd_count > len(close.odd) else ""
    )
    return f"{close.odd_count:,} steps are odd: {close.odd_rule}{more}."


def _odd(number: int, odd: OddStep) -> dict[str, Any]:
    cols = (
        Col("bucket", "bucket"),
        Col("name", "kernel"),
        Col("sum_ns", "ms here", 3, scale=1e6),
        Col("usual_ns", "ms usually", 3, scale=1e6),
        Col("launches", "launches here", 0),
        Col("usual_launches", "usually", 1),
    )
    rows = [[getattr(n, c.key) for c in cols] for n in odd.names]
    shades = bucket_colours(n.bucket for n in odd.names)
    first = odd.changes[0]
    return {
        "summary": (
            f"Step {odd.step:,}: {odd.wall_ns / 1e6:.3f} ms, "
            f"{odd.above_median_ns / 1e6:.3f} ms above the median; "
            f"{first.bucket} {first.change_ns / 1e6:+.3f} ms"
        ),
        "plot": plot(
            figures.odd_bar(odd),
            f"odd-bar-{number}",
            f"Step {odd.step} against the median step, by bucket",
        ),
        "table": Table(
            f"odd_{number}",
            f"Kernels of step {odd.step}",
            cols,
            rows,
            "Kernels whose summed time differs most from their mean over the measured steps.",
            swatches=shades,
        ),
    }


def _closeup(close: StepCloseup) -> dict[str, Any]:
    step = close.step
    merged = sum(m > 1 for m in close.merged)
    words = (
        f"Step {step.step:,} on GPU {step.device} (process {step.process}): wall "
        f"{step.wall_ns / 1e6:.3f} ms, busy {step.busy_ns / 1e6:.3f} ms, {step.kernels:,} kernels."
    )
    if merged:
        words += f" {merged:,} of the bars stand for several short kernels."
    if close.left_out:
        words += f" {close.left_out:,} of the shortest API calls and ranges are not drawn."
    return {
        "pick": close.pick,
        "label": f"{_PICKS[close.pick]}, {step.wall_ns / 1e6:.2f} ms",
        "words": words,
        "plot": plot(figures.timeline(close), f"timeline-{close.pick}", words),
    }


def _provenance(doc: AttributionDocument) -> list[tuple[str, str]]:
    return [
        ("File", doc.trace.path),
        ("SHA-256", doc.trace.sha256),
        ("Kind", doc.trace.kind),
        ("Rules", f"{doc.profile} {doc.profile_sha256}"),
        ("Document", doc.schema_),
        ("lanescope", doc.lanescope_version),
    ]
