"""Figures of a comparison: result in, figure out."""

from __future__ import annotations

from lanescope.dashboards.figures import look
from lanescope.dashboards.figures.plain import Figure
from lanescope.dashboards.names import for_plot
from lanescope.schemas.documents.comparison import LaneSide, PairDocument, Trend, Waterfall

MORE, LESS = "#ce4f4f", "#3f9f5f"


def waterfall(found: Waterfall, incumbent: str, candidate: str) -> Figure:
    """From one lane's step to the other's: a bar a bucket that changed, closing exactly."""
    bars = [b for b in found.bars if b.delta_ns]
    names = [for_plot(incumbent), *(for_plot(b.bucket) for b in bars), for_plot(candidate)]
    values = [found.from_ns, *(b.delta_ns for b in bars), found.to_ns]
    figure = look.figure(
        380,
        showlegend=False,
        yaxis={"title": {"text": "ms per step"}, "zeroline": False},
        xaxis={"showgrid": False, "zeroline": False},
        uniformtext={"mode": "hide", "minsize": 9},
        margin={"l": 56, "r": 16, "t": 24, "b": 70},
    )
    figure.add_waterfall(
        # a name may stand twice: places are numbers, names their labels
        x=list(range(len(names))),
        y=[round(v / 1e6, 6) for v in values],
        measure=["absolute", *["relative"] * len(bars), "total"],
        text=[_change(v) if 0 < i < len(values) - 1 else f"{v / 1e6:.3f}"
              for i, v in enumerate(values)],
        textposition="outside",
        increasing={"marker": {"color": MORE}},
        decreasing={"marker": {"color": LESS}},
        totals={"marker": {"color": look.WALL}},
        connector={"line": {"width": 1, "color": look.MUTED}},
        hovertemplate="%{text} ms<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(tickvals=list(range(len(names))), ticktext=names, type="linear")
    return figure


def _change(ns: int) -> str:
    """A change in ms with enough decimals to be seen."""
    return f"{ns / 1e6:+.{3 if abs(ns) >= 1_000 else 6}f}"


def deltas(pair: PairDocument) -> Figure:
    """Every figure's difference with its interval; filled where the sign is certain."""
    rows = pair.deltas
    colours = [
        look.MUTED if d.certainty != "certain" else MORE if d.delta_ms > 0 else LESS for d in rows
    ]
    figure = look.figure(
        90 + 26 * len(rows),
        showlegend=False,
        margin={"l": 150, "r": 16, "t": 8, "b": 44},
        xaxis={"title": {"text": "ms per step, candidate less incumbent"}, "zeroline": True},
        yaxis={
            "autorange": "reversed",
            "tickvals": list(range(len(rows))),
            "ticktext": [for_plot(d.metric) for d in rows],
            "showgrid": False,
            "zeroline": False,
        },
    )
    figure.add_scatter(
        x=[round(d.delta_ms, 6) for d in rows],
        y=list(range(len(rows))),
        mode="markers",
        marker={"size": 10, "color": colours},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [round(d.high_ms - d.delta_ms, 6) for d in rows],
            "arrayminus": [round(d.delta_ms - d.low_ms, 6) for d in rows],
            "thickness": 1.6,
            "width": 4,
            "color": look.MUTED,
        },
        text=[f"{for_plot(d.metric)}: {d.certainty}" for d in rows],
        hovertemplate="%{text}<br>%{x:+.3f} ms<extra></extra>",
    )
    return figure


def distributions(lanes: list[LaneSide]) -> Figure:
    """How the steps of each lane spread: the share of them that took at most so long."""
    figure = look.figure(
        320,
        xaxis={"title": {"text": "wall of a step, ms"}, "zeroline": False},
        yaxis={"title": {"text": "share of the steps, %"}, "range": [0, 102]},
    )
    for number, lane in enumerate(lanes):
        last = len(lane.wall_quantiles_ms) - 1
        figure.add_scatter(
            x=[round(v, 6) for v in lane.wall_quantiles_ms],
            y=[round(100 * i / last, 3) for i in range(last + 1)],
            mode="lines",
            name=for_plot(lane.name),
            line={"width": 2, "color": look.PALETTE[number % len(look.PALETTE)]},
            hovertemplate="%{y:.0f} % take at most %{x:.3f} ms<extra>%{fullData.name}</extra>",
        )
    return figure


def trend(found: Trend) -> Figure:
    """The lanes over their axis."""
    points = sorted(found.points, key=lambda p: p.x)
    figure = look.figure(
        320,
        xaxis={"title": {"text": for_plot(found.axis)}},
        yaxis={"title": {"text": "ms per step"}, "rangemode": "tozero"},
        showlegend=False,
    )
    figure.add_scatter(
        x=[p.x for p in points],
        y=[p.wall_ms for p in points],
        mode="lines+markers+text",
        marker={"size": 9, "color": look.WALL},
        line={"width": 1.5, "color": look.WALL},
        text=[for_plot(p.lane) for p in points],
        textposition="top center",
        hovertemplate="%{text}<br>%{x}: %{y:.3f} ms<extra></extra>",
    )
    return figure
