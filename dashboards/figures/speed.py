"""Figures of a paired speed comparison: document in, figure out."""

from __future__ import annotations

from lanescope.dashboards.figures import look
from lanescope.dashboards.figures.comparison import LESS, MORE
from lanescope.dashboards.figures.plain import Figure
from lanescope.dashboards.names import for_plot
from lanescope.schemas.documents.speed import PairedMetric


def gains(metric: PairedMetric) -> Figure:
    """By how much each prompt changed, green where for the better; the mean with its interval."""
    rows = sorted(metric.prompts, key=lambda p: p.gain_pct)
    figure = look.figure(
        340,
        showlegend=False,
        bargap=0.15 if len(rows) > 10 else 0.6,
        xaxis={"title": {"text": "prompts, from the smallest change"}, "showticklabels": False,
               "showgrid": False, "zeroline": False},
        yaxis={"title": {"text": f"change in {for_plot(metric.metric)}, %"}, "zeroline": True},
    )  # fmt: skip
    figure.add_hrect(
        metric.low_pct, metric.high_pct, fillcolor=look.WALL, opacity=0.18, line={"width": 0}
    )
    figure.add_hline(metric.mean_gain_pct, line={"width": 1.4, "color": look.WALL})
    figure.add_bar(
        x=list(range(len(rows))),
        y=[round(p.gain_pct, 6) for p in rows],
        marker={
            "color": [
                LESS if (p.gain_pct > 0) == (metric.better == "higher") else MORE for p in rows
            ],
            "line": {"width": 0},
        },
        text=[for_plot(p.prompt) for p in rows],
        textposition="none",
        hovertemplate="%{text}: %{y:+.2f} %<extra></extra>",
    )
    return figure


def distributions(metric: PairedMetric) -> Figure:
    """How either lane's prompts spread: the share of them that lie at or below a value."""
    figure = look.figure(
        300,
        xaxis={"title": {"text": for_plot(f"{metric.metric}, {metric.unit}")}, "zeroline": False},
        yaxis={"title": {"text": "share of the prompts, %"}, "range": [0, 102]},
    )
    for side, colour in (("base", look.MUTED), ("candidate", look.WALL)):
        values = sorted(getattr(p, side) for p in metric.prompts)
        figure.add_scatter(
            x=[round(v, 6) for v in (*values[:1], *values)],
            y=[round(100 * i / len(values), 3) for i in range(len(values) + 1)],
            mode="lines+markers",
            name=side,
            line={"shape": "hv", "width": 1.8, "color": colour},
            marker={"size": 5},
            hovertemplate="%{y:.0f} % at or below %{x:.4~g}<extra>%{fullData.name}</extra>",
        )
    return figure
