"""The replay's pages: one HTML file each, offline, the same bytes for the same document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from lanescope.dashboards.figures import replay as figures
from lanescope.dashboards.pages.rendering import figure_html, render
from lanescope.schemas.documents.replay import Curves, Interval, Plan, Replay, Structure
from lanescope.schemas.findings import Abstention, Finding


@dataclass(frozen=True)
class TableView:
    """A table as text: its heading, its columns, its cells."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def run_page(result: Replay) -> str:
    """Policy table, policies by layer, heat map."""
    rows = [
        [
            p.policy,
            f"{p.hit_rate:.4f}",
            f"{p.misses_per_layer_step:.3f}",
            f"{p.misses:,}",
            _span(p.ms_per_step),
            _span(p.tokens_per_s),
        ]
        for p in result.policies
    ]
    columns = ["policy", "hit rate", "misses/layer-step", "misses", "ms/step", "tok/s"]
    return _page(
        "Cache replay",
        _about(result.trace.source, result.trace.scored_steps, sum(result.slots.values())),
        [TableView("Policies", columns, rows)],
        [
            ("Misses by policy", figures.policies(result)),
            ("Misses by layer", figures.by_layer(result)),
            (f"Misses by layer and time: {result.policies[0].policy}", figures.heat(result)),
        ],
        result.warnings,
        result.abstained,
    )


def curve_page(result: Curves) -> str:
    """Hit rate by slots, over all layers and by layer."""
    return _page(
        "Miss curves",
        _about(result.trace.source, result.trace.scored_steps, None),
        [],
        [
            ("Hit rate by slots, over all layers", figures.hit_curves(result)),
            ("LRU misses by layer and slots", figures.layer_curves(result)),
        ],
    )


def plan_page(result: Plan) -> str:
    """Divisions of the budget, and the context-slot curve."""
    tables: list[TableView] = []
    shown: list[tuple[str, go.Figure]] = []
    if result.divisions:
        columns = [
            "division",
            "slots",
            "hit rate",
            "misses/layer-step",
            "held out",
            "ms/step",
            "tok/s",
        ]
        rows = [
            [
                d.name,
                f"{d.total:,}",
                f"{d.hit_rate:.4f}",
                f"{d.misses_per_layer_step:.3f}",
                "" if d.held_out is None else f"{d.held_out:.3f}",
                _span(d.ms_per_step),
                _span(d.tokens_per_s),
            ]
            for d in result.divisions
        ]
        tables.append(TableView("Divisions", columns, rows))
        shown.append(("Slots by layer", figures.divisions(result)))
    if result.contexts:
        columns = ["context", "slots", "hit rate", "misses/layer-step", "ms/step", "tok/s"]
        rows = [
            [
                f"{c.context:,}",
                f"{c.slots:,}",
                f"{c.hit_rate:.4f}",
                f"{c.misses_per_layer_step:.3f}",
                _span(c.ms_per_step),
                _span(c.tokens_per_s),
            ]
            for c in result.contexts
        ]
        tables.append(TableView("Context against slots", columns, rows))
        shown.append(("What a longer context costs", figures.contexts(result)))
    about = f"{result.source}: LRU, expected misses"
    return _page("Slot plan", about, tables, shown, result.warnings, result.abstained)


def structure_page(result: Structure) -> str:
    """Overlaps, working sets, predictors, subsamples."""
    overlaps = {"step to step": result.step_to_step, "layer to layer": result.cross_layer}
    rows = [
        [name, f"{o.overlap:.4f}", f"{o.chance_even:.4f}", f"{o.chance_popularity:.4f}"]
        for name, o in overlaps.items()
        if o is not None
    ]
    columns = ["between", "overlap", "chance, even", "chance, popularity"]
    tables = [TableView("Shared experts", columns, rows)]
    if result.coverage:
        rows = [
            [c.predictor, f"{c.covered:.4f}", f"{c.fetched_for_nothing:.3f}"]
            for c in result.coverage
        ]
        columns = ["predictor", "LRU misses covered", "rows for nothing/layer-step"]
        tables.append(TableView("Prediction", columns, rows))
    if result.subsamples:
        rows = [
            [f"{s.every}", f"{s.steps:,}", f"{s.hit_rate:.4f}", f"{s.misses_per_layer_step:.3f}"]
            for s in result.subsamples
        ]
        columns = ["every n-th step", "steps", "LRU hit rate", "misses/layer-step"]
        tables.append(TableView("Subsamples", columns, rows))
    return _page(
        "Routing structure",
        _about(result.trace.source, result.trace.scored_steps, None),
        tables,
        [
            ("Shared experts by layer", figures.overlaps(result)),
            ("Reuse distance (median LRU depth) by layer and time", figures.reuse(result)),
            ("Distinct experts by layer and time", figures.working_sets(result)),
        ],
        (),
        result.abstained,
    )


def _about(source: str, steps: int, slots: int | None) -> str:
    text = f"{source}: {steps:,} verification steps"
    return text if slots is None else f"{text}, {slots:,} slots"


def _span(value: Interval | None) -> str:
    if value is None:
        return ""
    if value.low == value.high:
        return f"{value.estimate:.2f}"
    return f"{value.estimate:.2f} [{value.low:.2f}, {value.high:.2f}]"


def _page(
    title: str,
    about: str,
    tables: Sequence[TableView],
    shown: Sequence[tuple[str, go.Figure]],
    warnings: Sequence[Finding] = (),
    abstained: Sequence[Abstention] = (),
) -> str:
    """The page. Plotly's script is inside, once; ids are fixed."""
    return render(
        "replay.html",
        with_plots=bool(shown),
        title=title,
        about=about,
        tables=tables,
        plots=[(name, figure_html(plot, f"figure-{i}")) for i, (name, plot) in enumerate(shown)],
        warnings=warnings,
        abstained=abstained,
    )
