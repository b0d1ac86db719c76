"""`window.html`: how a window went, whether the incumbent is back, what the probes measured."""

from __future__ import annotations

from lanescope.dashboards import window_tables as tables
from lanescope.dashboards.figures import window as figures
from lanescope.dashboards.pages.blocks import Block, Notice, Tile, page
from lanescope.dashboards.pages.rendering import plot
from lanescope.schemas.documents.windowrecord import ProbeRecord, Span, WindowRecord

PAGE = "window.html"


def window_page(record: WindowRecord) -> str:
    """The page as text: the same bytes for the same folder."""
    blocks = [
        Block(
            "states",
            "States",
            "From the first state to the last; below, how long the failsafe was armed and how long "
            "the incumbent was not serving.",
            [plot(figures.states(record), "states-over-time", "The window's states over time")]
            if record.spans
            else [],
            [tables.states(record)],
        ),
        _probes(record.probes),
        Block("clients", "Other clients", tables=[tables.marks(record.probes)]),
        _gpu(record),
        Block("files", "Files", tables=[tables.unreadable(record), tables.files(record)]),
    ]
    lead = f"{record.meaning[:1].upper()}{record.meaning[1:]}." if record.meaning else ""
    return page(
        f"Window {record.window}: {record.outcome or 'not closed'}",
        lead or "No manifest: the window is running, or its runner was killed.",
        blocks,
        _notices(record),
        tiles=_tiles(record),
        card=[("Run", record.run), *record.facts.items()],
    )


def _span(record: WindowRecord, name: str) -> Span | None:
    return next((s for s in record.spans if s.name == name), None)


def _seconds(span: Span | None) -> str:
    if span is None or span.to_ns is None:
        return "-"
    return f"{(span.to_ns - span.from_ns) / 1e9:,.1f}"


def _tiles(record: WindowRecord) -> list[Tile]:
    out = []
    away = _span(record, "incumbent away")
    if away is not None:
        note = "" if away.to_ns is not None else "no receipt says that it came back"
        out.append(Tile("Incumbent away", _seconds(away), "s", note))
    ended = [s.to_ns for s in record.spans if s.to_ns is not None]
    if ended and record.from_ns is not None:
        whole = (max(ended) - record.from_ns) / 1e9
        out.append(Tile("Whole window", f"{whole:,.1f}", "s", f"{len(record.receipts)} receipts"))
    slow = record.slowdown
    if slow is not None and slow.percent is not None:
        note = "" if slow.low is None else f"{slow.low:+.1f} to {slow.high:+.1f} at 95 %"
        out.append(Tile("Profiler slowdown", f"{slow.percent:+.1f}", "%", note))
    for probe in record.probes:
        first = probe.by_concurrency[0] if probe.by_concurrency else {}
        rate = first.get("decode_tokens_per_s")
        if rate is not None:
            verdict = probe.contamination.verdict if probe.contamination else "not marked"
            told = f"{probe.phase.capitalize()} probe"
            out.append(Tile(told, f"{rate:,.1f}", "tokens/s", f"other clients: {verdict}"))
    return out


def _notices(record: WindowRecord) -> list[Notice]:
    out: list[Notice] = []
    for span in record.spans:
        if not span.ok and span.part != "whole":
            out.append((f"{span.name} failed", span.note))
    away = _span(record, "incumbent away")
    if away is not None and away.to_ns is None:
        out.append(
            (
                "No receipt says that the incumbent serves again",
                "see lanescope capture status; lanescope capture restore brings it back",
            )
        )
    if record.facts.get("Fired") == "yes":
        out.append(("The failsafe fired", "the runner had not finished in time"))
    for probe in record.probes:
        marks = probe.contamination
        if marks is not None and marks.verdict != "clean":
            told = "; ".join([*marks.reasons, *marks.unknown])
            out.append((f"{probe.phase} probe: {marks.verdict}", told))
    if record.unreadable:
        out.append((f"{len(record.unreadable)} file(s) cannot be read", "they are listed below"))
    return out


def _probes(probes: list[ProbeRecord]) -> Block:
    plots = []
    if any(r.ttft_ns is not None and r.decode_tokens_per_s for p in probes for r in p.requests):
        told = "Time to first token over decode rate of every request"
        plots.append(plot(figures.requests(probes), "probe-requests", told))
    if any(p.gaps for p in probes):
        plots.append(plot(figures.gaps(probes), "probe-gaps", "Gaps between the chunks"))
    words = "The profiled probe asks the same as the control probe, with the profiler collecting."
    found = [tables.probes(probes), tables.requests(probes)]
    return Block("probes", "Probes", words if probes else "", plots, found)


def _gpu(record: WindowRecord) -> Block:
    drawn = figures.gpu(record)
    plots = [plot(drawn, "gpu-over-time", "Clock, power and link of the GPU")] if drawn else []
    words = "NVML, sampled during the two probes (shaded)." if plots else ""
    return Block("gpu", "GPU", words, plots, [tables.gpu(record)])
