"""Routing traces in and out of files, and what is said about files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.attribution.replay.against import agreement, write_misses
from lanescope.attribution.replay.check import check
from lanescope.attribution.replay.files import read_trace, write_trace
from lanescope.attribution.replay.generate import Recipe, generate
from lanescope.attribution.replay.policies import Scope, replay
from lanescope.attribution.replay.trace import RoutingTrace
from lanescope.schemas.errors import UnusableInput, UsageError

RECIPE = Recipe(tokens=40, layers=3, experts=12, top_k=3, tokens_per_step=2, first_layer=3)


def same(a: RoutingTrace, b: RoutingTrace) -> bool:
    arrays = ("experts", "step_starts", "prefill", "step_ids")
    return a.layers == b.layers and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays
    )


def rows_of(trace: RoutingTrace) -> dict[str, Any]:
    """The trace as long-format columns, token after token."""
    layers, tokens, k = trace.experts.shape
    step = np.repeat(trace.step_ids, np.diff(trace.step_starts))
    columns: dict[str, Any] = {
        "step": np.repeat(step, layers),
        "token": np.repeat(np.arange(tokens), layers),
        "layer": np.tile(trace.layers, tokens),
    }
    picks = trace.experts.transpose(1, 0, 2).reshape(-1, k)
    return columns | {f"e{i}": picks[:, i] for i in range(k)}


@settings(max_examples=25)
@given(
    st.integers(1, 30),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([8, 300]),
    st.booleans(),
)
def test_a_written_trace_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    tokens: int,
    layers: int,
    per_step: int,
    experts: int,
    prefill: bool,
) -> None:
    recipe = Recipe(
        tokens=tokens, layers=layers, experts=experts, top_k=3, tokens_per_step=per_step,
        prefill_every=4 if prefill else 0, prefill_tokens=5, first_layer=3,
    )  # fmt: skip
    trace = generate(recipe)
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    write_trace(trace, path)
    back = read_trace(path)
    assert same(trace, back)
    assert back.n_experts == experts


def test_rows_in_any_order_and_other_names(tmp_path: Path) -> None:
    trace = generate(RECIPE)
    columns = rows_of(trace)
    order = np.random.default_rng(0).permutation(len(columns["step"]))
    ids = pa.array(np.stack([columns[f"e{i}"] for i in range(3)], axis=1)[order].tolist())
    renamed = {
        "verify": columns["step"][order],
        "tok": columns["token"][order],
        "block": columns["layer"][order],
        "topk_ids": ids,
    }
    pq.write_table(pa.table(renamed), tmp_path / "t.parquet")
    names = {"step": "verify", "token": "tok", "layer": "block", "experts": "topk_ids"}
    assert same(read_trace(tmp_path / "t.parquet", names), trace)


def test_csv_and_numbered_columns_of_another_prefix(tmp_path: Path) -> None:
    trace = generate(RECIPE)
    columns = {name.replace("e", "pick_", 1) if name[1:].isdigit() else name: values
               for name, values in rows_of(trace).items()}  # fmt: skip
    pyarrow.csv.write_csv(pa.table(columns), tmp_path / "t.csv")
    assert same(read_trace(tmp_path / "t.csv", {"experts": "pick_"}), trace)


def test_ten_and_more_picks_stay_in_order(tmp_path: Path) -> None:
    trace = generate(Recipe(tokens=6, layers=1, experts=40, top_k=12))
    pq.write_table(pa.table(rows_of(trace)), tmp_path / "t.parquet")
    assert same(read_trace(tmp_path / "t.parquet"), trace)


def test_numpy_arrays_by_axes(tmp_path: Path) -> None:
    trace = generate(Recipe(tokens=20, layers=3, experts=12, top_k=2))
    np.save(tmp_path / "ltk.npy", trace.experts)
    np.save(tmp_path / "tlk.npy", trace.experts.transpose(1, 0, 2))
    assert same(read_trace(tmp_path / "ltk.npy", axes="ltk"), trace)
    assert same(read_trace(tmp_path / "tlk.npy"), trace)
    stepped = generate(RECIPE)
    np.savez(
        tmp_path / "t.npz",
        experts=stepped.experts.transpose(1, 0, 2),
        step=np.repeat(stepped.step_ids, np.diff(stepped.step_starts)),
        layers=np.array(stepped.layers),
        n_experts=12,
    )
    assert same(read_trace(tmp_path / "t.npz"), stepped)


def _broken(columns: dict[str, Any], how: str) -> dict[str, Any]:
    if how == "row missing":
        return {name: values[:-1] for name, values in columns.items()}
    if how == "row doubled":
        return {name: np.append(values, values[-1:]) for name, values in columns.items()}
    if how == "negative id":
        return columns | {"e0": np.append(-1, columns["e0"][1:].astype(int))}
    if how == "steps fall":
        return columns | {"step": columns["step"][::-1]}
    if how == "step differs between layers":
        step = columns["step"].copy()
        step[0] += 1
        return columns | {"step": step}
    if how == "fractional id":
        return columns | {"e0": columns["e0"] + 0.5}
    if how == "empty cell":
        return columns | {"e0": pa.array([None, *columns["e0"][1:].tolist()])}
    if how == "words":
        return columns | {"layer": pa.array([f"layer {n}" for n in columns["layer"]])}
    if how == "no rows":
        return {name: values[:0] for name, values in columns.items()}
    if how == "no layer":
        return {name: values for name, values in columns.items() if name != "layer"}
    assert how == "no picks"
    return {name: columns[name] for name in ("step", "token", "layer")}


BROKEN = [
    "row missing", "row doubled", "negative id", "steps fall", "step differs between layers",
    "fractional id", "empty cell", "words", "no rows", "no layer", "no picks",
]  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_trace_gives_one_line(tmp_path: Path, how: str) -> None:
    columns = _broken(rows_of(generate(RECIPE)), how)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(UnusableInput) as caught:
        read_trace(path)
    assert "t.parquet" in str(caught.value)
    assert "\n" not in str(caught.value)
    found = check(path, {})
    assert not found.usable
    if how == "row missing":
        assert found.counts["missing_token_layers"] == 1
    if how == "row doubled":
        assert found.counts["doubled_rows"] == 1
    if how == "negative id":
        assert found.counts["negative_ids"] == 1


@pytest.mark.parametrize("content", [b"", b"PAR1 not really", b"\x93NUMPY\x01\x00"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npy", ".npz"])
def test_garbage_gives_one_line(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_bytes(content)
    with pytest.raises(UnusableInput):
        read_trace(path)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    meta = {"lanescope": json.dumps({"schema": "lanescope.routing/9"})}
    table = pa.table(rows_of(generate(RECIPE))).replace_schema_metadata(meta)
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(UnusableInput, match=r"lanescope\.routing/9"):
        read_trace(tmp_path / "t.parquet")


def test_too_few_experts_are_refused(tmp_path: Path) -> None:
    write_trace(generate(RECIPE), tmp_path / "t.parquet")
    with pytest.raises(UnusableInput, match="do not fit 4 experts"):
        read_trace(tmp_path / "t.parquet", n_experts=4)


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_text("precious")
    with pytest.raises(UsageError, match="exists"):
        write_trace(generate(RECIPE), path)
    assert path.read_text() == "precious"
    write_trace(generate(RECIPE), path, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_counts_and_warnings_of_a_whole_trace(tmp_path: Path) -> None:
    columns = rows_of(generate(RECIPE))
    columns["e1"] = np.append(columns["e0"][:2], columns["e1"][2:])  # two rows repeat an expert
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    found = check(tmp_path / "t.parquet", {}, n_experts=99)
    assert found.usable
    assert found.counts["token_layers_with_a_repeated_expert"] == 2
    assert found.counts["verification_steps"] == 20
    assert {w.code for w in found.warnings} == {"repeated-experts", "unused-experts"}


def test_an_engine_that_agrees_and_one_that_does_not(tmp_path: Path) -> None:
    trace = generate(
        Recipe(tokens=200, layers=2, experts=16, top_k=2, prefill_every=10, prefill_tokens=17)
    )
    slots = dict.fromkeys(trace.layers, 6)
    _, lru = replay(trace, slots, ["lru"], keep="lru")
    assert lru is not None
    scope = Scope.of(trace)
    path = tmp_path / "misses.parquet"
    write_misses(path, trace, lru, scope)
    found = agreement(path, trace, lru, scope)
    assert found.equal == found.layer_steps == lru.size
    wrong = lru.copy()
    wrong[1, 5] += 1
    found = agreement(path, trace, wrong, scope)
    assert found.equal == lru.size - 1
    step = trace.step_ids[scope.cached][5]
    assert found.first_difference.startswith(f"step {step}, layer 1: engine {lru[1, 5]}")
    as_json = tmp_path / "truth.json"
    as_json.write_text(json.dumps({"misses": lru.T.tolist()}))
    assert agreement(as_json, trace, lru, scope).equal == lru.size
    as_json.write_text(json.dumps({"misses": lru.tolist()}))
    with pytest.raises(UnusableInput, match="misses of shape"):
        agreement(as_json, trace, lru, scope)


def test_regrouping_keeps_the_tokens(tmp_path: Path) -> None:
    trace = generate(Recipe(tokens=7, layers=1, experts=8, top_k=2))
    pairs = trace.regrouped(2)
    assert pairs.step_starts.tolist() == [0, 2, 4, 6, 7]
    assert np.array_equal(pairs.experts, trace.experts)
