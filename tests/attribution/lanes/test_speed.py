"""Probe rows: every format, the paired comparison by formula, and what is said unasked."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from lanescope.attribution.lanes.probes import read_lane
from lanescope.attribution.lanes.speed import compare_speed
from lanescope.schemas.errors import LanescopeError, UnusableInput, UsageError

Make = Any

BASE = [54.0, 50.8, 49.9, 52.1, 54.6, 50.9, 56.6, 50.2]


def codes(comparison: Any) -> set[str]:
    return {f.code for f in comparison.findings}


def metric(comparison: Any, name: str) -> Any:
    return next(m for m in comparison.metrics if m.metric == name)


def row(prompt: int, rate: float, lane: str = "a", **more: Any) -> dict[str, Any]:
    """A row of 512 tokens after half a second, at `rate`."""
    return {
        "lane": lane,
        "prompt": f"p{prompt}",
        "repetition": more.pop("repetition", 0),
        "tokens": 512,
        "seconds": 0.5 + 511 / rate,
        "ttft": 0.5,
        **more,
    }


def test_repetition_files_drop_the_warm_one_and_take_medians(repetitions: Make) -> None:
    lane = read_lane(str(repetitions("k1", BASE)))
    assert lane.name == "k1"
    assert (len(lane.rows), len(lane.scored())) == (32, 24)
    gains = [3.0, 5.0, 4.0, -1.0, 2.0, 6.0, 7.0, 1.0]
    better = [b * (1 + g / 100) for b, g in zip(BASE, gains, strict=True)]
    found = compare_speed([lane], read_lane(str(repetitions("k2", better))))
    rate = metric(found, "decode_rate")
    assert [p.gain_pct for p in rate.prompts] == pytest.approx(gains)
    assert rate.mean_gain_pct == pytest.approx(np.mean(gains))
    assert (rate.wins, rate.losses, rate.ties) == (7, 1, 0)
    assert found.base[0].decode_rate_median == pytest.approx(median(BASE))
    assert metric(found, "ttft").ties == 8
    assert {"relaunches-not-covered", "few-prompts"} <= codes(found)


def test_every_format_gives_the_same_lane(repetitions: Make, rows: Make, tmp_path: Path) -> None:
    table = tmp_path / "x.csv"
    lines = ["pid,out,latency_ms,first_ms"]
    lines += [f"p{i},512,{1000 * (0.5 + 511 / r)},500" for i, r in enumerate(BASE)]
    table.write_text("\n".join(lines) + "\n")
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps([row(i, r) for i, r in enumerate(BASE)]))
    columns = {
        "prompt": "pid",
        "tokens": "out",
        "wall_s": "latency_ms/1000",
        "ttft_s": "first_ms/1000",
    }
    lanes = [
        read_lane(str(table), columns),
        read_lane(str(rows("rows", [row(i, r) for i, r in enumerate(BASE)]))),
        read_lane(str(listed)),
        read_lane(
            str(rows("two", [row(0, 9, "b"), *[row(i, r) for i, r in enumerate(BASE)]])) + "@a"
        ),
    ]
    for lane in lanes:
        assert [lane.rate(r) for r in lane.scored()] == pytest.approx(BASE)


def test_probe_files_join_and_keep_their_own_rate_rule(tmp_path: Path) -> None:
    def probe(name: str, rates: list[float], extra: int = 0) -> Path:
        path = tmp_path / name
        records = [
            {
                "index": i,
                "kind": "code",
                "wall_seconds": 0.6 + 512 / r,
                "ttft_seconds": 0.6,
                "decode_seconds": 512 / r,
                "prompt_tokens": 50,
                "completion_tokens": 512,
                "metric_delta": {
                    "drafts": 290.0,
                    "draft_tokens": 290.0,
                    "accepted_tokens": 222.0 + extra,
                },
            }
            for i, r in enumerate(rates)
        ]
        path.write_text(json.dumps({"rows": records}))
        return path

    lane = read_lane(f"{probe('a.json', [51.0, 52.0])}+{probe('b.json', [53.0])}")
    assert [lane.rate(r) for r in lane.scored()] == pytest.approx([51.0, 52.0, 53.0])
    assert len({r.prompt for r in lane.scored()}) == 3
    clean = compare_speed([lane], lane)
    assert "another-client" not in codes(clean)
    assert metric(clean, "accepted_per_step").prompts[0].base == pytest.approx(1 + 222 / 290)
    # twice the tokens passed through the server: the second client's are in the counters
    other = read_lane(f"{probe('c.json', [45.0, 44.0], 500)}+{probe('d.json', [46.0], 500)}")
    found = compare_speed([other], lane)
    assert "another-client" in codes(found)
    assert {m.metric for m in found.metrics} == {"decode_rate", "token_gap"}
    assert {"ttft", "throughput", "accepted_per_step"} <= {a.what for a in found.abstained}
    assert found.base[0].contaminated_rows == 3


def test_rows_as_the_capture_runner_writes_them(rows: Make) -> None:
    records = [
        {
            "phase": "control",
            "concurrency": 1,
            "repetition": n,
            "prompt_id": f"p{i}",
            "began_unix_ns": 1_790_000_000_000_000_000,
            "wall_ns": round(1e9 * (0.5 + 510 / r)),
            "ttft_ns": 500_000_000,
            "prompt_tokens": 30,
            "completion_tokens": 512,
            "decode_tokens_per_s": r,
            "error": "",
        }
        for i, r in enumerate(BASE)
        for n in range(3)
    ]
    failed = {**records[0], "error": "timed out", "completion_tokens": None, "wall_ns": None}
    warm = {**records[0], "phase": "warmup", "decode_tokens_per_s": 1.0}
    lane = read_lane(str(rows("probe", [*records, failed, warm])))
    assert [lane.rate(r) for r in lane.scored()][::3] == BASE
    assert lane.scored()[0].ttft_s == pytest.approx(0.5)
    assert "failed-requests" in codes(compare_speed([lane], lane))


def test_mixed_rate_rules_are_refused(repetitions: Make, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    record = {"index": 0, "wall_seconds": 11, "ttft_seconds": 1, "decode_seconds": 10}
    path.write_text(json.dumps({"rows": [{**record, "completion_tokens": 512}]}))
    found = compare_speed([read_lane(str(repetitions("k1", BASE)))], read_lane(str(path)))
    assert found.refused
    assert not found.metrics


def test_accepted_tokens_without_drafts_are_checked_at_every_depth(rows: Make) -> None:
    # K=2: 200 steps draft 400, accept 312: 512 tokens; a second client doubles both
    own = read_lane(
        str(rows("own", [row(i, r, drafted=400, accepted=312) for i, r in enumerate(BASE)]))
    )
    other = read_lane(
        str(rows("other", [row(i, r, drafted=800, accepted=724) for i, r in enumerate(BASE)]))
    )
    assert "another-client" not in codes(compare_speed([own], own))
    assert "another-client" in codes(compare_speed([own], other))


def test_the_base_decides_the_sign(repetitions: Make) -> None:
    slow = read_lane(str(repetitions("ring", [r * 0.992 for r in BASE])))
    plain = read_lane(str(repetitions("plain", BASE)))
    candidate = read_lane(str(repetitions("wide", [r * 0.998 for r in BASE])))
    found = compare_speed([slow, plain], candidate)
    assert [c.wins for c in found.controls] == [8, 0]
    assert [c.control for c in found.controls] == ["ring", "plain"]
    assert "base-decides-sign" in codes(found)
    both = [(a + b) / 2 for a, b in zip([r * 0.992 for r in BASE], BASE, strict=True)]
    expected = np.mean([100 * (0.998 * r / b - 1) for r, b in zip(BASE, both, strict=True)])
    assert metric(found, "decode_rate").mean_gain_pct == pytest.approx(expected)


def test_relaunches_and_a_floor_widen_what_is_claimed(repetitions: Make) -> None:
    base = read_lane(str(repetitions("d", BASE)))
    candidate = read_lane(str(repetitions("e", [r * 1.05 for r in BASE])))
    again = read_lane(str(repetitions("f", [r * 1.04 for r in BASE])))
    alone = compare_speed([base], candidate)
    assert metric(alone, "decode_rate").launch_low_pct is None
    floor = metric(compare_speed([base], candidate, launch_floor_pct=0.6), "decode_rate")
    assert floor.launch_low_pct == pytest.approx(floor.low_pct - 0.6)
    more = compare_speed([base], candidate, candidate_launches=[again])
    rate = metric(more, "decode_rate")
    assert rate.mean_gain_pct == pytest.approx(4.5)
    assert rate.launch_low_pct < 4.0 < 5.0 < rate.launch_high_pct
    assert "relaunches-not-covered" not in codes(more)


def test_one_queued_repetition_is_named(rows: Make) -> None:
    records = [
        row(i, r * (1 + 1e-4 * n), repetition=n) for i, r in enumerate(BASE) for n in range(3)
    ]
    records[4] |= {"ttft": 15.4, "seconds": 15.4 + 511 / (BASE[1] * 1.005)}
    lane = read_lane(str(rows("queued", records)))
    [found] = [f for f in compare_speed([lane], lane).findings if f.code == "queued-repetition"][:1]
    assert "p1" in found.message
    assert "15.4 s" in found.message


def test_memory_warmup_rows_and_unequal_prompts_are_said(rows: Make) -> None:
    base = [row(i, r, memory_mib=237868) for i, r in enumerate(BASE)]
    new = [row(i, r, memory_mib=249042) for i, r in enumerate(BASE[:6])]
    new.append({**row(6, 50.0, memory_mib=249042), "tokens": 4})
    found = compare_speed([read_lane(str(rows("b", base)))], read_lane(str(rows("n", new))))
    assert {"unequal-memory", "warmup-weighs-like-work", "unequal-prompts"} <= codes(found)
    assert "device memory" not in {a.what for a in found.abstained}
    assert len(metric(found, "decode_rate").prompts) == 7


def test_streams_have_walls_a_straggler_and_two_rates(rows: Make) -> None:
    records = [row(i, r) for i, r in enumerate(BASE)]
    # admitted one after another; all four decode between t = 4 s and t = 20 s
    starts = {"start_s": 100.0, "concurrency": 4}
    walls = [20.0, 21.0, 22.0, 30.0]
    records += [
        {**row(20 + i, 1.0), "tokens": 401, "ttft": 1.0 + i, "seconds": w, **starts}
        for i, w in enumerate(walls)
    ]
    lane = read_lane(str(rows("c4", records)))
    [entry] = [c for c in compare_speed([lane], lane).concurrency if c.lane == "a"][:1]
    assert entry.walls_s == walls
    assert (entry.straggler, entry.straggler_wall_s) == ("p23", 30.0)
    assert entry.aggregate_tok_s == pytest.approx(4 * 401 / 30)
    steady = sum(400 / (w - 1 - i) for i, w in enumerate(walls))
    assert entry.steady_tok_s == pytest.approx(steady)


def test_long_prompts_have_a_wall_ratio(rows: Make) -> None:
    base = [row(i, r) for i, r in enumerate(BASE)] + [row(9, 50.0, kind="long", seconds=20.0)]
    new = [row(i, r) for i, r in enumerate(BASE)] + [row(9, 50.0, kind="long", seconds=15.0)]
    found = compare_speed([read_lane(str(rows("b", base)))], read_lane(str(rows("n", new))))
    assert (found.long_wall_ratio, found.long_prompts) == (pytest.approx(0.75), 1)


BROKEN = {
    "no tokens": {"prompt": "a", "seconds": 3, "ttft": 1},
    "no wall": {"prompt": "a", "tokens": 3},
    "not a number": {"prompt": "a", "tokens": "many", "seconds": 3},
    "infinite": {"prompt": "a", "tokens": 3, "seconds": float("inf")},
    "negative wall": {"prompt": "a", "tokens": 3, "seconds": -3},
    "first token after the last": {"prompt": "a", "tokens": 3, "seconds": 3, "ttft": 4},
    "no tokens at all": {"prompt": "a", "tokens": 0, "seconds": 3},
    "half a token": {"prompt": "a", "tokens": 3.5, "seconds": 3},
}


@pytest.mark.parametrize("bad", BROKEN.values(), ids=BROKEN.keys())
def test_a_bad_row_is_one_line_with_file_and_row(rows: Make, bad: dict[str, Any]) -> None:
    path = rows("bad", [row(0, 50.0), bad])
    with pytest.raises(UnusableInput, match=r"bad\.jsonl, row 2"):
        read_lane(str(path))


@pytest.mark.parametrize("text", ["", "{", "3", "[1, 2]", '{"a": 1}', "a\x00b", '{"raw": [3]}'])
def test_what_is_no_probe_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(LanescopeError) as caught:
        read_lane(str(path))
    assert "x.json" in str(caught.value)


def test_names_that_do_not_fit_are_said(rows: Make, tmp_path: Path) -> None:
    two = rows("two", [row(0, 50, "a"), row(0, 50, "b")])
    with pytest.raises(UsageError, match="several lanes"):
        read_lane(str(two))
    with pytest.raises(UnusableInput, match="no rows of lane c"):
        read_lane(f"{two}@c")
    with pytest.raises(UnusableInput, match="no such file"):
        read_lane(str(tmp_path / "none.json"))
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match="no column out"):
        read_lane(str(table), {"tokens": "out"})
