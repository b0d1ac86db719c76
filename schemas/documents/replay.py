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


class Replay(Document):
    """Policies side by side at one slot map."""

    schema_: str = Field("lanescope.replay/1", alias="schema")
    trace: TraceFacts
    slots: dict[int, int]
    policies: tuple[PolicyResult, ...]
    heat: tuple[tuple[float, ...], ...] = Field(
        description="misses per step by layer and window of time, of the first policy"
    )
    warnings: tuple[Finding, ...] = ()
    abstained: tuple[Abstention, ...] = ()
