"""Figures of the cache replay: a document in, a figure out. Nothing is computed here."""

from __future__ import annotations

from lanescope.dashboards.figures import look
from lanescope.dashboards.figures.plain import Figure
from lanescope.schemas.documents.replay import Curves, Plan, Replay, Structure


def _figure(x: str, y: str) -> Figure:
    return look.figure(
        400, xaxis={"title": {"text": x}}, yaxis={"title": {"text": y}}, colorway=look.PALETTE
    )


def policies(result: Replay) -> Figure:
    """Misses per layer-step by policy."""
    figure = _figure("misses per layer-step", "")
    names = [p.policy for p in result.policies][::-1]
    values = [p.misses_per_layer_step for p in result.policies][::-1]
    figure.add_bar(x=values, y=names, orientation="h", text=[f"{v:.3f}" for v in values])
    figure.update_yaxes(automargin=True)
    return figure


def by_layer(result: Replay) -> Figure:
    """Misses per step of each layer, by policy."""
    figure = _figure("layer", "misses per step")
    for found in result.policies:
        shown = True if found.policy in ("lru", "static", "belady") else "legendonly"
        figure.add_scatter(
            x=list(result.trace.layers), y=list(found.per_layer), name=found.policy, visible=shown
        )
    figure.update_xaxes(dtick=1 + len(result.trace.layers) // 16)  # layers are whole
    return figure


def heat(result: Replay) -> Figure:
    """Misses of the first policy by layer and time."""
    figure = _figure("window of time (equal numbers of steps)", "layer")
    figure.add_heatmap(
        z=[list(row) for row in result.heat],
        y=list(result.trace.layers),
        colorscale="Viridis",
        colorbar={"title": {"text": "misses/step"}},
    )
    return figure


def hit_curves(result: Curves) -> Figure:
    """Hit rate over all layers by slots per layer."""
    figure = _figure("slots per layer", "hit rate")
    slots = list(result.slots)
    figure.add_scatter(x=slots, y=list(result.lru_hit_rate), name="lru")
    figure.add_scatter(x=slots, y=list(result.static_hit_rate), name="static")
    for name, rates in result.other_hit_rates.items():
        figure.add_scatter(x=list(result.points), y=list(rates), name=name, mode="lines+markers")
    return figure


def layer_curves(result: Curves) -> Figure:
    """LRU misses of every layer by slots: a heat map, because 75 lines hide one another."""
    figure = _figure("slots", "layer")
    figure.add_heatmap(
        z=[list(layer.lru) for layer in result.layers],
        x=list(result.slots),
        y=[layer.layer for layer in result.layers],
        colorscale="Viridis",
        colorbar={"title": {"text": "misses"}},
    )
    return figure


def divisions(result: Plan) -> Figure:
    """Slots of each layer, by division."""
    figure = _figure("layer", "slots")
    for division in result.divisions:
        figure.add_scatter(
            x=list(division.slots),
            y=list(division.slots.values()),
            name=division.name,
            line={"shape": "hvh"},
        )
    return figure


def contexts(result: Plan) -> Figure:
    """What a longer context costs: step time where a cost model was given, else misses."""
    rows = [row for row in result.contexts if row.ms_per_step is not None]
    if rows:
        figure = _figure("context (tokens)", "ms per step")
        spans = [row.ms_per_step for row in rows if row.ms_per_step is not None]
        figure.add_scatter(
            x=[row.context for row in rows],
            y=[span.estimate for span in spans],
            error_y={
                "array": [span.high - span.estimate for span in spans],
                "arrayminus": [span.estimate - span.low for span in spans],
            },
            text=[f"{row.slots} slots" for row in rows],
            mode="lines+markers",
        )
        return figure
    figure = _figure("context (tokens)", "misses per layer-step")
    figure.add_scatter(
        x=[row.context for row in result.contexts],
        y=[row.misses_per_layer_step for row in result.contexts],
        text=[f"{row.slots} slots" for row in result.contexts],
        mode="lines+markers",
    )
    return figure


def overlaps(result: Structure) -> Figure:
    """Overlap by layer, step to step and layer to layer, beside the even chance."""
    figure = _figure("layer", "share of a step's experts")
    layers = [layer.layer for layer in result.layers]
    figure.add_scatter(x=layers, y=[n.step_to_step for n in result.layers], name="step to step")
    figure.add_scatter(x=layers, y=[n.cross_layer for n in result.layers], name="layer to layer")
    if result.step_to_step is not None:
        chance = result.step_to_step.chance_even
        figure.add_hline(chance, line={"dash": "dot"})
        figure.add_annotation(
            text=f"even chance {chance:.4f}", x=1, xref="x domain", xanchor="right",
            y=chance, yref="y", yanchor="bottom", showarrow=False,
        )  # fmt: skip
    return figure


def working_sets(result: Structure) -> Figure:
    """Distinct experts in each window of time, by layer."""
    figure = _figure("window of time", "layer")
    figure.add_heatmap(
        z=[list(layer.working_set_over_time) for layer in result.layers],
        y=[layer.layer for layer in result.layers],
        colorscale="Viridis",
        colorbar={"title": {"text": "experts"}},
    )
    return figure


def reuse(result: Structure) -> Figure:
    """Median reuse distance in each window of time, by layer."""
    figure = _figure("window of time", "layer")
    figure.add_heatmap(
        z=[list(layer.reuse_p50_over_time) for layer in result.layers],
        y=[layer.layer for layer in result.layers],
        colorscale="Viridis",
        colorbar={"title": {"text": "depth"}},
    )
    return figure
