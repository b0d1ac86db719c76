"""`lanescope model`: what a miss costs a step, over windows or lanes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

if TYPE_CHECKING:
    from lanescope.attribution.copies.windows import Window


@click.command("model")
@click.argument("windows", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--lane", "lanes", multiple=True, metavar="LANE=NAME", help="The lane of a window; repeatable."
)
@click.option(
    "--leave-out",
    "rules",
    multiple=True,
    metavar="RULE",
    help="Leave out windows by what was set or counted: 'steps < 300', 'lane == k2'.",
)
@click.option(
    "--term", "terms", multiple=True, metavar="COLUMN", help="A further term (k2: 0 or 1)."
)
@click.option("--layers", type=click.IntRange(1), help="Cached layers, for the slope in GB/s.")
@click.option("--row-bytes", type=click.IntRange(1), help="Bytes of a missed row, all tensors.")
@click.option("--routed-rows", type=click.IntRange(1), help="Routed rows of a layer-step.")
@click.option("--accepted", type=click.FloatRange(0, min_open=True), help="Tokens a step yields.")
@click.option(
    "--at-hit-rate", "hit_rates", multiple=True, type=click.FloatRange(0, 1), help="Predict there."
)
@click.option("--at-misses", multiple=True, type=click.FloatRange(0), help="Predict there.")
@click.option("--extrapolate", is_flag=True, help="Predict outside the measured range, and say so.")
@click.option("--json", "as_json", is_flag=True, help="Print the document alone.")
@click.option("--plain", is_flag=True, help="No colour, no frames.")
def command(
    windows: tuple[Path, ...],
    lanes: tuple[str, ...],
    rules: tuple[str, ...],
    terms: tuple[str, ...],
    layers: int | None,
    row_bytes: int | None,
    routed_rows: int | None,
    accepted: float | None,
    hit_rates: tuple[float, ...],
    at_misses: tuple[float, ...],
    extrapolate: bool,
    as_json: bool,
    plain: bool,
) -> None:
    """Fit step time against misses per layer-step over WINDOWS.

    WINDOWS are folders that `lanescope attribute` wrote, or CSV tables with the columns name,
    misses_per_layer_step, step_ms (and steps, lane). Points weigh by their steps.
    """
    from lanescope.attribution.copies.windows import Question, model, window_of, windows_of_table
    from lanescope.dashboards import copies_text
    from lanescope.dashboards.terminal import console

    points = []
    for path in windows:
        if path.suffix.lower() == ".csv":
            points += windows_of_table(path)
            continue
        point, doc = window_of(path)
        points.append(point)
        if doc.misses is not None:
            layers = layers or doc.misses.layers
            routed_rows = routed_rows or doc.misses.routed_rows
        if row_bytes is None and doc.link is not None and doc.link.by_tensor:
            row_bytes = sum(t.row_bytes for t in doc.link.by_tensor)
    _name_lanes(points, lanes)
    ask = Question(
        rules=rules, terms=terms, layers=layers, row_bytes=row_bytes, routed_rows=routed_rows,
        accepted=accepted, hit_rates=hit_rates, at_misses=at_misses, extrapolate=extrapolate,
    )  # fmt: skip
    found = model(points, ask)
    if as_json:
        click.echo(found.model_dump_json(indent=1, by_alias=True))
        return
    copies_text.model_document(found, console(plain=plain))


def _name_lanes(points: list[Window], lanes: tuple[str, ...]) -> None:
    from lanescope.schemas.errors import UsageError

    for text in lanes:
        lane, sign, name = text.partition("=")
        own = [p for p in points if p.name == name]
        if not sign or not own:
            known = ", ".join(p.name for p in points)
            raise UsageError(f"--lane {text!r} names no window", f"windows are {known}")
        for point in own:
            point.lane = lane
