"""`lanescope replay plan`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console

from lanescope.attribution.replay.cost import read_cost_model
from lanescope.attribution.replay.plan import Limits, MissCurves, from_hit_curves, miss_curves
from lanescope.attribution.replay.planning import Memory, Price, plan
from lanescope.dashboards.pages.replay import plan_page
from lanescope.dashboards.replay_tables import plan_tables
from lanescope.profiler.cli.replaying.common import (
    FILE,
    Output,
    Source,
    notes,
    output_options,
    print_tables,
    source_options,
    warmup_option,
    write_text,
)
from lanescope.schemas.documents.replay import Plan, SlotMap, read_slot_map
from lanescope.schemas.errors import UnusableInput, UsageError

_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}


class Size(click.ParamType[int]):
    """Bytes: `21233664`, `20.25MiB`, `249.8 GiB`."""

    name = "bytes"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """The value in whole bytes."""
        if isinstance(value, int):
            return value
        parts = re.fullmatch(r"\s*([\d.]+)\s*([A-Za-z]*)\s*", str(value))
        if parts is None or parts[2] not in _UNITS or parts[1].count(".") > 1:
            self.fail(f"{value!r} is not a size such as 20.25MiB", param, ctx)
        return round(float(parts[1]) * _UNITS[parts[2]])


SIZE = Size()


@click.command("plan")
@source_options(required=False)
@click.option("--curves", "curve_file", type=FILE, help="Hit-by-slots curves instead of a trace.")
@click.option("--routed", type=float, help="Routed rows per layer-step of --curves: (K+1) x top-k.")
@warmup_option
@click.option("--budget", type=click.IntRange(1), help="Slots over all layers.")
@click.option(
    "--map", "maps", type=FILE, multiple=True, help="A slot map to score beside the plan."
)
@click.option("--min", "low", type=click.IntRange(0), help="Fewest slots of a layer. [one step's]")
@click.option("--max", "high", type=click.IntRange(1), help="Most slots of a layer. [all experts]")
@click.option("--granule", type=click.IntRange(1), default=1, show_default=True)
@click.option("--hbm", type=SIZE, help="Device memory to share out, such as 249.8GiB.")
@click.option("--reserve", type=SIZE, default=0, help="What weights, graphs and workspace take.")
@click.option("--kv-per-token", type=SIZE, help="KV cache bytes per token.")
@click.option("--row-bytes", type=SIZE, help="Bytes of one expert row, all its tensors.")
@click.option(
    "--context", "contexts", type=click.IntRange(0), multiple=True, help="Tokens of context."
)
@click.option("--model", type=FILE, help="Cost model file of `lanescope model`.")
@click.option("--accepted", type=float, help="Accepted tokens per step, for tokens per second.")
@click.option("--out", type=FILE, help="Write the planned slot map here.")
@output_options
def command(
    source: Source | None,
    output: Output,
    curve_file: Path | None,
    routed: float | None,
    warmup: int,
    budget: int | None,
    maps: tuple[Path, ...],
    low: int | None,
    high: int | None,
    granule: int,
    contexts: tuple[int, ...],
    model: Path | None,
    accepted: float | None,
    out: Path | None,
    **memory: int | None,
) -> None:
    """Divide a slot budget over the layers of TRACE for the fewest misses; context against slots.

    The division is exact: no other one within the limits misses less on this trace. Beside it stand
    the uniform map and every --map; `held out` is planned on one half and scored on the other.
    """
    given = {path.name: read_slot_map(path).per_layer for path in maps}
    if budget is None and given:
        budget = sum(next(iter(given.values())).values())
    if budget is None and not contexts:
        raise UsageError(
            "neither --budget nor --context", "give slots to divide, or memory to share"
        )
    if source is not None and curve_file is None:
        loaded = source.load()
        found, name = miss_curves(loaded, warmup), loaded.source
        if accepted is None and found.routed_per_layer_step == loaded.top_k:
            accepted = 1.0
    elif curve_file is not None and source is None:
        if routed is None:
            raise UsageError("--curves without --routed", "give (K+1) x top-k")
        found, name = read_curves(curve_file, routed), curve_file.name
    else:
        raise UsageError("give either a TRACE or --curves")
    limits = Limits(
        found.largest if low is None else low,
        found.whole.shape[1] - 1 if high is None else min(high, found.whole.shape[1] - 1),
        granule,
    )
    price = Price(read_cost_model(model) if model else None, accepted)
    result = plan(found, name, limits, budget, given, _memory(memory, contexts), contexts, price)
    if out is not None:
        if budget is None:
            raise UsageError("--out without --budget", "there is no division to write")
        chosen = SlotMap(schema="lanescope.slots/1", per_layer=result.divisions[0].slots)
        write_text(out, chosen.as_json(), output.force)
    output.emit(result, plan_page, show)


def _memory(memory: dict[str, int | None], contexts: tuple[int, ...]) -> Memory | None:
    if not contexts:
        return None
    hbm, kv, row = memory["hbm"], memory["kv_per_token"], memory["row_bytes"]
    if hbm is None or kv is None or not row:
        raise UsageError("--context needs --hbm, --kv-per-token and --row-bytes")
    return Memory(hbm, memory["reserve"] or 0, kv, row)


def read_curves(path: Path, routed: float) -> MissCurves:
    """`curves`: {layer: {slots: hit rate}} of a JSON file, a slot map with curves among them."""
    try:
        body = json.loads(path.read_text())
        raw = body["curves"] if isinstance(body, dict) and "curves" in body else body
        points = {
            int(layer): {int(slots): float(hit) for slots, hit in curve.items()}
            for layer, curve in raw.items()
        }
        if not points or not all(points.values()):
            raise ValueError("no curves")
        rates = [hit for curve in points.values() for hit in curve.values()]
        if not all(0 <= hit <= 1 for hit in rates):
            raise ValueError("a hit rate outside 0 to 1")
        return from_hit_curves(points, routed)
    except OSError as exc:
        raise UnusableInput(f"{path}: {exc.strerror}", "give hit-by-slots curves") from exc
    except (ValueError, TypeError, AttributeError, KeyError) as exc:
        raise UnusableInput(
            f"{path}: {exc}", 'expected {"curves": {"3": {"96": 0.45, ...}, ...}}'
        ) from exc


def show(result: Plan, con: Console) -> None:
    """The divisions, and the context-slot curve where memory was given."""
    print_tables(plan_tables(result), con)
    notes(result.warnings, result.abstained, con)
