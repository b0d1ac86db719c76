"""Passes, prefill and layers from counts alone: right or withheld, never wrong."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.attribution.summary.parts import parts
from lanescope.attribution.summary.passes import Passes, Unclear, infer
from lanescope.attribution.summary.rows import Row
from tests.attribution.summary.planted import Planted, slot_cache

GEOMETRY = st.fixed_dictionaries(
    {
        "steps": st.integers(12, 1500),
        "layers": st.integers(6, 100),
        "requests": st.integers(1, 24),
        "dense": st.integers(0, 4),
        "draft": st.booleans(),
        "once": st.booleans(),
        "split": st.integers(0, 3),
        "indexed": st.sampled_from([0, 0, 21]),
        "seed": st.integers(0, 99),
    }
).filter(lambda g: 2 * g["requests"] < g["steps"])


def counts(planted: Planted) -> list[int]:
    return [r.instances for r in planted.rows]


def rows(planted: Planted) -> list[Row]:
    return [
        Row(r.name, r.name, r.instances, r.total_ns, None, r.shortest_ns, r.longest_ns)
        for r in planted.rows
    ]


@settings(max_examples=60, deadline=None)
@given(GEOMETRY)
def test_right_or_withheld(geometry: dict[str, int]) -> None:
    planted = slot_cache(**geometry)  # type: ignore[arg-type]
    found = infer(counts(planted))
    if isinstance(found, Unclear):
        assert found.why
        return
    assert found.decode == planted.steps
    assert found.prefill in (None, planted.requests)
    moe = planted.layers + int(geometry["draft"])
    assert found.layers in (None, planted.layers, moe, moe + geometry["dense"])


def test_most_captures_with_a_kernel_a_pass_are_told() -> None:
    rng = random.Random(3)
    right = 0
    for _ in range(40):
        d, layers = rng.randint(30, 900), rng.randint(16, 96)
        p = rng.randint(2, 12)
        found = infer(counts(slot_cache(d, layers, p, split=rng.randint(0, 1))))
        right += found == Passes(d, p, layers, getattr(found, "lead_bits", 0.0))
    assert right >= 34


def test_no_kernel_that_runs_once_a_pass_is_an_abstention() -> None:
    # every multiplier is even: half as many passes with twice the kernels would look the same
    found = infer([120 * k for k in (40, 80, 160, 44)] + [6 * 40, 126 * 40])
    assert isinstance(found, Unclear)


@pytest.mark.parametrize(
    "numbers",
    [[], [7], [10, 10, 10], [100, 200], [1, 2, 3, 5, 8, 13, 21, 34], [101, 103, 107, 109, 113]],
)
def test_counts_that_say_nothing(numbers: list[int]) -> None:
    assert isinstance(infer(numbers), Unclear)


def test_what_is_given_fills_in_where_counts_do_not_tell() -> None:
    numbers = [120 * k for k in (40, 80, 160, 44)] + [6 * 40, 126 * 40]
    found = infer(numbers, requests=6, layers=40, steps=120)
    assert isinstance(found, Passes)
    assert (found.decode, found.prefill, found.layers) == (120, 6, 40)


@settings(max_examples=40, deadline=None)
@given(GEOMETRY)
def test_every_row_has_one_phase_and_certain_ones_are_right(geometry: dict[str, int]) -> None:
    planted = slot_cache(**geometry)  # type: ignore[arg-type]
    found = infer(counts(planted))
    if isinstance(found, Unclear) or found.prefill is None:
        return
    told = parts(rows(planted), found)
    assert [p.row.instances for p in told] == counts(planted)
    for part, row in zip(told, planted.rows, strict=True):
        if row.phase == "other" or part.phase == "unclear":
            continue
        # the copies and the bypass GEMMs hold nearly all of the time: these must be right
        if row.total_ns > 0.02 * planted.total("decode", "prefill", "both"):
            assert part.phase in (row.phase, "both"), (row, part)


def test_tiles_that_share_prompts_out_are_prefill() -> None:
    planted = slot_cache(143, 75, 4, split=1, indexed=21)
    found = infer(counts(planted))
    assert isinstance(found, Passes)
    told = {p.row.name: p for p in parts(rows(planted), found)}
    for name in (
        "nvjet_sm103_tst_128x56_64x9_2x1_v_bz_TNT",
        "nvjet_sm103_tst_128x64_64x8_4x1_v_bz_TNT",
    ):
        assert told[name].phase == "prefill"
        assert told[name].how == "(3 + 1) x 79"


def test_counts_that_fit_decode_and_prefill_alike_are_told_by_duration_or_not_at_all() -> None:
    # 4 prefill passes of 64 layers are as many as 128 decode passes of 2
    planted = slot_cache(128, 64, 4, dense=0, draft=False)
    found = infer(counts(planted))
    assert isinstance(found, Passes)
    told = {p.row.name: p for p in parts(rows(planted), found)}
    bypass = told["bmm_E2m1_E2m1E2m1_Fp32_t128x32x512u2_s5"]
    assert bypass.phase == "prefill"
    assert bypass.how.endswith("told by duration")
    # as short as a decode kernel, nothing tells it
    assert told["nvjet_sm103_tst_128x64_64x9_4x1_v_bz_TNN"].phase in ("unclear", "decode")
