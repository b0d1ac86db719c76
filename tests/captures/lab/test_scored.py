"""Steps of a trace find the engine's own, and nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.captures.lab.scored import align, find_truth, read_record, read_steps, truth_of
from lanescope.profiler.cli.lab import command
from lanescope.schemas.errors import UnusableInput


def starts(seed: int, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Beginnings of steps of 2 to 6 ms, as a slot cache makes them."""
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.integers(2_000_000, 6_000_000, count)).astype(np.int64)


@settings(deadline=None)
@given(
    seed=st.integers(0, 10_000),
    first=st.integers(0, 60),
    count=st.integers(20, 60),
    offset=st.integers(-(10**15), 10**15),
)
def test_a_window_of_steps_is_found_on_another_clock(
    seed: int, first: int, count: int, offset: int
) -> None:
    engine = starts(seed, 140)
    late = np.random.default_rng(seed + 1).integers(50_000, 250_000, count)  # launch after start
    found = engine[first : first + count] + late - offset
    assert align(found, engine).tolist() == list(range(first, first + count))


def test_steps_that_the_trace_lost_leave_a_gap() -> None:
    engine = starts(3, 100)
    kept = np.r_[10:30, 33:60]
    assert align(engine[kept] - 5_000, engine).tolist() == kept.tolist()


def test_another_engines_record_is_refused() -> None:
    with pytest.raises(UnusableInput):
        align(starts(1, 50), starts(2, 100))


def test_steps_like_clockwork_are_refused_rather_than_shifted() -> None:
    engine = np.arange(100, dtype=np.int64) * 4_000_000
    with pytest.raises(UnusableInput, match="more than one place"):
        align(engine[20:40], engine)


def test_more_steps_than_the_engine_ran_are_refused() -> None:
    with pytest.raises(UnusableInput):
        align(starts(1, 50), starts(1, 40))


@pytest.fixture
def recorded(
    engine: Callable[..., Any], outputs: Callable[..., Any], tmp_path: Path
) -> tuple[Path, Path]:
    """An engine's record, and steps as an attribution would list them for the last 30 but 5."""
    with engine(truth=tmp_path / "truth", k=1) as made:
        outputs(made, [list(b"one prompt")], max_tokens=120)
    own = read_record(tmp_path / "truth").verification()[-35:-5]
    frame = pd.DataFrame({"host_start_ns": [p["start_ns"] - 123_456_789 for p in own]})
    frame["measured"] = True
    (tmp_path / "out").mkdir()
    frame.to_parquet(tmp_path / "out" / "steps.parquet")
    return tmp_path / "truth", tmp_path / "out"


def test_truth_holds_the_misses_of_exactly_those_steps(recorded: tuple[Path, Path]) -> None:
    record = read_record(recorded[0])
    truth = truth_of(record, read_steps(recorded[1]))
    own = record.verification()[-35:-5]
    assert truth["misses"] == [p["misses"] for p in own]
    assert [r["engine_step"] for r in truth["step_rows"]] == [p["step"] for p in own]
    assert truth["misses_per_layer_step"] == np.mean([p["misses"] for p in own])
    assert truth["hit_rate"] == pytest.approx(1 - truth["misses_per_layer_step"] / 4)
    assert truth["routed_per_layer_step"] == 4


def test_of_several_records_the_one_that_fits_is_taken(
    recorded: tuple[Path, Path], engine: Callable[..., Any], outputs: Callable[..., Any]
) -> None:
    folder = recorded[0].parent / "records"
    folder.mkdir()
    recorded[0].rename(folder / "20260101T000000Z-1")
    with engine(truth=folder / "20260102T000000Z-2", k=1) as made:
        outputs(made, [list(b"another prompt")], max_tokens=150)
    truth = find_truth(folder, read_steps(recorded[1]))
    own = read_record(folder / "20260101T000000Z-1").verification()[-35:-5]
    assert truth["misses"] == [p["misses"] for p in own]


def test_a_torn_last_line_is_left_out(recorded: tuple[Path, Path]) -> None:
    before = len(read_record(recorded[0]).passes)
    with (recorded[0] / "steps.jsonl").open("a") as file:
        file.write('{"step": 9')
    assert len(read_record(recorded[0]).passes) == before


@pytest.mark.parametrize("content", [None, "[]", '{"schema": "other/1"}', "{"])
def test_what_is_no_record_is_refused_by_name(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "engine.json").write_text(content)
        (tmp_path / "steps.jsonl").write_text("")
    with pytest.raises(UnusableInput, match=str(tmp_path)):
        read_record(tmp_path)


def test_the_verb_writes_the_truth_and_never_over_it(
    recorded: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out = recorded[0].parent / "truth.json"
    args = ["truth", *map(str, recorded), "--out", str(out)]
    command.main(args, standalone_mode=False)
    assert "30" in capsys.readouterr().out
    assert len(json.loads(out.read_text())["misses"]) == 30
    with pytest.raises(Exception, match="exists"):
        command.main(args, standalone_mode=False)
