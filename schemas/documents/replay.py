"""Typed documents of the cache replay. Each becomes a JSON file; slot maps are read as well."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.findings import Abstention, Finding


class Document(BaseModel):
    """Closed and immutable: a misspelt field is an error, not a silent addition."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Interval(Document):
    """An estimate and the interval it comes with; low = high = estimate where none was known."""

    estimate: float
    low: float
    high: float


class TraceFacts(Document):
    """What was replayed. `routed_rows` counts tokens x top-k over all layers and scored passes."""

    source: str
    tokens: int
    steps: int
    scored_steps: int = Field(description="verification steps that the figures are over")
    prefill_passes: int
    bypassed_passes: int
    tokens_per_step: tuple[int, int] = Field(description="fewest and most in a scored step")
    layers: tuple[int, ...]
    experts: int
    top_k: int
    routed_rows: int


class SlotMap(Document):
    """Slots of each layer, by the model's layer number. Further keys of a file are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_: str = Field("lanescope.slots/1", alias="schema")
    per_layer: dict[int, int]

    @property
    def total(self) -> int:
        """Slots over all layers."""
        return sum(self.per_layer.values())

    def as_json(self) -> str:
        """The file's text: layers in order, the sum beside them."""
        body = {
            "schema": self.schema_,
            "total": self.total,
            "per_layer": {str(layer): n for layer, n in sorted(self.per_layer.items())},
        }
        return json.dumps(body, indent=1) + "\n"


def read_slot_map(path: Path) -> SlotMap:
    """The slot map in `path`; raises UnusableInput. A bare `{layer: slots}` is read too."""
    try:
        body = json.loads(path.read_text())
        if isinstance(body, dict) and "per_layer" not in body:
            body = {"per_layer": body}
        slots = SlotMap.model_validate(body)
    except OSError as exc:
        raise UnusableInput(f"{path}: {exc.strerror}", "give a slot map") from exc
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnusableInput(
            f"{path}: {where}: {first['msg']}", 'expected {"per_layer": {"3": 96, ...}}'
        ) from exc
    except ValueError as exc:
        raise UnusableInput(f"{path}: not JSON: {exc}", "give a slot map") from exc
    if not slots.per_layer or min(slots.per_layer.values()) < 0:
        raise UnusableInput(f"{path}: no layers, or a negative slot count")
    return slots


class PolicyResult(Document):
    """One policy over the scored steps.

    `hit_rate` is 1 - misses / routed rows; `distinct_hit_rate` is over each pass's distinct
    experts (the same where a step is one token). `ms_per_step` comes with a cost model only.
    """

    policy: str
    misses: int
    misses_per_layer_step: float
    hit_rate: float
    distinct_hit_rate: float
    prefill_misses: int
    per_layer: tuple[float, ...] = Field(description="misses per step, in the order of layers")
    over_time: tuple[float, ...] = Field(description="misses per layer-step, windows of equal size")
    ms_per_step: Interval | None = None
    tokens_per_s: Interval | None = None


class Agreement(Document):
    """An engine's own counts against the LRU replay; equal means equal in every layer-step."""

    file: str
    layer_steps: int
    equal: int
    engine_misses: int
    replay_misses: int
    first_difference: str


class Replay(Document):
    """Policies side by side at one slot map."""

    schema_: str = Field("lanescope.replay/1", alias="schema")
    trace: TraceFacts
    slots: dict[int, int]
    policies: tuple[PolicyResult, ...]
    heat: tuple[tuple[float, ...], ...] = Field(
        description="misses per step by layer and window of time, of the first policy"
    )
    agreement: Agreement | None = None
    warnings: tuple[Finding, ...] = ()
    abstained: tuple[Abstention, ...] = ()


class LayerCurve(Document):
    """Misses over the scored steps with 0, 1, 2 ... slots in one layer."""

    layer: int
    lru: tuple[int, ...]
    static: tuple[int, ...] = Field(description="the best pin of so many rows, in hindsight")


class Curves(Document):
    """Miss curves. `lru_hit_rate` and the like are over all layers, by slots per layer."""

    schema_: str = Field("lanescope.replay-curve/1", alias="schema")
    trace: TraceFacts
    slots: tuple[int, ...]
    layers: tuple[LayerCurve, ...]
    lru_hit_rate: tuple[float, ...]
    lru_misses_per_layer_step: tuple[float, ...]
    static_hit_rate: tuple[float, ...]
    points: tuple[int, ...] = Field(default=(), description="slot counts of `other_hit_rates`")
    other_hit_rates: dict[str, tuple[float, ...]] = {}


class Division(Document):
    """One way to divide the slots. `held_out`: planned on one half of the trace, scored on the
    other, misses per layer-step; none where curves came from a file."""

    name: str
    slots: dict[int, int]
    total: int
    misses_per_layer_step: float
    hit_rate: float
    held_out: float | None = None
    ms_per_step: Interval | None = None
    tokens_per_s: Interval | None = None


class ContextRow(Document):
    """What one context length leaves for slots, and what those cost."""

    context: int
    kv_bytes: int
    slots: int
    misses_per_layer_step: float
    hit_rate: float
    ms_per_step: Interval | None = None
    tokens_per_s: Interval | None = None


class Plan(Document):
    """Divisions of one slot budget, best first; context against slots where memory was given."""

    schema_: str = Field("lanescope.replay-plan/1", alias="schema")
    source: str
    budget: int | None
    divisions: tuple[Division, ...]
    contexts: tuple[ContextRow, ...] = ()
    warnings: tuple[Finding, ...] = ()
    abstained: tuple[Abstention, ...] = ()


class Overlap(Document):
    """Share of a pass's experts found in another set, beside what chance would give.

    `chance_even`: experts drawn evenly. `chance_popularity`: drawn independently, each as often as
    it is asked for in this trace.
    """

    overlap: float
    standard_error: float | None
    chance_even: float
    chance_popularity: float


class LayerStructure(Document):
    """One layer. Reuse distances are LRU depths: distinct experts asked for since the last time."""

    layer: int
    step_to_step: float | None = None
    cross_layer: float | None = Field(default=None, description="with the layer after it")
    reuse_p50: float | None
    reuse_p90: float | None
    never_seen_before: int = Field(description="first requests of an expert: no cache helps")
    experts_used: int
    effective_experts: float = Field(description="exp(entropy) of the popularity")
    working_set: tuple[float | None, ...] = Field(description="distinct experts, by `spans`")
    working_set_over_time: tuple[int, ...] = Field(description="windows of equal numbers of passes")
    reuse_p50_over_time: tuple[float | None, ...] = Field(description="the same windows")


class Coverage(Document):
    """Share of the LRU misses that a predictor named, and rows per layer-step that it would have
    fetched for nothing."""

    predictor: str
    covered: float
    fetched_for_nothing: float


class Subsample(Document):
    """LRU on each n-th step alone (`every` = 1: the whole trace)."""

    every: int
    steps: int
    hit_rate: float
    misses_per_layer_step: float


class Structure(Document):
    """What a trace has to offer a cache."""

    schema_: str = Field("lanescope.replay-structure/1", alias="schema")
    trace: TraceFacts
    step_to_step: Overlap | None = Field(description="none with a single step")
    token_to_token: Overlap | None = Field(description="between the tokens of scored steps")
    cross_layer: Overlap | None = Field(description="of one token; none with a single layer")
    layers: tuple[LayerStructure, ...]
    spans: tuple[int, ...] = Field(description="steps over which `working_set` is counted")
    coverage: tuple[Coverage, ...] = ()
    subsamples: tuple[Subsample, ...] = ()
    abstained: tuple[Abstention, ...] = ()


class TraceCheck(Document):
    """What a file of routing holds. Not usable: `fault` says why, and counts are of its rows."""

    schema_: str = Field("lanescope.replay-check/1", alias="schema")
    file: str
    usable: bool
    fault: str
    counts: dict[str, int]
    warnings: tuple[Finding, ...] = ()
