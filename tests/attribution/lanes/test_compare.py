"""Real lanes held against each other: exact, comparable or refused, and never a winner for free."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from lanescope.attribution.attribute import attribute
from lanescope.attribution.lanes.compare import assemble
from lanescope.attribution.lanes.lane import Lane, load_lane
from lanescope.profiler.cli.main import main
from lanescope.schemas.documents.comparison import ComparisonDocument, PairDocument
from tests.conftest import load_json, trace_path

Surgery = Callable[..., Path]
TEXT = "coalesce(text, (SELECT value FROM StringIds WHERE id = textId))"
NAMED = "(SELECT id FROM StringIds WHERE value = '{}')"


@pytest.fixture(scope="module")
def lanes() -> dict[str, Lane]:
    return {n: load_lane(trace_path(n)) for n in ("k1", "k2", "slots20", "slots44")}


def pair(a: Lane, b: Lane) -> PairDocument:
    return assemble([a, b]).pairs[0]


def by_name(found: PairDocument) -> dict[str, Any]:
    return {d.metric: d for d in found.deltas}


def effects(document: ComparisonDocument) -> dict[str, str]:
    return {d.what: d.effect for d in document.differs}


@pytest.mark.parametrize(("one", "two"), [("k1", "k2"), ("slots20", "k1"), ("k1", "slots44")])
def test_deltas_are_the_differences_of_the_references(
    lanes: dict[str, Lane], one: str, two: str
) -> None:
    found = by_name(pair(lanes[one], lanes[two]))
    references = [load_json(name, "reference") for name in (one, two)]
    for metric, key in (("sum", "sum_ns"), ("busy", "union_ns")):
        totals = [sum(step[key] for step in r["steps"]) for r in references]
        assert (found[metric].incumbent_total_ns, found[metric].candidate_total_ns) == tuple(totals)
    copies = [sum(r["copy_ns_by_tensor"].values()) for r in references]
    row = found["row_copy"]
    assert (row.incumbent_total_ns, row.candidate_total_ns) == tuple(copies)
    steps = [len(r["steps"]) for r in references]
    exact = Fraction(copies[1], steps[1]) - Fraction(copies[0], steps[0])
    assert row.delta_ms == pytest.approx(float(exact) / 1e6, rel=1e-12)
    assert row.certainty == "certain"
    assert row.sign == ("+" if exact > 0 else "-")
    assert row.low_ms < row.delta_ms < row.high_ms


def test_the_waterfall_closes_to_the_nanosecond(lanes: dict[str, Lane]) -> None:
    for one, two in (("k1", "k2"), ("slots20", "slots44"), ("slots44", "k1")):
        a, b = lanes[one], lanes[two]
        fall = pair(a, b).waterfall
        assert fall is not None
        assert fall.from_ns + sum(bar.delta_ns for bar in fall.bars) == fall.to_ns
        assert fall.from_ns == round(Fraction(int(a.wall.sum()), a.steps))
        assert fall.to_ns == round(Fraction(int(b.wall.sum()), b.steps))
        for bar in fall.bars:  # and each bar is its bucket's own difference, to the rounding
            sides = [
                x.idle if bar.bucket == "idle" else x.bucket_exclusive[bar.bucket] for x in (a, b)
            ]
            own = Fraction(int(sides[1].sum()), b.steps) - Fraction(int(sides[0].sum()), a.steps)
            assert abs(bar.delta_ns - own) <= 1


def test_a_lane_against_itself_is_zero_by_content(lanes: dict[str, Lane], unpacked: Any) -> None:
    plain = load_lane(unpacked("k1"))  # other bytes, the same capture
    assert plain.document.trace.sha256 != lanes["k1"].document.trace.sha256
    found = pair(lanes["k1"], plain)
    assert found.same_capture
    assert all(
        (d.delta_ms, d.low_ms, d.high_ms, d.sign, d.certainty) == (0, 0, 0, "0", "identical")
        for d in found.deltas
    )
    assert found.waterfall is not None
    assert all(bar.delta_ns == 0 for bar in found.waterfall.bars)
    assert found.kernels == []
    assert all(c.delta in (0, None) for c in found.counts)
    assert "same capture" in found.headline


def test_a_planted_slowdown_is_found_named_and_exact(
    lanes: dict[str, Lane], surgery: Surgery
) -> None:
    slow = surgery(
        "k1",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + (end - start) * 3 / 100 "
        "WHERE shortName = " + NAMED.format("slot_bookkeeping"),
    )
    found = pair(lanes["k1"], load_lane(slow))
    with attribute(trace_path("k1")) as base:
        measured = base.steps[base.steps["measured"]][["process", "device", "step"]]
        kernels = base.kernels.merge(measured, on=["process", "device", "step"])
    mine = kernels[kernels["name"] == "slot_bookkeeping"]
    planted = int(((mine["end_ns"] - mine["start_ns"]) * 3 // 100).sum())
    row = by_name(found)["bookkeeping"]
    assert row.candidate_total_ns - row.incumbent_total_ns == planted
    assert (row.sign, row.certainty) == ("+", "certain")
    assert [d.metric for d in found.deltas if d.certainty == "certain"][-1] == "bookkeeping"
    assert "bookkeeping" in found.headline
    assert found.kernels[0].name == "slot_bookkeeping"


def test_slots_have_a_trend_of_the_right_sign(lanes: dict[str, Lane]) -> None:
    three = [lanes["slots20"], lanes["k1"], lanes["slots44"]]
    document = assemble(three)
    assert document.trend is not None
    assert (document.trend.axis, document.trend.direction) == ("slots", "falls")
    assert document.trend.wall_slope_ms < 0
    assert (
        min(document.trend.bucket_slopes_ms, key=document.trend.bucket_slopes_ms.__getitem__)
        == "row_copy"
    )
    assert effects(document)["lane: slots"] == "listed"
    model = document.model
    if model is None:
        assert any(a.what == "cost model" for a in document.abstained)
    else:
        near = all(abs(s / model.ms_per_miss - 1) <= 0.05 for s in model.window_slopes.values())
        assert near or "not that within" in model.verdict or "no lane has" in model.verdict
    given = assemble(three, ("context", [3.0, 2.0, 1.0]))
    assert given.trend is not None
    assert (given.trend.axis, given.trend.direction) == ("context", "rises")


def test_half_the_requests_are_normalised(lanes: dict[str, Lane], surgery: Surgery) -> None:
    begin = f"(SELECT min(start) FROM NVTX_EVENTS WHERE {TEXT} = 'request_2')"
    half = surgery(
        "k1",
        f"DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start >= {begin}",
        f"DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE start >= {begin}",
        f"DELETE FROM NVTX_EVENTS WHERE start >= {begin}",
    )
    document = assemble([lanes["k1"], load_lane(half)])
    assert effects(document)["requests"] == "normalised"
    [found] = document.pairs
    assert found.paired
    # over the two requests that both hold, it is the same capture
    assert all(d.delta_ms == 0 for d in found.deltas)
    # and the other way round, a longer window
    longer = assemble([load_lane(half), lanes["k2"]])
    assert effects(longer)["requests"] == "normalised"
    first_two = load_json("k2", "reference")["steps"][:70]
    assert by_name(longer.pairs[0])["sum"].candidate_total_ns == sum(s["sum_ns"] for s in first_two)


def test_another_gpu_is_refused(lanes: dict[str, Lane], surgery: Surgery) -> None:
    other = surgery("k1", "UPDATE TARGET_INFO_GPU SET name = 'NVIDIA H100'")
    document = assemble([lanes["k1"], load_lane(other)])
    assert effects(document)["GPU model"] == "refused"
    _refused(document.pairs[0], "H100")


def test_graph_level_against_node_level_is_refused(lanes: dict[str, Lane]) -> None:
    document = assemble([lanes["k1"], load_lane(trace_path("graphlevel"))])
    assert effects(document)["graph trace"] == "refused"
    _refused(document.pairs[0], "--cuda-graph-trace=node")


def test_missing_ranges_on_one_side_are_normalised(
    lanes: dict[str, Lane], surgery: Surgery
) -> None:
    bare = load_lane(surgery("k2", "DELETE FROM NVTX_EVENTS"))
    document = assemble([lanes["k1"], bare])
    assert effects(document)["how steps were found"] == "normalised"
    with_ranges, without = pair(lanes["k1"], lanes["k2"]), document.pairs[0]
    assert without.paired
    for one, two in zip(with_ranges.deltas, without.deltas, strict=True):
        assert (one.metric, one.delta_ms) == (two.metric, two.delta_ms)
    assert "requests-unknown" in {f.code for f in document.warnings}


def test_an_empty_side_is_refused(lanes: dict[str, Lane], surgery: Surgery) -> None:
    empty = surgery(
        "k1",
        "DELETE FROM NVTX_EVENTS",
        "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid > 40",
    )
    lane = load_lane(empty)
    assert lane.steps == 0
    _refused(assemble([lanes["k1"], lane]).pairs[0], "no measured verification step")
    _refused(assemble([lane, lanes["k1"]]).pairs[0], "no measured verification step")


def test_costly_options_on_one_side_are_refused(lanes: dict[str, Lane], surgery: Surgery) -> None:
    sampled = surgery("k2", "UPDATE META_DATA_CAPTURE SET value = '1000' WHERE name = 'RATE_HZ'")
    document = assemble([lanes["k1"], load_lane(sampled)])
    assert effects(document)["option rate_hz"] == "refused"
    _refused(document.pairs[0], "sampled")


def test_other_rules_withhold_the_buckets_alone(lanes: dict[str, Lane]) -> None:
    document = assemble([lanes["k1"], load_lane(trace_path("k2"), profile="generic")])
    [found] = document.pairs
    assert [w.what for w in found.withheld] == ["buckets"]
    assert {d.metric for d in found.deltas} == {"wall", "busy", "sum", "idle"}
    assert found.waterfall is None
    assert found.kernels == []


def test_tokens_of_a_step_divide_its_time(lanes: dict[str, Lane]) -> None:
    a, b = load_lane(trace_path("k1")), load_lane(trace_path("k2"))
    a.accepted, b.accepted = 1.8, 2.4
    found = pair(a, b)
    wall = next(t for t in found.per_token if t.metric == "wall")
    per_step = by_name(found)["wall"]
    assert wall.incumbent_ms == pytest.approx(per_step.incumbent_ms / 1.8)
    assert wall.candidate_ms == pytest.approx(per_step.candidate_ms / 2.4)
    assert wall.low_ms < wall.delta_ms < wall.high_ms
    assert "steps-yield-differently" in {
        f.code for f in assemble([lanes["k1"], lanes["k2"]]).warnings
    }


def _refused(found: PairDocument, words: str) -> None:
    """No delta, no winner, and the reason with its remedy."""
    assert found.refused
    assert (found.deltas, found.per_token, found.counts, found.kernels) == ([], [], [], [])
    assert found.waterfall is None
    said = found.headline + "".join(f"{r.why} {r.remedy}" for r in found.refused)
    assert words in said
    for word in ("longer", "shorter", "faster", "slower", "winner", "better"):
        assert word not in found.headline


def run(capsys: pytest.CaptureFixture[str], *args: Any) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(a) for a in args])
    return int(caught.value.code or 0), capsys.readouterr().out


def test_folders_and_traces_are_one_lane(
    tmp_path: Path, capsys: Any, lanes: dict[str, Lane]
) -> None:
    folder = tmp_path / "k1.lanescope"
    assert run(capsys, "attribute", trace_path("k1"), "--out", folder)[0] == 0
    code, out = run(capsys, "compare", folder, trace_path("k2"), "--json")
    document = json.loads(out)
    assert code == 0
    assert [lane["kind"] for lane in document["lanes"]] == ["attribution", "trace"]
    direct = pair(lanes["k1"], lanes["k2"]).model_dump(mode="json")
    assert document["pairs"][0]["deltas"] == direct["deltas"]
    assert document["pairs"][0]["kernels"] == direct["kernels"]
    # a gate on one lane's bucket, and on the difference
    rules = tmp_path / "rules.toml"
    rules.write_text(
        'name = "bookkeeping"\n[[bar]]\nmetric = "bucket:bookkeeping"\nof = "candidate"\n'
        'direction = ">="\nthreshold = 2.0\n'
    )
    code, out = run(capsys, "gate", rules, folder, "--post-hoc", "--json")
    verdict = json.loads(out)
    assert (code, verdict["verdict"]) == (10, "fail")
    expected = next(b for b in lanes["k1"].document.buckets if b.bucket == "bookkeeping")
    assert verdict["bars"][0]["value"] == pytest.approx(expected.sum_ms_per_step)


def test_windows_bring_their_acceptance_settings_and_probe(tmp_path: Path, capsys: Any) -> None:
    for name, k, tokens in (("k1", 1, 1.8), ("k2", 2, 2.4)):
        window = tmp_path / f"window-{name}"
        window.mkdir()
        done = run(capsys, "attribute", trace_path(name), "--out", window / "attribution")
        assert done[0] == 0
        (window / "probe-profiled.json").write_text(
            json.dumps({"acceptance": {"rate": 0.8, "mean_length": tokens}})
        )
        (window / "lane.toml").write_text(f"[engine]\nk = {k}\nslots = 32\n")
        rows = [
            {
                "prompt_id": f"p{i}", "repetition": 0, "concurrency": 1, "error": "",
                "completion_tokens": 64, "wall_ns": 2_000_000_000 + 10**7 * i * (3 - k),
                "ttft_ns": 500_000_000, "began_unix_ns": 1_790_000_000_000_000_000,
                "decode_tokens_per_s": 42.0 + i + k,
            }
            for i in range(3)
        ]  # fmt: skip
        (window / "probe-control.requests.jsonl").write_text("\n".join(map(json.dumps, rows)))
    one, two = tmp_path / "window-k1", tmp_path / "window-k2"
    document = json.loads(run(capsys, "compare", one, two, "--json")[1])
    assert [lane["kind"] for lane in document["lanes"]] == ["window", "window"]
    assert [lane["accepted_per_step"] for lane in document["lanes"]] == [1.8, 2.4]
    assert [d["what"] for d in document["differs"]] == ["lane: k"]
    assert document["pairs"][0]["per_token"]
    rules = tmp_path / "rules.toml"
    rules.write_text(
        'name = "window"\n[[bar]]\nmetric = "bucket:row_copy"\nof = "difference"\n'
        'direction = "<="\nthreshold = 1.0\n[[bar]]\nmetric = "decode_rate"\n'
        'statistic = "wins"\ndirection = ">="\nthreshold = 3\n'
    )
    code, out = run(capsys, "gate", rules, one, two, "--json")
    verdict = json.loads(out)
    # rows of September 2026 are older than the rules: this clock is the better evidence
    assert verdict["age"]["data_basis"] == "earliest time in the rows"
    code, out = run(capsys, "gate", rules, one, two, "--json", "--post-hoc")
    verdict = json.loads(out)
    assert (code, [b["verdict"] for b in verdict["bars"]]) == (10, ["fail", "pass"])
    assert run(capsys, "gate", rules, two, "--post-hoc")[0] == 12  # a difference needs two lanes


def test_the_terminal_says_what_was_refused(tmp_path: Path, capsys: Any) -> None:
    code, out = run(capsys, "compare", trace_path("k1"), trace_path("graphlevel"))
    assert code == 1
    assert "not compared" in out
    for word in ("longer", "shorter", "faster", "slower", "winner"):
        assert word not in out
    assert run(capsys, "compare", trace_path("k1"))[0] == 2
    assert run(capsys, "compare", trace_path("k1"), tmp_path)[0] == 3
