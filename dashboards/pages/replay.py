"""The replay's pages: one HTML file each, offline, the same bytes for the same document."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.dashboards import replay_tables as tables
from lanescope.dashboards.figures import replay as figures
from lanescope.dashboards.figures.plain import Figure
from lanescope.dashboards.pages.rendering import plot, render
from lanescope.dashboards.tables import Table
from lanescope.schemas.documents.replay import Curves, Plan, Replay, Structure
from lanescope.schemas.findings import Abstention, Finding

#: heading and figure
Shown = tuple[str, Figure]


def run_page(result: Replay) -> str:
    """Policy table, policies by layer, heat map."""
    return _page(
        "Cache replay",
        tables.about(result.trace, sum(result.slots.values())),
        tables.run_tables(result),
        [
            ("Misses by policy", figures.policies(result)),
            ("Misses by layer", figures.by_layer(result)),
            (f"Misses by layer and time, {result.policies[0].policy}", figures.heat(result)),
        ],
        result.warnings,
        result.abstained,
    )


def curve_page(result: Curves) -> str:
    """Hit rate by slots, over all layers and by layer."""
    return _page(
        "Miss curves",
        tables.about(result.trace),
        tables.curve_tables(result),
        [
            ("Hit rate by slots", figures.hit_curves(result)),
            ("LRU misses by layer and slots", figures.layer_curves(result)),
        ],
    )


def plan_page(result: Plan) -> str:
    """Divisions of the budget, and the context-slot curve."""
    shown: list[Shown] = []
    if result.divisions:
        shown.append(("Slots by layer", figures.divisions(result)))
    if result.contexts:
        shown.append(("What a longer context costs", figures.contexts(result)))
    about = f"{result.source}: misses that LRU would have"
    found = tables.plan_tables(result)
    return _page("Slot plan", about, found, shown, result.warnings, result.abstained)


def structure_page(result: Structure) -> str:
    """Overlaps, working sets, predictors, subsamples."""
    return _page(
        "Routing structure",
        tables.about(result.trace),
        tables.structure_tables(result),
        [
            ("Shared experts by layer", figures.overlaps(result)),
            ("Reuse distance by layer and time (median LRU depth)", figures.reuse(result)),
            ("Distinct experts by layer and time", figures.working_sets(result)),
        ],
        (),
        result.abstained,
    )


def _page(
    title: str,
    about: str,
    found: Sequence[Table],
    shown: Sequence[Shown],
    warnings: Sequence[Finding] = (),
    abstained: Sequence[Abstention] = (),
) -> str:
    return render(
        "replay.html",
        with_plots=bool(shown),
        title=title,
        about=about,
        tables=found,
        plots=[
            (heading, plot(figure, f"figure-{i}", f"{heading}. {about}"))
            for i, (heading, figure) in enumerate(shown)
        ],
        warnings=warnings,
        abstained=abstained,
    )
