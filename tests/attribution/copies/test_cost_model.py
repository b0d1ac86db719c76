"""The cost model: formulas of the field report, known lines, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lanescope.attribution.copies import regression, windows
from lanescope.attribution.copies.costmodel import slope_rate
from lanescope.attribution.copies.windows import Question, Window
from lanescope.schemas.errors import UnusableInput, UsageError

#: bytes of an expert's rows at hidden 6144 and width 2048: weights, and with their scales
WEIGHTS, WITH_SCALES = 12_582_912 + 6_291_456, 21_233_664


def test_slope_to_bandwidth() -> None:
    """75 layers, 4.27 ms a miss: which tensors are counted decides the figure."""
    assert slope_rate(75, WEIGHTS, 4.27) == pytest.approx(331.5, abs=0.05)
    assert slope_rate(75, WITH_SCALES, 4.27) == pytest.approx(373, abs=0.05)
    assert slope_rate(75, None, 4.27) is None


def _windows(n: int, base: float, slope: float, lanes: int = 1, noise: float = 0.3) -> list[Window]:
    rng = np.random.default_rng(11)
    x = rng.uniform(2, 7, n)
    y = base + slope * x + rng.normal(0, noise, n)
    return [
        Window(f"w{i}", f"lane{i % lanes}", float(x[i]), float(y[i]), 200, {"k2": float(i % 2)})
        for i in range(n)
    ]


def test_a_known_line_comes_back() -> None:
    found = windows.model(_windows(17, 22.4, 4.27), Question(layers=75, row_bytes=WITH_SCALES))
    assert found.fit is not None
    assert found.fit.ms_per_miss.low <= 4.27 <= found.fit.ms_per_miss.high
    assert found.fit.r2 > 0.95
    assert found.verdict.startswith("one lane")
    assert found.slope_GBps == pytest.approx(
        75 * WITH_SCALES / (found.fit.ms_per_miss.estimate or 0) / 1e6
    )


def test_intervals_of_the_slope_hold() -> None:
    """95 % intervals over many draws: the true slope is in at least 93 % of them."""
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = rng.uniform(1, 4, 60)
        y = 3 + 1.6 * x + rng.normal(0, 0.2, 60) + (rng.random(60) < 0.05) * rng.exponential(2, 60)
        line = regression.fit(x, y)
        assert line is not None
        _, low, high = line.slope()
        held += low <= 1.6 <= high
    assert held >= 0.93 * 200


def test_outliers_do_not_carry_the_line() -> None:
    x = np.linspace(1, 4, 80)
    y = 3 + 1.6 * x
    y[::10] += 30  # prefill beside the step
    line = regression.fit(x, y)
    assert line is not None
    assert line.slope()[0] == pytest.approx(1.6, abs=0.05)


def test_windows_weigh_by_their_steps() -> None:
    used = [Window("a", "l", 2, 30, 1), Window("b", "l", 3, 50, 1), Window("c", "l", 2, 20, 1000)]
    used += [Window("d", "l", 3, 24, 1000)]
    found = windows.model(used, Question())
    assert found.weights == "steps"
    assert found.fit is not None
    assert found.fit.ms_per_miss.estimate == pytest.approx(4, rel=0.05)


def test_a_slope_between_lanes_alone_is_said_so() -> None:
    rng = np.random.default_rng(1)
    points = []
    for lane, (x, y) in enumerate([(2.0, 30.0), (4.0, 40.0), (6.5, 52.0)]):
        for i in range(8):
            points.append(
                Window(f"{lane}-{i}", f"lane{lane}", x + rng.normal(0, 0.2), y + rng.normal(0, 0.5))
            )
    found = windows.model(points, Question())
    assert found.verdict.startswith("the slope exists between lanes and not within")
    whole = windows.model(_windows(24, 20, 4, lanes=3), Question())
    assert "within every lane" in whole.verdict


@pytest.mark.parametrize("rule", ["step_ms > 40", "tok_s < 30", "decode_rate >= 41", "gpu_ms < 9"])
def test_a_rule_on_the_response_is_refused(rule: str) -> None:
    with pytest.raises(UsageError, match="response"):
        windows.model(_windows(8, 20, 4), Question(rules=(rule,)))


def test_what_a_rule_leaves_out_is_in_the_result() -> None:
    found = windows.model(_windows(12, 20, 4), Question(rules=("k2 == 1",)))
    assert found.rules == ["k2 == 1"]
    assert [p.left_out_by for p in found.points] == ["", "k2 == 1"] * 6
    assert found.fit is not None
    assert found.fit.n == 6
    with pytest.raises(UsageError, match="has no kv_usage"):
        windows.model(_windows(8, 20, 4), Question(rules=("kv_usage < 20",)))


def test_predictions_stay_in_range_or_say_so() -> None:
    points = _windows(17, 22.4, 4.27)
    asked = Question(routed_rows=16, accepted=1.8, hit_rates=(0.725,))
    found = windows.model(points, asked).predictions[0]
    assert found.misses == pytest.approx(4.4)
    assert found.inside_range
    assert found.ms.low <= 22.4 + 4.27 * 4.4 <= found.ms.high
    assert found.tok_s is not None
    assert found.tok_s.estimate == pytest.approx(1800 / (found.ms.estimate or 1))
    with pytest.raises(UsageError, match="outside the measured"):
        windows.model(points, Question(at_misses=(0.5,)))
    far = windows.model(points, Question(at_misses=(0.5,), extrapolate=True)).predictions[0]
    assert not far.inside_range
    with pytest.raises(UsageError, match="routed rows"):
        windows.model(points, Question(hit_rates=(0.7,)))


def test_tables_of_windows(tmp_path: Path) -> None:
    table = tmp_path / "windows.csv"
    table.write_text("name,lane,misses,step_ms,steps\na,x,2,30,100\nb,x,3,34,50\nc,y,4,38.5,100\n")
    points = windows.windows_of_table(table)
    assert [(p.lane, p.misses, p.step_ms, p.steps) for p in points][1] == ("x", 3.0, 34.0, 50)
    table.write_text("name,misses,step_ms\na,2,\n")
    with pytest.raises(UnusableInput, match=r"line 2: column step_ms"):
        windows.windows_of_table(table)
    with pytest.raises(UnusableInput, match="too few"):
        windows.model(points[:2], Question())
