"""Figures of the row copies: levels of duration, misses by layer and time."""

from __future__ import annotations

from lanescope.dashboards.figures import look
from lanescope.dashboards.figures.plain import Figure
from lanescope.dashboards.names import for_plot
from lanescope.schemas.documents.closeup import CopyHistogram, MissHeat
from lanescope.schemas.documents.misses import Misses


def levels(histogram: CopyHistogram, misses: Misses) -> Figure:
    """Durations of one tensor's copies, and where the fitted level of each count lies."""
    figure = look.figure(
        300,
        bargap=0,
        margin={"l": 56, "r": 16, "t": 28, "b": 44},
        xaxis={"title": {"text": f"duration of a {for_plot(histogram.tensor)} copy, us"}},
        yaxis={"title": {"text": "copies"}, "type": "log", "dtick": 1},
        showlegend=False,
    )
    width = histogram.width_us
    rows = [i for i, n in enumerate(histogram.count) if n]
    figure.add_bar(
        x=[round((i + 0.5) * width, 4) for i in rows],
        y=[histogram.count[i] for i in rows],
        width=[width] * len(rows),
        marker={"color": look.BUCKETS["row_copy"], "line": {"width": 0}},
        hovertemplate="%{x:.1f} us: %{y} copies<extra></extra>",
    )
    for level in misses.levels:
        at = level.us.get(histogram.tensor)
        if at is None or at > width * len(histogram.count):
            continue
        solid = level.basis == "seen"
        figure.add_vline(
            at, line={"width": 1.2, "dash": "solid" if solid else "dot", "color": look.MUTED}
        )
        figure.add_annotation(
            text=str(level.misses), x=at, xanchor="left", y=1.0, yref="paper", yanchor="bottom",
            showarrow=False, font={"size": 12},
        )  # fmt: skip
    return figure


def heat(found: MissHeat) -> Figure:
    """Missed rows by layer and step."""
    figure = look.figure(
        110 + 12 * min(60, max(8, len(found.layers))),
        xaxis={"title": {"text": "step"}, "showgrid": False},
        yaxis={"title": {"text": "layer"}, "showgrid": False, "autorange": "reversed"},
    )
    figure.add_heatmap(
        x=found.step,
        y=found.layers,
        z=found.mean,
        colorscale=[[0, "#f3f0ea"], [0.35, "#f2bd8c"], [0.7, "#e0702a"], [1, "#8a2f0b"]],
        colorbar={
            "title": {"text": "misses", "side": "right", "font": {"size": 12}},
            "thickness": 12,
            "outlinewidth": 0,
        },
        hovertemplate="step %{x}, layer %{y}: %{z:.2f}<extra></extra>",
    )
    return figure
