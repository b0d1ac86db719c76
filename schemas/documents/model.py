"""The cost model of a step: step time against misses, and what follows from it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lanescope.schemas.documents.misses import Interval

SCHEMA: Literal["lanescope.model/1"] = "lanescope.model/1"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Fit(_Part):
    """A straight line: step ms = base_ms + ms_per_miss x misses per layer-step."""

    base_ms: float
    ms_per_miss: Interval = Field(description="per miss and layer-step: one more in every layer")
    r2: float = Field(description="share of the variance explained, all points, no weights")
    rmse_ms: float
    n: int


class CostModel(_Part):
    """Within one window: one point a measured step."""

    base_ms: float
    ms_per_miss: Interval
    r2: float
    n: int
    rmse_ms: float
    of: str = Field(description="what the step time is")
    per: str = "misses per layer-step"
    gpu: Fit | None = Field(None, description="the same for the step's summed GPU time")
    slope_GBps: float | None = Field(None, description="layers x bytes of a row over the slope")
    counted_tensors: list[str] = Field(default_factory=list)
    residual_steps: list[int] = Field(default_factory=list, description="steps far off the line")
    misses_range: list[float] = Field(description="smallest and largest misses of the points")
    attenuation: float = Field(
        description="share of the spread in misses that is real; the slope is low by about the rest"
    )
    what_if: list[WhatIf] = Field(default_factory=list)


class WhatIf(_Part):
    """One line of the what-if table."""

    case: str
    assumption: str
    ms: Interval | None
    tok_s: Interval | None = None
    withheld: str = ""


class Point(_Part):
    """One window: means over its measured steps."""

    name: str
    lane: str
    misses: float = Field(description="per layer-step")
    step_ms: float
    steps: int | None = None
    used: bool = True
    left_out_by: str = ""
    residual_ms: float | None = None


class Within(_Part):
    """The slope inside one lane, beside the one over all."""

    lane: str
    n: int
    ms_per_miss: Interval | None
    r2: float | None


class Prediction(_Part):
    """A step at a stated hit rate or number of misses."""

    misses: float
    hit_rate: float | None
    ms: Interval
    tok_s: Interval | None
    inside_range: bool


class ModelDocument(_Part):
    """What `lanescope model` found over windows."""

    schema_: Literal["lanescope.model/1"] = Field(default=SCHEMA, alias="schema")
    fit: Fit | None
    weights: str
    terms: dict[str, float] = Field(
        default_factory=dict, description="further terms of the fit and their coefficients, ms"
    )
    slope_GBps: float | None = None
    counted_bytes: int | None = None
    points: list[Point]
    rules: list[str] = Field(description="rules by which windows were left out")
    within: list[Within]
    verdict: str = Field(description="where the slope lives: within lanes, or only between them")
    predictions: list[Prediction]
    what_if: list[WhatIf] = Field(default_factory=list)

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


CostModel.model_rebuild()
