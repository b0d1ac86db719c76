"""Several lanes side by side: result in, figure out."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from lanescope.dashboards.figures import look
from lanescope.dashboards.names import for_plot
from lanescope.schemas.documents.attribution import AttributionDocument


def lanes_bar(lanes: Sequence[tuple[str, AttributionDocument]]) -> go.Figure:
    """The mean step of each lane: exclusive time by bucket and idle, adding up to its wall."""
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
            "ticktext": [for_plot(lane) for lane, _ in lanes],
        },
        legend={"traceorder": "normal"},
    )
    for name in [*names, "idle"]:
        values = []
        for _, doc in lanes:
            steps = doc.steps
            idle = steps.idle_ns.mean / 1e6 if steps and steps.idle_ns else 0.0
            told = {b.bucket: b.exclusive_ms_per_step for b in doc.buckets} | {"idle": idle}
            values.append(round(told.get(name) or 0.0, 6))
        figure.add_bar(
            x=values,
            y=list(range(len(lanes))),
            name=for_plot(name),
            orientation="h",
            marker={"color": shade[name], "line": {"width": 0}},
            hovertemplate="%{fullData.name}: %{x:.3f} ms<extra></extra>",
        )
    return figure
