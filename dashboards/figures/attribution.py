"""Figures of an attribution: result in, figure out. Nothing is computed here but positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from lanescope.schemas.documents.attribution import AttributionDocument

if TYPE_CHECKING:
    import pandas as pd

_IDLE = "#b8bcc4"
PALETTE = (
    "#2f6db5",
    "#d9822b",
    "#3a9d5d",
    "#b5473c",
    "#7d5bb0",
    "#8a6d3b",
    "#c65d9a",
    "#5f6b7a",
    "#a3a32e",
    "#2ba3a8",
    "#444f8f",
    "#b07d62",
)


def colours(doc: AttributionDocument) -> dict[str, str]:
    """A colour a bucket, the same in every figure of a page."""
    names = [b.bucket for b in doc.buckets]
    return {n: PALETTE[i % len(PALETTE)] for i, n in enumerate(names)} | {"idle": _IDLE}


def step_bar(doc: AttributionDocument) -> go.Figure:
    """One stacked bar: exclusive time of every bucket, and idle, adding up to the wall."""
    assert doc.steps is not None
    shade = colours(doc)
    parts = [(b.bucket, b.exclusive_ms_per_step) for b in doc.buckets]
    parts.append(("idle", doc.steps.idle_ns.mean / 1e6))
    figure = go.Figure(
        [
            go.Bar(
                x=[ms],
                y=["step"],
                name=name,
                orientation="h",
                marker_color=shade[name],
                hovertemplate=f"{name}: %{{x:.3f}} ms<extra></extra>",
            )
            for name, ms in parts
        ]
    )
    figure.update_layout(
        barmode="stack",
        height=210,
        margin={"l": 10, "r": 10, "t": 10, "b": 40},
        xaxis_title="ms per step",
        yaxis={"visible": False},
        legend={"orientation": "h", "y": 1.4},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    return figure


def steps_over_time(steps: pd.DataFrame) -> go.Figure:
    """Wall and busy time of each step, in order."""
    figure = go.Figure()
    for column, name in (("wall_ns", "wall"), ("gpu_busy_ns", "GPU busy")):
        figure.add_scatter(
            x=list(range(len(steps))), y=(steps[column] / 1e6).tolist(), mode="lines", name=name
        )
    figure.update_layout(
        height=300,
        margin={"l": 50, "r": 10, "t": 10, "b": 40},
        xaxis_title="step",
        yaxis={"title": "ms", "rangemode": "tozero"},
        legend={"orientation": "h", "y": 1.1},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    return figure
