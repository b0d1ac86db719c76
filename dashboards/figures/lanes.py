"""Several lanes side by side: result in, figure out."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.dashboards.figures import look
from lanescope.dashboards.figures.plain import Figure
from lanescope.dashboards.names import for_plot
from lanescope.schemas.documents.attribution import AttributionDocument


def lanes_bar(lanes: Sequence[tuple[str, AttributionDocument]]) -> Figure:
    """The mean step of each lane: exclusive time by bucket and idle, adding up to its wall.

    A lane without exclusive times (a kernel summary) has no bar, and its label says so.
    """
    names = list(dict.fromkeys(b.bucket for _, doc in lanes for b in doc.buckets))
    shade = look.bucket_colours(names)
    figure = look.figure(
        110 + 44 * len(lanes),
        barmode="stack",
        margin={"l": 150, "r": 16, "t": 8, "b": 44},
        xaxis={"title": {"text": "ms per step"}},
        yaxis={
            "autorange": "reversed",
            "tickvals": list(range(len(lanes))),
            "ticktext": [
                for_plot(lane) + ("" if _told(doc) else " (withheld)") for lane, doc in lanes
            ],
        },
        legend={"traceorder": "normal"},
    )
    for name in [*names, "idle"]:
        values = [_told(doc).get(name) for _, doc in lanes]
        figure.add_bar(
            x=[None if v is None else round(v, 6) for v in values],
            y=list(range(len(lanes))),
            name=for_plot(name),
            orientation="h",
            marker={"color": shade[name], "line": {"width": 0}},
            hovertemplate="%{fullData.name}: %{x:.3f} ms<extra></extra>",
        )
    return figure


def _told(doc: AttributionDocument) -> dict[str, float]:
    """Parts of the mean step that are known, ms; empty where the whole is not."""
    steps = doc.steps
    if steps is None or steps.idle_ns is None:
        return {}
    found = {b.bucket: b.exclusive_ms_per_step for b in doc.buckets}
    if any(v is None for v in found.values()):
        return {}
    return {k: v for k, v in found.items() if v is not None} | {"idle": steps.idle_ns.mean / 1e6}
