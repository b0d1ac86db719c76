"""The ladder's figure: document in, figure out."""

from __future__ import annotations

from lanescope.dashboards.figures import look
from lanescope.dashboards.figures.plain import Figure
from lanescope.dashboards.names import for_plot
from lanescope.schemas.documents.ladder import LadderDocument, RungView

_KINDS = {
    "incumbent": ("became the incumbent", look.BUSY, "circle"),
    "kept": ("kept", look.WALL, "circle"),
    "other": ("reverted, closed or blocked", look.MUTED, "circle-open"),
    "retracted": ("retracted", look.ALERT, "x"),
}


def _kind(rung: RungView) -> str:
    if rung.retracted:
        return "retracted"
    if rung.incumbent:
        return "incumbent"
    return "kept" if rung.status == "kept" else "other"


def rungs(doc: LadderDocument) -> Figure | None:
    """The primary metric of every rung that measured it, with its repetitions' span."""
    name = doc.primary
    found = [(r, r.metrics[name]) for r in doc.rungs if name in r.metrics] if name else []
    if not found or name is None:
        return None
    unit = next((m.unit for _, m in found if m.unit), "")
    title = for_plot(f"{name}, {unit}" if unit else name)
    figure = look.figure(
        360,
        xaxis={"title": {"text": "rung"}, "zeroline": False, "showgrid": False,
               "tickvals": [r.number for r, _ in found],
               "ticktext": [str(r.number) for r, _ in found]},
        yaxis={"title": {"text": title}, "zeroline": False},
    )  # fmt: skip
    reigns = [(r, m) for r, m in found if r.incumbent and not r.retracted]
    figure.add_scatter(
        x=[r.number for r, _ in reigns],
        y=[m.median for _, m in reigns],
        mode="lines",
        line={"shape": "hv", "width": 1.4, "color": look.BUSY, "dash": "dot"},
        name="the incumbent's median",
        hoverinfo="skip",
    )
    for kind, (told, colour, symbol) in _KINDS.items():
        mine = [(r, m) for r, m in found if _kind(r) == kind]
        if not mine:
            continue
        figure.add_scatter(
            x=[r.number for r, _ in mine],
            y=[m.median for _, m in mine],
            mode="markers",
            name=told,
            marker={
                "size": 11,
                "color": colour,
                "symbol": symbol,
                "line": {"width": 2, "color": colour},
            },
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [0 if m.max is None else m.max - m.median for _, m in mine],
                "arrayminus": [0 if m.min is None else m.median - m.min for _, m in mine],
                "thickness": 1.4,
                "width": 3,
                "color": look.MUTED,
            },
            text=[for_plot(f"{r.name}: {r.change}") for r, _ in mine],
            hovertemplate="%{text}<br>%{y:.6~g}<extra></extra>",
        )
    return figure
