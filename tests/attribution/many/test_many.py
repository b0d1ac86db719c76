"""Many traces: the same dataset from every engine, failures by name, nothing lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from pathlib import Path

import pytest

from lanescope.attribution.attribute import attribute
from lanescope.attribution.many import dataset, engines
from lanescope.attribution.many.query import query
from lanescope.attribution.many.work import Task
from lanescope.profiler.cli.main import main
from lanescope.schemas.errors import UnusableInput, UsageError
from tests.attribution.many.conftest import BROKEN, contents


def _run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["attribute", *args])
    return int(ended.value.code or 0), capsys.readouterr().out


def test_two_broken_of_fifty(by_one: Path) -> None:
    got = query(by_one, "SELECT count(*) AS n, min(measured) AS least FROM attributions").rows
    assert got.to_pylist()[0]["n"] == 48
    assert got.to_pylist()[0]["least"] > 0
    failed = query(by_one, "SELECT path, error, exit_code FROM failures ORDER BY path").rows
    assert [Path(r["path"]).name for r in failed.to_pylist()] == list(BROKEN)
    assert all(r["error"] and r["exit_code"] == 3 for r in failed.to_pylist())
    assert not list(by_one.glob(".*")), "something half-written was left"


def test_the_dataset_says_what_attribute_says(by_one: Path, fifty: Path) -> None:
    trace = fifty / "t05.sqlite"
    with attribute(trace) as alone:
        name = dataset.key(trace)
        rows = query(
            by_one, f"SELECT bucket, exclusive_ns FROM buckets WHERE trace = '{name}'"
        ).rows
        expected = {b.bucket: b.exclusive_ns for b in alone.document.buckets}
        assert {r["bucket"]: r["exclusive_ns"] for r in rows.to_pylist()} == expected
        sums = query(
            by_one,
            "SELECT count(*) AS n, sum(end_ns - start_ns)::BIGINT AS ns FROM kernels"
            f" WHERE trace = '{name}'",
        ).rows.to_pylist()[0]
        coverage = alone.document.coverage
        assert (sums["n"], sums["ns"]) == (coverage.kernels, coverage.kernel_sum_ns)


def test_two_processes_and_a_cluster_give_the_same_bytes(
    by_one: Path, fifty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from distributed import LocalCluster

    said = {}
    said["two"] = _run(capsys, str(fifty), "--jobs", "2", "--out", str(tmp_path / "two"), "--json")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        said["dask"] = _run(
            capsys, str(fifty), "--dask", address, "--out", str(tmp_path / "dask"), "--json"
        )
    outcomes = {}
    for name, (code, text) in said.items():
        assert code == 3
        outcomes[name] = json.loads(text)["traces"]
        assert contents(tmp_path / name) == contents(by_one)
    assert outcomes["two"] == outcomes["dask"]
    assert sum(o["state"] == "done" for o in outcomes["two"]) == 48


def test_a_second_run_does_what_is_missing(
    fifty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = [str(fifty / f"t{i:02}.sqlite") for i in range(4)]
    out = ("--out", str(tmp_path / "d"), "--json")
    _run(capsys, *some[:2], *out)
    states = [t["state"] for t in json.loads(_run(capsys, *some, *out)[1])["traces"]]
    assert states == ["kept", "kept", "done", "done"]
    _, text = _run(capsys, *some, *out, "--window", "2..5")
    assert [t["state"] for t in json.loads(text)["traces"]] == ["done"] * 4
    _, text = _run(capsys, *some, *out, "--window", "2..5", "--force")
    assert [t["state"] for t in json.loads(text)["traces"]] == ["done"] * 4


def _tasks(fifty: Path, target: Path, count: int) -> list[Task]:
    dataset.open_dataset(target)
    return [Task(str(fifty / f"t{i:02}.sqlite"), str(target)) for i in range(count)]


def test_a_killed_process_loses_nothing(fifty: Path, tmp_path: Path) -> None:
    outcomes = engines.in_processes(_tasks(fifty, tmp_path / "d", 6), 2)
    first = next(outcomes)
    for child in multiprocessing.active_children():
        os.kill(int(child.pid or 0), signal.SIGKILL)
        break
    states = [first.state, *(o.state for o in outcomes)]
    assert len(states) == 6
    # kept: the process had finished the trace when it was killed, and not yet said so
    assert set(states) <= {"done", "kept"}
    assert query(tmp_path / "d", "SELECT * FROM attributions").rows.num_rows == 6


def test_a_trace_that_kills_its_process_twice_fails_by_name(fifty: Path, tmp_path: Path) -> None:
    over = threading.Event()

    def killer() -> None:
        while not over.wait(0.05):
            for child in multiprocessing.active_children():
                if child.pid and child.is_alive():
                    os.kill(child.pid, signal.SIGKILL)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        outcomes = list(engines.in_processes(_tasks(fifty, tmp_path / "d", 1), 1))
    finally:
        over.set()
        thread.join()
    assert [o.state for o in outcomes] == ["failed"]
    assert "t00.sqlite" in outcomes[0].error
    assert "killed" in outcomes[0].error
    assert query(tmp_path / "d", "SELECT exit_code FROM failures").rows.to_pylist() == [
        {"exit_code": 4}
    ]


def test_a_folder_that_is_no_dataset_is_left_alone(fifty: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit) as ended:
        main(["attribute", str(fifty), "--jobs", "2", "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert [f.name for f in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY buckets TO 'stolen.csv'",
        "DROP VIEW buckets",
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_csv('/etc/hostname')",
        "SELECT * FROM '/etc/hostname'",
        "ATTACH 'other.db'",
        "SELECT nothing FROM buckets",
        "SELEC",
        "",
    ],
)
def test_query_reads_and_nothing_else(by_one: Path, sql: str) -> None:
    before = contents(by_one)
    with pytest.raises(UsageError):
        query(by_one, sql)
    assert contents(by_one) == before


def test_query_without_a_dataset(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput):
        query(tmp_path, "SELECT 1")


def test_forms_of_an_answer(by_one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT count(*) AS n, 'a|b' AS name FROM attributions"
    expected = {"--json": '"n": 48', "--csv": "48,a|b", "--markdown": "| 48 | a\\|b |"}
    for form, text in expected.items():
        with pytest.raises(SystemExit) as ended:
            main(["query", sql, "--dataset", str(by_one), form])
        assert ended.value.code == 0
        assert text in capsys.readouterr().out
