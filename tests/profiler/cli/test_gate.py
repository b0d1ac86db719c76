"""`lanescope gate` from the outside: verdicts, exit codes, files, and what it must not say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from lanescope.profiler.cli.main import main

BASE = [54.0, 50.8, 49.9, 52.1, 54.6, 50.9, 56.6, 50.2]
#: mean +7.25 %, percentile interval about +4.3 to +10.4, all positive
BOTH = [1.2, 2.0, 3.9, 5.5, 8.1, 10.3, 12.7, 14.3]
#: mean +3.17 %, about +0.52 to +6.08, six of eight positive
K2_ALONE = [-2.3, -1.2, 0.4, 1.4, 3.5, 5.9, 8.0, 9.66]

REPORT = """
name = "promotion"
[[bar]]
metric = "decode_rate"
statistic = "point"
direction = "at_least"
threshold = 5.0
[[bar]]
metric = "decode_rate"
statistic = "lower"
direction = "above"
threshold = 0.0
"""
STRICT = """
name = "promotion, strict"
[[bar]]
metric = "decode_rate"
statistic = "lower"
direction = ">="
threshold = 5.0
"""


@pytest.fixture
def lane(tmp_path: Path) -> Any:
    def make(name: str, gains: list[float], **more: Any) -> Path:
        path = tmp_path / f"{name}.jsonl"
        with path.open("w") as file:
            for i, (rate, gain) in enumerate(zip(BASE, gains, strict=False)):
                for repetition in range(3):
                    fast = rate * (1 + gain / 100) * (1 + 1e-4 * (repetition - 1))
                    record = {"lane": name, "prompt": i, "repetition": repetition, "tokens": 512}
                    record |= {"seconds": 0.5 + 511 / fast, "ttft": 0.5, **more}
                    file.write(json.dumps(record) + "\n")
        return path

    return make


@pytest.fixture
def rules(tmp_path: Path) -> Any:
    def make(text: str, older: bool = True) -> Path:
        path = tmp_path / "rules.toml"
        path.write_text(text)
        if older:
            os.utime(path, (1_000_000_000, 1_000_000_000))
        return path

    return make


def gate(*args: Any) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["gate", *map(str, args)])
    return int(caught.value.code or 0)


def judged(capsys: pytest.CaptureFixture[str], *args: Any) -> dict[str, Any]:
    code = gate(*args, "--json")
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == code
    return document


@pytest.mark.parametrize(
    ("gains", "text", "verdict", "low", "high", "wins"),
    [
        (BOTH, REPORT, "pass", 4.3, 10.4, 8),
        (BOTH, STRICT, "fail", 4.3, 10.4, 8),
        (K2_ALONE, REPORT, "fail", 0.52, 6.08, 6),
        (K2_ALONE, STRICT, "fail", 0.52, 6.08, 6),
    ],
)
def test_the_reports_rule_and_the_stricter_one(
    lane: Any,
    rules: Any,
    capsys: Any,
    gains: list,
    text: str,
    verdict: str,
    low: float,
    high: float,
    wins: int,
) -> None:
    document = judged(capsys, rules(text), lane("base", [0.0] * 8), lane("new", gains))
    assert document["verdict"] == verdict
    rate = document["speed"]["metrics"][0]
    assert rate["mean_gain_pct"] == pytest.approx(sum(gains) / 8, abs=1e-9)
    assert rate["low_pct"] == pytest.approx(low, abs=0.35)
    assert rate["high_pct"] == pytest.approx(high, abs=0.35)
    assert rate["wins"] == wins


def test_rules_must_be_older_than_the_data(lane: Any, rules: Any, capsys: Any) -> None:
    base, new = lane("base", [0.0] * 8), lane("new", BOTH)
    for path in (base, new):
        os.utime(path, (1_500_000_000, 1_500_000_000))
    young = rules(REPORT, older=False)
    document = judged(capsys, young, base, new)
    assert (document["verdict"], document["exit_code"]) == ("invalid", 12)
    assert document["speed"]["metrics"] == []
    after = judged(capsys, young, base, new, "--post-hoc")
    assert (after["verdict"], after["post_hoc"]) == ("pass", True)
    assert gate(young, base, new, "--post-hoc") == 0
    assert "POST HOC" in capsys.readouterr().out


def test_a_freeze_record_counts_and_a_change_after_it_too(
    lane: Any, rules: Any, capsys: Any
) -> None:
    path = rules(REPORT, older=False)
    assert gate(path, "--freeze") == 0
    capsys.readouterr()
    base, new = lane("base", [0.0] * 8), lane("new", BOTH)
    later = path.stat().st_mtime + 3600
    os.utime(path, (later, later))  # touched by a checkout, say: the record stands
    assert judged(capsys, path, base, new)["verdict"] == "pass"
    path.write_text(REPORT.replace("5.0", "4.0"))
    os.utime(path, (later, later))
    document = judged(capsys, path, base, new)
    assert document["verdict"] == "invalid"
    assert "changed after it was frozen" in document["age"]["rules_basis"]
    assert gate(path, "--freeze") == 2  # what is frozen stays frozen


def test_times_in_the_rows_are_better_evidence_than_files(
    lane: Any, rules: Any, capsys: Any
) -> None:
    path = rules(REPORT)
    document = judged(
        capsys, path, lane("base", [0.0] * 8, start_s=2e9), lane("new", BOTH, start_s=2e9)
    )
    assert document["age"]["data_basis"] == "earliest time in the rows"
    early = judged(
        capsys,
        path,
        lane("base", [0.0] * 8, start_s=1.0e9 + 1),
        lane("new", BOTH, start_s=0.999e9 + 2e6),
    )
    assert early["verdict"] == "pass"
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert (
        judged(capsys, path, lane("base", [0.0] * 8, start_s=1.6e9), lane("new", BOTH))["verdict"]
        == "invalid"
    )


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("min_prompts = 9", 11),
        ("min_repetitions = 4", 11),
        ("require_relaunches = true", 11),
        ("", 0),
    ],
)
def test_too_little_data_is_inconclusive(lane: Any, rules: Any, extra: str, code: int) -> None:
    path = rules(f"{extra}\n{REPORT}")
    assert gate(path, lane("base", [0.0] * 8), lane("new", BOTH)) == code


def test_an_interval_over_the_threshold_can_be_inconclusive(
    lane: Any, rules: Any, capsys: Any
) -> None:
    text = REPORT.replace("threshold = 5.0", 'threshold = 5.0\ninconclusive = "interval"')
    document = judged(capsys, rules(text), lane("base", [0.0] * 8), lane("new", BOTH))
    assert (document["verdict"], document["exit_code"]) == ("inconclusive", 11)


def test_bars_on_wins_ttft_and_tasks(lane: Any, rules: Any, tmp_path: Path, capsys: Any) -> None:
    tasks = tmp_path / "tasks.jsonl"
    records = [
        {"lane": ln, "task": t, "passed": True} for ln in ("base", "candidate") for t in range(100)
    ]
    tasks.write_text("\n".join(map(json.dumps, records)))
    bars = [
        ("decode_rate", "wins", ">=", 8),
        ("ttft", "point", "<=", 1),
        ("task_losses", "upper", "<", 0.03),
    ]
    text = 'name = "all"\n' + "".join(
        f'[[bar]]\nmetric = "{m}"\nstatistic = "{s}"\ndirection = "{d}"\nthreshold = {t}\n'
        for m, s, d, t in bars
    )
    document = judged(
        capsys, rules(text), lane("base", [0.0] * 8), lane("new", BOTH), "--tasks", tasks
    )
    assert document["verdict"] == "pass"
    assert document["bars"][2]["value"] == pytest.approx(0.029513049607040, abs=1e-13)


INVALID = {
    "another client": ({"drafts": 500, "drafted": 500, "accepted": 500}, 8),
    "unequal prompts": ({}, 6),
}


@pytest.mark.parametrize(("more", "prompts"), INVALID.values(), ids=INVALID.keys())
def test_an_invalid_comparison_says_nothing_about_who_gains(
    lane: Any, rules: Any, capsys: Any, tmp_path: Path, more: dict, prompts: int
) -> None:
    files = [tmp_path / "v.xml", tmp_path / "v.md", tmp_path / "v.json"]
    code = gate(
        rules(REPORT), lane("base", [0.0] * 8), lane("new", BOTH[:prompts], **more),
        "--junit", files[0], "--markdown", files[1], "--out", files[2],
    )  # fmt: skip
    assert code == 12
    said = capsys.readouterr().out + "".join(f.read_text() for f in files)
    assert "INVALID" in said
    for gain in ("7.25", "gain %", "wins", "winner", "10.4", "8/8"):
        assert gain not in said.replace("relaunches-not-covered", ""), gain
    suite = ET.parse(files[0]).getroot()[0]
    assert int(suite.attrib["errors"]) == 3
    assert json.loads(files[2].read_text())["speed"]["metrics"] == []


def test_reports_hold_the_verdict_and_escape_names(lane: Any, rules: Any, tmp_path: Path) -> None:
    text = REPORT.replace('"promotion"', '"a | <b> & \\u0007"')
    junit, markdown = tmp_path / "j.xml", tmp_path / "m.md"
    args = (rules(text), lane("base", [0.0] * 8), lane("new", K2_ALONE))
    assert gate(*args, "--junit", junit, "--markdown", markdown) == 10
    suite = ET.parse(junit).getroot()[0]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("3", "1")
    assert "a \\| &lt;b>" in markdown.read_text()
    assert gate(*args, "--junit", junit) == 2  # never over another without --force
    assert gate(*args, "--junit", junit, "--force") == 10


def test_a_lane_against_itself_is_no_comparison(lane: Any, rules: Any, capsys: Any) -> None:
    base = lane("base", [0.0] * 8)
    copy = base.with_name("copy.jsonl")
    copy.write_bytes(base.read_bytes())
    document = judged(capsys, rules(REPORT), base, copy)
    assert document["verdict"] == "invalid"
    assert "same data" in document["reasons"][0]


def test_verdicts_are_kept_in_the_catalogue(lane: Any, rules: Any, tmp_path: Path) -> None:
    from sqlalchemy import select

    from lanescope.schemas.catalogue import GateRow, open_catalogue

    store = tmp_path / "c.sqlite"
    args = (rules(REPORT), lane("base", [0.0] * 8), lane("new", BOTH))
    assert gate(*args, "--record", "--catalogue", store) == 0
    with open_catalogue(str(store)).read() as session:
        kept = session.scalars(select(GateRow)).one()
        assert (kept.verdict, kept.facts["schema"]) == ("pass", "lanescope.gate/1")


BAD_RULES = {
    "no bars": 'name = "x"',
    "an unknown key": REPORT + "colour = 3",
    "an unknown statistic": REPORT.replace('"lower"', '"lowest"'),
    "no threshold": REPORT.replace("threshold = 5.0", ""),
    "not TOML": "name = ",
}


@pytest.mark.parametrize("text", BAD_RULES.values(), ids=BAD_RULES.keys())
def test_broken_rules_are_one_line(lane: Any, rules: Any, capsys: Any, text: str) -> None:
    assert gate(rules(text), lane("base", [0.0] * 8), lane("new", BOTH)) == 3
    error = capsys.readouterr().err
    assert "rules.toml" in error
    assert error.count("\n") == 1


def test_an_unknown_metric_makes_the_verdict_invalid(lane: Any, rules: Any, capsys: Any) -> None:
    text = REPORT.replace('"decode_rate"', '"tokens_per_dollar"', 1)
    document = judged(capsys, rules(text), lane("base", [0.0] * 8), lane("new", BOTH))
    assert document["verdict"] == "invalid"
    assert "tokens_per_dollar" in document["reasons"][0]
