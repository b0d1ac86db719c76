"""The plan as a document: divisions of a budget side by side, and the context-slot curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lanescope.attribution.replay.cost import (
    CostModel,
    acceptance_unknown,
    reservations,
    tokens_per_s,
)
from lanescope.attribution.replay.plan import (
    Limits,
    MissCurves,
    divide,
    misses_at,
    slots_in,
    uniform,
)
from lanescope.schemas.documents.replay import ContextRow, Division, Interval, Plan
from lanescope.schemas.errors import UsageError
from lanescope.schemas.findings import Abstention, Finding, ReplayAbstained, ReplayWarning


@dataclass(frozen=True)
class Price:
    """The cost model and the accepted tokens per step, either of which may be unknown."""

    model: CostModel | None = None
    accepted: float | None = None

    def of(self, misses: float) -> tuple[Interval | None, Interval | None]:
        """Milliseconds per step and tokens per second at so many misses per layer-step."""
        if self.model is None:
            return None, None
        ms = self.model.ms_per_step(misses)
        return ms, tokens_per_s(ms, self.accepted)


@dataclass(frozen=True)
class Memory:
    """Device memory in bytes, and what one token and one expert row take of it."""

    hbm: int
    reserve: int
    kv_per_token: int
    row_bytes: int


def plan(
    curves: MissCurves,
    source: str,
    limits: Limits,
    budget: int | None = None,
    given: Mapping[str, Mapping[int, int]] | None = None,
    memory: Memory | None = None,
    contexts: Sequence[int] = (),
    price: Price | None = None,
) -> Plan:
    """The best division of `budget` beside the uniform one and the maps in `given`."""
    price = price or Price()
    divisions = [] if budget is None else _divisions(curves, budget, limits, given or {}, price)
    rows: list[ContextRow] = []
    abstained: list[Abstention] = []
    for context in contexts:
        if memory is None:
            raise UsageError(f"a context of {context} tokens", "say how much memory there is")
        row = _context_row(curves, context, limits, memory, price)
        if isinstance(row, ContextRow):
            rows.append(row)
        else:
            abstained.append(row)
    if price.model and price.accepted is None:
        abstained.append(acceptance_unknown())
    predicted = [d.misses_per_layer_step for d in divisions]
    predicted += [row.misses_per_layer_step for row in rows]
    return Plan(
        schema="lanescope.replay-plan/1",
        source=source,
        budget=budget,
        divisions=tuple(divisions),
        contexts=tuple(rows),
        warnings=(
            *_held_out_warning(divisions),
            *(reservations(price.model, predicted) if price.model else ()),
        ),
        abstained=tuple(abstained),
    )


def _held_out_warning(divisions: Sequence[Division]) -> tuple[Finding, ...]:
    """A plan that wins only on the traffic it was made from has learned noise."""
    if len(divisions) < 2:
        return ()
    planned, equal = divisions[:2]
    if planned.held_out is None or equal.held_out is None or planned.held_out < equal.held_out:
        return ()
    return (
        ReplayWarning.PLAN_OF_NOISE.finding(
            f"on traffic it has not seen the plan misses {planned.held_out:.3f} per layer-step, "
            f"the uniform map {equal.held_out:.3f}"
        ),
    )


def _divisions(
    curves: MissCurves,
    budget: int,
    limits: Limits,
    given: Mapping[str, Mapping[int, int]],
    price: Price,
) -> list[Division]:
    equal = uniform(len(curves.layers), budget, limits)
    best = divide(curves.whole, budget, limits)
    halves = None
    if curves.first.size and curves.second.size:
        unseen = [
            misses_at(curves.second, divide(curves.first, budget, limits)),
            misses_at(curves.first, divide(curves.second, budget, limits)),
        ]
        halves = sum(unseen) / 2
    found = [
        _division(curves, "planned", best, price, halves),
        _division(curves, "uniform", equal, price),
    ]
    for name, slots in given.items():
        absent = [layer for layer in curves.layers if layer not in slots]
        if absent:
            raise UsageError(f"{name}: lacks layer {absent[0]}", "maps need every layer")
        found.append(_division(curves, name, [slots[layer] for layer in curves.layers], price))
    return found


def _division(
    curves: MissCurves, name: str, slots: list[int], price: Price, held_out: float | None = None
) -> Division:
    misses = misses_at(curves.whole, slots)
    if held_out is None and curves.first.size:  # a map that no half had a say in
        held_out = (misses_at(curves.first, slots) + misses_at(curves.second, slots)) / 2
    ms, rate = price.of(misses)
    return Division(
        name=name,
        slots=dict(zip(curves.layers, slots, strict=True)),
        total=sum(slots),
        misses_per_layer_step=misses,
        hit_rate=1 - misses / curves.routed_per_layer_step,
        held_out=held_out,
        ms_per_step=ms,
        tokens_per_s=rate,
    )


def _context_row(
    curves: MissCurves, context: int, limits: Limits, memory: Memory, price: Price
) -> ContextRow | Abstention:
    slots = slots_in(memory.hbm, memory.reserve, memory.kv_per_token, context, memory.row_bytes)
    least = len(curves.layers) * limits.low
    if slots < least:
        return ReplayAbstained.CONTEXT.because(
            f"{context} tokens leave room for {max(0, slots)} slots; "
            f"{len(curves.layers)} layers need {least}"
        )
    division = divide(curves.whole, slots, limits)
    misses = misses_at(curves.whole, division)
    ms, rate = price.of(misses)
    return ContextRow(
        context=context,
        kv_bytes=memory.kv_per_token * context,
        slots=sum(division),
        misses_per_layer_step=misses,
        hit_rate=1 - misses / curves.routed_per_layer_step,
        ms_per_step=ms,
        tokens_per_s=rate,
    )
