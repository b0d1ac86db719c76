"""Every table of a cache replay: what the terminal prints is what the pages hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lanescope.dashboards.tables import Col, Table, Value
from lanescope.schemas.documents.replay import (
    Curves,
    Interval,
    Plan,
    Replay,
    Structure,
    TraceCheck,
    TraceFacts,
)

_HIT = Col("hit_rate", "hit rate", 4, hint="1 - misses / routed rows")
_PER_STEP = Col("misses_per_layer_step", "misses/layer-step", 3)
_CURVE_ROWS = 16


class Priced(Protocol):
    """A row that may have a step time and a rate."""

    @property
    def ms_per_step(self) -> Interval | None:
        """By the cost model, where one was given."""

    @property
    def tokens_per_s(self) -> Interval | None:
        """Where the accepted tokens of a step are known too."""


def about(facts: TraceFacts, slots: int | None = None) -> str:
    """The trace in a line."""
    low, high = facts.tokens_per_step
    width = f"{low}" if low == high else f"{low} to {high}"
    text = (
        f"{facts.source}: {facts.scored_steps:,} verification steps of {width} "
        f"token{'s' * (high > 1)}, {len(facts.layers)} layers, top-{facts.top_k} of {facts.experts}"
    )
    return text if slots is None else f"{text}, {slots:,} slots"


def run_tables(result: Replay) -> list[Table]:
    """Policies, and their step times where a cost model was given."""
    cols = [Col("policy", "policy"), _HIT, _PER_STEP, Col("misses", "misses", 0)]
    if result.trace.tokens_per_step[1] > 1:
        hint = "over each step's distinct experts: a row that two tokens share counts once"
        cols.append(Col("distinct_hit_rate", "distinct hit rate", 4, hint=hint))
    rows: list[list[Value]] = [[getattr(p, c.key) for c in cols] for p in result.policies]
    names = [p.policy for p in result.policies]
    tables = [Table("policies", "Policies", cols, rows)]
    return tables + _costs("policy", names, result.policies)


def curve_tables(result: Curves) -> list[Table]:
    """Hit rate over all layers when each has so many slots, at sixteen counts."""
    facts = result.trace
    points = result.points or _spread(facts.experts)
    names = list(result.other_hit_rates)
    cols = [
        Col("slots_per_layer", "slots/layer", 0),
        Col("lru_hit_rate", "lru", 4),
        Col("lru_misses_per_layer_step", "lru misses/layer-step", 3),
        Col("static_hit_rate", "static", 4),
        *[Col(f"{name}_hit_rate", name, 4) for name in names],
    ]
    rows: list[list[Value]] = []
    for i, slots in enumerate(points):
        row = [slots, result.lru_hit_rate[slots], result.lru_misses_per_layer_step[slots]]
        others = [result.other_hit_rates[name][i] for name in names]
        rows.append([*row, result.static_hit_rate[slots], *others])
    return [Table("curve", "Hit rate by slots, every layer alike", cols, rows)]


def _spread(experts: int) -> list[int]:
    return sorted({round(experts * i / _CURVE_ROWS) for i in range(1, _CURVE_ROWS + 1)} - {0})


def plan_tables(result: Plan) -> list[Table]:
    """Divisions of the budget, contexts, and what they cost."""
    tables = []
    if result.divisions:
        cols = [
            Col("division", "division"),
            Col("slots", "slots", 0),
            Col("slots_per_layer", "per layer"),
            _HIT,
            _PER_STEP,
            Col("held_out", "held out", 3, hint="planned on one half, scored on the other"),
        ]
        rows: list[list[Value]] = []
        for d in result.divisions:
            least, most = min(d.slots.values()), max(d.slots.values())
            span = f"{least}" if least == most else f"{least} to {most}"
            rows.append([d.name, d.total, span, d.hit_rate, d.misses_per_layer_step, d.held_out])
        title = f"{result.budget:,} slots, {result.source}"
        tables.append(Table("divisions", title, cols, rows))
        tables += _costs("division", [d.name for d in result.divisions], result.divisions)
    if result.contexts:
        cols = [
            Col("context", "context", 0),
            Col("kv_bytes", "KV GiB", 2, 2**30),
            Col("slots", "slots", 0),
            _HIT,
            _PER_STEP,
        ]
        rows = [[getattr(c, col.key) for col in cols] for c in result.contexts]
        tables.append(Table("contexts", "Context against slots", cols, rows))
        tables += _costs("context", [f"{c.context:,}" for c in result.contexts], result.contexts)
    return tables


def structure_tables(result: Structure) -> list[Table]:
    """Overlaps, layers, predictors, subsamples."""
    overlaps = {"step to step": result.step_to_step}
    if result.trace.tokens_per_step[1] > 1:
        overlaps["token to token"] = result.token_to_token
    overlaps["layer to layer"] = result.cross_layer
    cols = [
        Col("between", "between"),
        Col("overlap", "overlap", 4),
        Col("standard_error", "std. error", 4),
        Col("chance_even", "chance, even", 4, hint="experts drawn evenly"),
        Col("chance_popularity", "chance, popularity", 4, hint="drawn as often as asked for here"),
    ]
    rows: list[list[Value]] = [
        [name, *(getattr(found, c.key) for c in cols[1:])]
        for name, found in overlaps.items()
        if found is not None
    ]
    tables = [Table("overlaps", "Shared experts", cols, rows), _layers(result)]
    if result.coverage:
        cols = [
            Col("predictor", "predictor"),
            Col("covered", "LRU misses covered", 4),
            Col("fetched_for_nothing", "rows for nothing/layer-step", 3),
        ]
        rows = [[getattr(c, col.key) for col in cols] for c in result.coverage]
        tables.append(Table("prediction", "Prediction", cols, rows))
    if result.subsamples:
        cols = [Col("every", "every n-th step", 0), Col("steps", "steps", 0), _HIT, _PER_STEP]
        rows = [[getattr(s, col.key) for col in cols] for s in result.subsamples]
        tables.append(Table("subsamples", "LRU on subsamples", cols, rows))
    return tables


def _layers(result: Structure) -> Table:
    cols = [
        Col("layer", "layer", 0),
        Col("reuse_p50", "reuse p50", 0, hint="distinct experts asked for since the last time"),
        Col("reuse_p90", "p90", 0),
        Col("step_to_step", "overlap", 3),
        Col("effective_experts", "effective", 1, hint="exp(entropy) of the popularity"),
        *[Col(f"working_set_{n}", f"in {n}", 0, hint="distinct experts") for n in result.spans],
    ]
    rows: list[list[Value]] = [
        [*(getattr(layer, c.key) for c in cols[:5]), *layer.working_set] for layer in result.layers
    ]
    return Table("layers", "Layers", cols, rows)


def check_table(result: TraceCheck) -> Table:
    """What a trace holds."""
    rows: list[list[Value]] = [[k.replace("_", " "), v] for k, v in result.counts.items()]
    return Table("counts", result.file, [Col("what", "what"), Col("count", "count", 0)], rows)


def _costs(heading: str, names: Sequence[str], priced: Sequence[Priced]) -> list[Table]:
    """Step times by the cost model, if any."""
    if not any(row.ms_per_step for row in priced):
        return []
    cols = [Col(heading, heading), Col("ms_per_step", "ms/step"), Col("tokens_per_s", "tok/s")]
    rows: list[list[Value]] = [
        [name, _span(row.ms_per_step), _span(row.tokens_per_s)]
        for name, row in zip(names, priced, strict=True)
    ]
    return [Table(f"{heading}-cost", "Step time by the cost model", cols, rows)]


def _span(value: Interval | None) -> str | None:
    """`44.10 [43.00, 45.20]`."""
    if value is None:
        return None
    if value.low == value.high:
        return f"{value.estimate:.2f}"
    return f"{value.estimate:.2f} [{value.low:.2f}, {value.high:.2f}]"
