"""Figures of ranks: result in, figure out."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.dashboards.figures import look
from lanescope.dashboards.figures.plain import Figure
from lanescope.schemas.documents.closeup import RankLag


def lags(found: Sequence[RankLag]) -> Figure:
    """How far every rank is behind the first of each step: its start, and its end (dotted)."""
    figure = look.figure(
        300,
        xaxis={"title": {"text": "step"}, "zeroline": False},
        yaxis={
            "title": {"text": "ms behind the first rank"},
            "rangemode": "tozero",
            "zeroline": False,
            "automargin": True,
        },
        hovermode="closest",
    )
    for i, rank in enumerate(found):
        colour = look.PALETTE[i % len(look.PALETTE)]
        name = f"p{rank.process} gpu{rank.device}"
        for values, what, dash in ((rank.start_ns, "start", "solid"), (rank.end_ns, "end", "dot")):
            figure.add_scatter(
                x=rank.step,
                y=[round(v / 1e6, 6) for v in values],
                mode="lines",
                line={"width": 1.5, "dash": dash, "color": colour},
                name=f"{name}, {what}",
                hovertemplate=f"step %{{x}}<br>{what} %{{y:.6f}} ms behind<extra>{name}</extra>",
            )
    return figure
