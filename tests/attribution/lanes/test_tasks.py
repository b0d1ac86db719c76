"""Task outcomes: the unit is the task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lanescope.attribution.lanes.tasks import outcomes, read_outcomes
from lanescope.schemas.errors import UnusableInput


def test_a_task_is_won_or_lost_by_its_count_of_passed_repeats() -> None:
    base = {f"t{i}": [True, True] for i in range(98)} | {"x": [True, False], "y": [True, True]}
    new = {f"t{i}": [True, True] for i in range(98)} | {"x": [True, True], "y": [False, True]}
    found = outcomes(base, new)
    assert (found.tasks, found.wins, found.losses, found.ties) == (100, 1, 1, 98)
    assert found.loss_share_upper == pytest.approx(0.046559811453539, abs=1e-13)
    assert (found.base_passed, found.candidate_passed, found.repeats) == (199, 199, 200)


def test_files_of_outcomes(tmp_path: Path) -> None:
    records = [
        {"lane": lane, "task": f"t{t}", "repeat": r, "passed": not (lane == "candidate" and t == 0)}
        for lane in ("candidate", "base")
        for t in range(5)
        for r in range(2)
    ]
    lines = tmp_path / "o.jsonl"
    lines.write_text("\n".join(map(json.dumps, records)))
    table = tmp_path / "o.csv"
    table.write_text(
        "lane,task,repeat,passed\n"
        + "".join(f"{r['lane']},{r['task']},{r['repeat']},{r['passed']}\n" for r in records)
    )
    for path in (lines, table):
        found, source = read_outcomes(path)
        assert (found.losses, found.ties, found.tasks) == (1, 4, 5)
        assert len(source.sha256) == 64


@pytest.mark.parametrize(
    "records",
    [
        [{"lane": "base", "task": "a", "passed": True}],
        [
            {"lane": "base", "task": "a", "passed": True},
            {"lane": "candidate", "task": "b", "passed": 1},
        ],
        [{"lane": "base", "task": "a", "passed": "perhaps"}],
        [{"lane": "base", "task": "a"}],
        [7],
        [],
    ],
)
def test_lanes_that_did_not_run_the_same_tasks_are_refused(tmp_path: Path, records: list) -> None:
    path = tmp_path / "o.json"
    path.write_text(json.dumps(records))
    with pytest.raises(UnusableInput, match=r"o\.json"):
        read_outcomes(path)
