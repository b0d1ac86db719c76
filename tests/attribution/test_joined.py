"""Several reports of one run: a trace of two planted ranks, split into a report for each.

What must come out is what the one report says, or an interval that holds it.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from lanescope.attribution.joined import ANCHOR_NS, SLEW, join
from lanescope.schemas.documents.attribution import AttributionDocument, Ranks
from lanescope.schemas.documents.ranks import RanksDocument
from tests.attribution.test_ranks import COPIED, KERNEL, ONE_PID, document, plant
from tests.conftest import trace_path

BOUNDS = ("wait_bounds_ns", "wait_bounds_ms_per_step", "transfer_bounds_ms_per_step")
SESSION = "TARGET_INFO_SESSION_START_TIME"
LATER = 700  # by which the second rank is behind the first


@pytest.fixture(scope="module")
def whole(
    unpacked: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, AttributionDocument]:
    """Two ranks in one report, the second one a little slower; and what the report says."""
    path = tmp_path_factory.mktemp("whole") / "both.sqlite"
    shutil.copy(unpacked("k1"), path)
    slower = f'UPDATE {KERNEL} SET "end" = "end" + 1 WHERE {{second}}'
    plant(path, LATER, slower)
    return path, document(path)


def part(whole: Path, target: Path, which: int, *statements: str, moved: int = 0) -> Path:
    """The report of one of the ranks: its clock begins `moved` ns later."""
    shutil.copy(whole, target)
    con = sqlite3.connect(target)
    pids = f"SELECT DISTINCT globalPid / {ONE_PID} FROM {KERNEL} ORDER BY 1"
    keep = [r[0] for r in con.execute(pids)][which]
    for table in COPIED:
        columns = [r[1] for r in con.execute(f"PRAGMA table_info({table})")]
        whose = "globalPid" if "globalPid" in columns else "globalTid"
        con.execute(f"DELETE FROM {table} WHERE {whose} / {ONE_PID} <> {keep}")
        for column in {"start", "end"} & set(columns):
            con.execute(f'UPDATE {table} SET "{column}" = "{column}" - {moved}')
    con.execute(f"UPDATE {SESSION} SET utcEpochNs = utcEpochNs + {moved}")
    for statement in statements:
        con.execute(statement)
    con.commit()
    con.close()
    return target


def plain(ranks: Ranks) -> dict[str, object]:
    """The section without what only joined reports have."""
    return ranks.model_dump(
        exclude={
            "start_skew_p50_bounds_ns": True,
            "end_skew_p50_bounds_ns": True,
            "ranks": {"__all__": {"report", *BOUNDS}},
            "steps": {"__all__": {"slowest_report", "start_skew_bounds_ns", "end_skew_bounds_ns"}},
            "collectives": {"__all__": {"wait_bounds_ns"}},
        }
    )


def codes(doc: RanksDocument) -> set[str]:
    return {a.what for a in doc.abstained}


def test_one_session_in_two_reports_says_what_one_report_says(
    whole: tuple[Path, AttributionDocument], tmp_path: Path
) -> None:
    path, alone = whole
    found = join([part(path, tmp_path / f"{i}.sqlite", i) for i in range(2)])
    assert alone.ranks is not None
    assert alone.ranks.collectives
    assert found.joined
    assert found.clock_error_ns == 0
    assert found.abstained == []
    assert [r.report for r in found.ranks.ranks] == [0, 1]
    assert plain(found.ranks) == plain(alone.ranks)


def test_two_sessions_of_one_machine_say_the_same_within_what_their_clocks_may_err(
    whole: tuple[Path, AttributionDocument], tmp_path: Path
) -> None:
    path, alone = whole
    moved = 40_000_000
    found = join(
        [part(path, tmp_path / "0.sqlite", 0), part(path, tmp_path / "1.sqlite", 1, moved=moved)]
    )
    assert alone.ranks is not None
    assert found.clock_error_ns == 2 * ANCHOR_NS + int(SLEW * moved)
    assert found.reports[1].offset_ns == moved
    assert plain(found.ranks) == plain(alone.ranks)
    error = found.clock_error_ns
    assert found.ranks.start_skew_p50_bounds_ns == (0, LATER + error)
    for step in found.ranks.steps:
        assert step.start_skew_ns == LATER
        assert step.start_skew_bounds_ns == (0, LATER + error)
    for rank, exact in zip(found.ranks.ranks, alone.ranks.ranks, strict=True):
        assert rank.wait_bounds_ns is not None
        assert exact.wait_ns is not None
        assert rank.wait_bounds_ns[0] <= exact.wait_ns <= rank.wait_bounds_ns[1]


@pytest.mark.parametrize("error", [-20_000, 0, 20_000])
def test_bounds_hold_the_truth_whatever_an_anchor_says(
    whole: tuple[Path, AttributionDocument], tmp_path: Path, error: int
) -> None:
    path, alone = whole
    wrong = f"UPDATE {SESSION} SET utcEpochNs = utcEpochNs + {error}"
    found = join(
        [
            part(path, tmp_path / "0.sqlite", 0),
            part(path, tmp_path / "1.sqlite", 1, wrong, moved=1_000_000),
        ]
    )
    assert alone.ranks is not None
    assert found.joined
    for step in found.ranks.steps:
        assert step.start_skew_bounds_ns is not None
        assert step.start_skew_bounds_ns[0] <= LATER <= step.start_skew_bounds_ns[1]
    for rank, exact in zip(found.ranks.ranks, alone.ranks.ranks, strict=True):
        assert rank.wait_bounds_ns is not None
        assert exact.wait_ns is not None
        assert rank.wait_bounds_ns[0] <= exact.wait_ns <= rank.wait_bounds_ns[1]


def test_machines_without_a_known_clock_error_have_no_skew(
    whole: tuple[Path, AttributionDocument], tmp_path: Path
) -> None:
    path, alone = whole
    other = "UPDATE TARGET_INFO_GPU SET uuid = 'another' || id"
    reports = [part(path, tmp_path / "0.sqlite", 0), part(path, tmp_path / "1.sqlite", 1, other)]
    found = join(reports)
    assert found.joined
    assert found.clock_error_ns is None
    assert [r.machine for r in found.reports] == [0, 1]
    assert codes(found) == {"clock_error"}
    assert found.ranks.start_skew_ns is None
    assert all(s.start_skew_ns is None for s in found.ranks.steps)
    assert found.ranks.collectives == []
    assert alone.ranks is not None
    assert [r.slowest for r in found.ranks.ranks] == [r.slowest for r in alone.ranks.ranks]
    told = join(reports, clock_error_ns=5_000)
    assert told.clock_error_ns == 5_000
    assert told.abstained == []
    assert told.ranks.steps[0].start_skew_bounds_ns == (0, LATER + 5_000)


@pytest.mark.parametrize(
    "statement",
    [f"DROP TABLE {SESSION}", f"DELETE FROM {SESSION}", f"UPDATE {SESSION} SET utcEpochNs = NULL"],
)
def test_without_an_anchor_nothing_is_joined(
    whole: tuple[Path, AttributionDocument], tmp_path: Path, statement: str
) -> None:
    path, alone = whole
    found = join(
        [part(path, tmp_path / "0.sqlite", 0), part(path, tmp_path / "1.sqlite", 1, statement)]
    )
    assert not found.joined
    assert codes(found) == {"clock_anchor"}
    assert found.ranks.steps == []
    assert found.ranks.ranks[0].slowest is None
    assert alone.ranks is not None
    assert [r.wall_ms for r in found.ranks.ranks] == [r.wall_ms for r in alone.ranks.ranks]


def test_reports_that_cannot_be_of_one_run_are_not_joined(
    whole: tuple[Path, AttributionDocument], tmp_path: Path
) -> None:
    path, _ = whole
    first = part(path, tmp_path / "0.sqlite", 0)
    second = part(path, tmp_path / "1.sqlite", 1)
    touched = part(path, tmp_path / "2.sqlite", 0, "DELETE FROM ANALYSIS_FILE")
    tomorrow = f"UPDATE {SESSION} SET utcEpochNs = utcEpochNs + 86400000000000"
    later = part(path, tmp_path / "3.sqlite", 1, tomorrow)
    for reports, why in (
        ([first, second, first], "the content of report 0"),
        ([first, touched], "process 453 on one GPU is in report 0 and in report 1"),
        ([first, later], "apart"),
    ):
        found = join(reports)
        assert not found.joined
        assert codes(found) == {"one_run"}
        assert why in found.abstained[0].why
        assert found.ranks.steps == []
    # the same processes, another day, on other machines: no
    assert not join([first, later], clock_error_ns=1_000_000).joined


def test_steps_that_do_not_match_are_not_held_against_each_other(
    whole: tuple[Path, AttributionDocument], tmp_path: Path
) -> None:
    path, _ = whole
    con = sqlite3.connect(path)
    last = con.execute(f"SELECT max(start) FROM {KERNEL}").fetchone()[0]
    con.close()
    first = part(path, tmp_path / "0.sqlite", 0)
    shorter = part(
        path, tmp_path / "1.sqlite", 1, f"DELETE FROM {KERNEL} WHERE start > {last - 20_000_000}"
    )
    assert codes(join([first, shorter])) == {"rank_skew", "collective_wait"}
    # a clock that is off by five steps: the same index is not the same step
    off = part(
        path, tmp_path / "2.sqlite", 1, f"UPDATE {SESSION} SET utcEpochNs = utcEpochNs + 40000000"
    )
    found = join([first, off])
    assert codes(found) == {"rank_skew", "collective_wait"}
    assert "not the same steps" in found.abstained[0].why


def test_moved_times_of_an_export_are_moved_back(
    whole: tuple[Path, AttributionDocument], tmp_path: Path
) -> None:
    """`nsys export --ts-normalize` and `--ts-shift`: times are moved, the recorded start is not."""
    path, alone = whole
    reports = [part(path, tmp_path / "0.sqlite", 0), part(path, tmp_path / "1.sqlite", 1)]
    con = sqlite3.connect(reports[1])
    zero = con.execute(f"SELECT utcEpochNs FROM {SESSION}").fetchone()[0]
    for table in COPIED:
        columns = [r[1] for r in con.execute(f"PRAGMA table_info({table})")]
        for column in {"start", "end"} & set(columns):
            con.execute(f'UPDATE {table} SET "{column}" = "{column}" + {zero}')
    con.execute(
        f"UPDATE META_DATA_EXPORT SET value = '{zero}' WHERE name = 'EXPORT_CONFIG_TIME_SHIFT'"
    )
    con.commit()
    con.close()
    found = join(reports)
    assert found.reports[1].zero_unix_ns == 0
    assert alone.ranks is not None
    assert plain(found.ranks) == plain(alone.ranks)


def test_one_report_alone_is_its_own_answer() -> None:
    found = join([trace_path("gpus_index")])
    alone = document(trace_path("gpus_index"))
    assert found.joined
    assert alone.ranks is not None
    assert plain(found.ranks) == plain(alone.ranks)
    lonely = join([trace_path("k1")])
    assert codes(lonely) == {"rank_skew"}
