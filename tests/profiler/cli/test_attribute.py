"""`lanescope attribute` as a user runs it: output, exit codes, nothing half-written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from lanescope.schemas.documents.attribution import AttributionDocument
from tests.conftest import load_json, trace_path

Surgery = Callable[..., Path]


def run(*args: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lanescope", *map(str, args)],
        capture_output=True, text=True, check=False, cwd=cwd,
    )  # fmt: skip


def test_it_writes_the_folder_and_prints_the_answer(tmp_path: Path) -> None:
    done = run("attribute", trace_path("k1"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    folder = tmp_path / "k1.lanescope"
    assert {f.name for f in folder.iterdir()} >= {
        "attribution.json", "steps.parquet", "kernels.parquet", "report.html",
    }  # fmt: skip
    document = AttributionDocument.model_validate_json((folder / "attribution.json").read_text())
    reference = load_json("k1", "reference")
    assert document.steps is not None
    assert document.steps.measured == len(reference["steps"])
    assert "row_copy" in done.stdout
    assert f"{document.steps.wall_ms.mean:.3f}" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 130
    rows = duckdb.sql(
        f"SELECT count(*), sum(end_ns - start_ns)::BIGINT FROM '{folder}/kernels.parquet'"
    ).fetchall()[0]
    assert rows == (document.coverage.kernels, document.coverage.kernel_sum_ns)
    columns = duckdb.sql(f"SELECT * FROM '{folder}/kernels.parquet'").columns
    wanted = "process device start_ns end_ns name phase part step layer bucket graph_node"
    assert set(wanted.split()) <= set(columns)


def test_it_never_overwrites_without_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("attribute", trace_path("k1"), "--out", out).returncode == 0
    before = (out / "attribution.json").read_bytes()
    again = run("attribute", trace_path("k2"), "--out", out)
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert "--force" in again.stderr
    assert (out / "attribution.json").read_bytes() == before
    assert run("attribute", trace_path("k2"), "--out", out, "--force").returncode == 0
    assert (out / "attribution.json").read_bytes() != before
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("all my work")
    refused = run("attribute", trace_path("k1"), "--out", foreign, "--force")
    assert refused.returncode == 2
    assert (foreign / "thesis.txt").read_text() == "all my work"


def test_json_is_the_document_alone_and_writes_nothing(tmp_path: Path) -> None:
    done = run("attribute", trace_path("k1"), "--json", cwd=tmp_path)
    assert done.returncode == 0
    AttributionDocument.model_validate_json(done.stdout)
    assert json.loads(done.stdout)["schema"] == "lanescope.attribution/1"
    assert not list(tmp_path.iterdir())


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert run("attribute", trace_path("slots20"), "--out", tmp_path / name).returncode == 0
    for file in ("attribution.json", "report.html", "kernels.parquet", "steps.parquet"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_require_turns_an_abstention_into_exit_1(tmp_path: Path) -> None:
    graph_level = trace_path("graphlevel")
    assert run("attribute", graph_level, "--json", "--require", "steps").returncode == 0
    done = run("attribute", graph_level, "--json", "--require", "steps,buckets")
    assert done.returncode == 1
    assert json.loads(done.stdout)["abstained"]
    wrong = run("attribute", graph_level, "--json", "--require", "magic")
    assert wrong.returncode == 2
    assert "magic" in wrong.stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["/nowhere.sqlite"], 3),
        (["--profile", "nosuch"], 2),
        (["--window", "request_9..request_10"], 2),
        (["--window", "nonsense"], 2),
        (["--window", "900s..901s"], 2),
        (["--bogus"], 2),
    ],
)
def test_wrong_calls_are_one_line(args: list[str], code: int, tmp_path: Path) -> None:
    trace = [] if args[0].startswith("/") else [str(trace_path("k1"))]
    done = run("attribute", *trace, *args, cwd=tmp_path)
    assert done.returncode == code
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
    assert "Traceback" in run("attribute", *trace, *args, "--debug").stderr or code == 2


def test_a_bad_profile_is_named_with_its_key(tmp_path: Path) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_text('name = "mine"\n[[buckets]]\nbucket = "a"\npattern = "("\n')
    done = run("attribute", trace_path("k1"), "--profile", profile, "--json")
    assert done.returncode == 2
    assert "mine.toml" in done.stderr
    assert "buckets.0.pattern" in done.stderr


def test_a_users_own_profile_decides_buckets(tmp_path: Path) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_text(
        'name = "mine"\n[[ranges]]\npattern = "^(?P<phase>spec_verify|draft|prefill)$"\n'
        '[[buckets]]\nbucket = "copies"\npattern = "row_copy$"\n'
    )
    done = run("attribute", trace_path("k1"), "--profile", profile, "--json")
    buckets = {b["bucket"]: b["sum_ns"] for b in json.loads(done.stdout)["buckets"]}
    reference = load_json("k1", "reference")
    assert set(buckets) == {"copies", "other"}
    assert buckets["copies"] == sum(reference["copy_ns_by_tensor"].values())
    assert sum(buckets.values()) == sum(s["sum_ns"] for s in reference["steps"])


@pytest.mark.parametrize(
    ("window", "first", "last"),
    [("8..17", 0, 10), ("request_1..request_2", 35, 105), ("request_0..request_3", 0, 140)],
)
def test_a_window_measures_what_it_says(window: str, first: int, last: int) -> None:
    done = run("attribute", trace_path("k1"), "--window", window, "--json")
    steps = json.loads(done.stdout)["steps"]
    wanted = load_json("k1", "reference")["steps"][first:last]
    assert steps["measured"] == last - first
    assert steps["gpu_sum_ns"]["total"] == sum(s["sum_ns"] for s in wanted)
    assert steps["gpu_busy_ns"]["total"] == sum(s["union_ns"] for s in wanted)


def test_completion_knows_the_verbs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lanescope"],
        env={
            "_LANESCOPE_COMPLETE": "bash_complete", "COMP_WORDS": "lanescope att",
            "COMP_CWORD": "1", "PATH": "/usr/bin:/bin",
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "attribute" in done.stdout
