"""Cost models read back, and what their intervals say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lanescope.attribution.replay.cost import (
    CostModel,
    read_cost_model,
    reservations,
    tokens_per_s,
)
from lanescope.schemas.documents.model import Fit, ModelDocument, Point
from lanescope.schemas.documents.replay import Interval

SLOPE = {"estimate": 4.0, "low": 3.5, "high": 4.5}


def model(tmp_path: Path, body: dict[str, Any]) -> CostModel:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(body))
    return read_cost_model(path)


@pytest.mark.parametrize("wrap", [None, "model", "fit"])
def test_the_line_wherever_it_stands(tmp_path: Path, wrap: str | None) -> None:
    line = {"base_ms": 22.0, "ms_per_miss": SLOPE}
    found = model(tmp_path, line if wrap is None else {wrap: line, "schema": "x"})
    assert found.ms_per_step(3.0) == Interval(estimate=34.0, low=32.5, high=35.5)
    assert found.slope_alone


def test_a_fit_over_windows_turns_around_its_points(tmp_path: Path) -> None:
    """Means weighted by steps: (2 x 100 + 5 x 50) / 150 = 3. The window left out has no say."""
    points = [
        {"misses": 2.0, "steps": 100, "used": True},
        {"misses": 5.0, "steps": 50, "used": True},
        {"misses": 90.0, "steps": 900, "used": False},
    ]
    fit = {"base_ms": 22.0, "ms_per_miss": SLOPE, "rmse_ms": 0.0, "n": 3}
    found = model(tmp_path, {"fit": fit, "points": points})
    assert found.centre == pytest.approx(3.0)
    assert found.measured == (2.0, 5.0)
    assert not found.slope_alone
    at_centre = found.ms_per_step(3.0)
    assert at_centre.low == at_centre.estimate == at_centre.high == pytest.approx(34.0)
    for misses in (1.0, 5.0):  # two away: half a ms per miss either way
        there = found.ms_per_step(misses)
        assert there.high - there.estimate == pytest.approx(1.0)
        assert there.estimate - there.low == pytest.approx(1.0)


def test_the_level_has_its_error_too(tmp_path: Path) -> None:
    """rmse 1 over 16 windows: t(0.975, 14) / 4 = 2.1448 / 4 at the centre."""
    fit = {"base_ms": 22.0, "ms_per_miss": SLOPE, "rmse_ms": 1.0, "n": 16}
    found = model(tmp_path, {"fit": fit, "points": [{"misses": 3.0}] * 16})
    at_centre = found.ms_per_step(3.0)
    assert at_centre.high - at_centre.estimate == pytest.approx(2.1448 / 4, rel=1e-4)


def test_the_document_of_lanescope_model_is_read(tmp_path: Path) -> None:
    """As `lanescope model --json` prints it; further terms are told of."""
    point = Point(name="a", lane="l", misses=2.0, step_ms=30.0, steps=10)
    document = ModelDocument(
        fit=Fit(base_ms=22.0, ms_per_miss=SLOPE, r2=0.9, rmse_ms=0.1, n=4),
        weights="steps",
        terms={"k2": 1.5},
        points=[point, point.model_copy(update={"misses": 4.0})],
        rules=[],
        within=[],
        verdict="",
        predictions=[],
    )
    path = tmp_path / "model.json"
    path.write_text(document.model_dump_json(by_alias=True))
    found = read_cost_model(path)
    assert found.ms_per_step(3.0).estimate == pytest.approx(34.0)
    assert found.measured == (2.0, 4.0)
    assert [w.code for w in reservations(found, [3.0])] == ["model-terms-left-out"]


def test_beyond_the_range_is_outside(tmp_path: Path) -> None:
    body = {"model": {"base_ms": 22.0, "ms_per_miss": 4.0, "misses_range": [1.5, 4.5]}}
    found = model(tmp_path, body)
    assert [found.outside(m) for m in (1.4, 1.5, 4.5, 4.6)] == [True, False, False, True]


def test_rates_follow_times() -> None:
    """1.8 accepted tokens in 30 ms are 60 a second; the slow end of one is the other's fast end."""
    rate = tokens_per_s(Interval(estimate=30.0, low=20.0, high=36.0), 1.8)
    assert rate is not None
    assert (rate.low, rate.estimate, rate.high) == pytest.approx((50.0, 60.0, 90.0))
    assert tokens_per_s(Interval(estimate=30.0, low=20.0, high=36.0), None) is None
