"""The engine's own lines. Expected values are formulas over the printed figures."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.attribution.copies import engine_log
from lanescope.schemas.errors import UnusableInput, UsageError

LINE = (
    "(EngineCore pid=7) SLOT_CACHE STATS window 20s: steps/layer={steps} "
    "misses/step/layer={misses:.2f} HIT={hit:.3f} best=40:0.71 worst=12:-0.61 median_layer_hit=0.62"
)


def _line(steps: int, misses: float, routes: float, printed: bool = False) -> str:
    text = LINE.format(steps=steps, misses=misses, hit=1 - misses / routes)
    return text.replace("misses/", f"routes/step/layer={routes:.2f} misses/") if printed else text


def test_both_spellings_and_negative_values() -> None:
    lines = engine_log.parse([_line(812, 3.12, 8), "noise", _line(18, 9.23, 16, printed=True)])
    assert [x.steps for x in lines] == [812, 18]
    assert [x.number for x in lines] == [1, 3]
    assert lines[0].routes is None
    assert lines[1].routes is not None
    assert lines[1].routes.value == 16
    below = engine_log.parse([_line(10, 9.23, 8)])[0].hit
    assert below is not None
    assert below.value == pytest.approx(1 - 9.23 / 8, abs=5e-4)


def test_windows_weigh_by_their_steps() -> None:
    lines = engine_log.parse([_line(4, 2.00, 8), _line(396, 4.00, 8)])
    hits, _ = engine_log.summarize(lines, 16)
    assert hits.misses.estimate == pytest.approx((4 * 2 + 396 * 4) / 400)
    assert hits.misses_unweighted == pytest.approx(3.0)
    assert hits.steps == 400


@pytest.mark.parametrize(("k", "misses"), [(1, 3.20), (1, 4.10), (1, 6.83), (2, 4.34)])
def test_the_denominator_is_the_routed_rows_of_a_step(k: int, misses: float) -> None:
    """A printed HIT over the 8 routes of one token becomes (K + HIT) / (K + 1)."""
    lines = engine_log.parse([_line(300, misses, 8)])
    routed = 8 * (k + 1)
    hits, found = engine_log.summarize(lines, routed)
    assert hits.hit_rate is not None
    printed = 1 - misses / 8
    assert hits.hit_rate.estimate == pytest.approx((k + printed) / (k + 1))
    assert hits.printed_denominator == pytest.approx(8, rel=0.01)
    assert [f.code for f in found] == ["printed-hit-contradicts-misses"]


def test_a_right_printed_value_is_no_contradiction() -> None:
    hits, found = engine_log.summarize(engine_log.parse([_line(300, 4.40, 16, printed=True)]), None)
    assert found == []
    assert hits.routed_rows == 16
    assert hits.hit_rate is not None
    assert hits.hit_rate.estimate == pytest.approx(0.725)  # 1 - 4.4 / 16
    assert hits.hit_rate.low == pytest.approx(1 - 4.405 / 16)
    assert hits.hit_rate.high == pytest.approx(1 - 4.395 / 16)


@given(
    st.lists(st.tuples(st.integers(1, 900), st.floats(0, 16)), min_size=1, max_size=20),
    st.sampled_from([8, 16, 24, 32]),
)
def test_rounding_never_contradicts_itself(rows: list[tuple[int, float]], routes: int) -> None:
    """HIT made from the unrounded misses is allowed for, whatever the two roundings did."""
    texts = [
        LINE.format(steps=steps, misses=misses, hit=1 - misses / routes) for steps, misses in rows
    ]
    hits, found = engine_log.summarize(engine_log.parse(texts), routes)
    assert found == []
    true = sum(s * m for s, m in rows) / sum(s for s, _ in rows)
    assert hits.misses.low - 1e-9 <= true <= hits.misses.high + 1e-9


def test_lines_of_a_window_of_time() -> None:
    texts = [f"2026-09-13T10:0{i}:00.123456789Z {_line(100 * (i + 1), 3.0, 8)}" for i in range(3)]
    lines = engine_log.parse(texts)
    since = datetime(2026, 9, 13, 10, 1, tzinfo=UTC)
    assert [x.steps for x in engine_log.between(lines, since, None)] == [200, 300]
    until = datetime(2026, 9, 13, 10, 1, 30)
    assert [x.steps for x in engine_log.between(lines, None, until)] == [100, 200]
    with pytest.raises(UsageError, match="no times"):
        engine_log.between(engine_log.parse([_line(1, 1.0, 8)]), since, None)


def test_own_pattern() -> None:
    lines = engine_log.parse(["cache: n=40 miss=2.5"], r"n=(?P<steps>\d+) miss=(?P<misses>[\d.]+)")
    hits, _ = engine_log.summarize(lines, None)
    assert hits.misses.estimate == 2.5
    assert hits.hit_rate is None
    with pytest.raises(UsageError, match="steps"):
        engine_log.parse([], r"(?P<misses>\d+)")
    with pytest.raises(UsageError, match="regular expression"):
        engine_log.parse([], "(")


def test_a_log_without_lines_is_one_line(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"\xff\xfe no statistics\n")
    with pytest.raises(UnusableInput, match="no line of cache statistics"):
        engine_log.read(log)
    with pytest.raises(UnusableInput, match="cannot be read"):
        engine_log.read(tmp_path / "missing.log")
