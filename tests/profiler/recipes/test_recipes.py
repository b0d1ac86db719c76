"""`nsys recipe` with the real framework, in every mode: the figures of `lanescope` itself."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient
from pandas.testing import assert_frame_equal

import lanescope
from lanescope.attribution.attribute import Attribution
from tests.profiler.recipes.conftest import Nsys, Reports

pytestmark = pytest.mark.nsight
MODES = ("none", "concurrent", "dask-futures")
Unpacked = Callable[[str], Path]


@pytest.fixture(scope="module")
def two(reports: Reports) -> Path:
    return reports("k1", "k2")


@pytest.fixture(scope="module")
def k1(unpacked: Unpacked) -> Iterator[Attribution]:
    with lanescope.attribute(unpacked("k1")) as result:
        yield result


@pytest.fixture(scope="module")
def k2(unpacked: Unpacked) -> Iterator[Attribution]:
    with lanescope.attribute(unpacked("k2")) as result:
        yield result


def of(folder: Path, table: str, name: str) -> pd.DataFrame:
    """One report's rows of a recipe's table, as `attribute` has them."""
    frame = pd.read_parquet(folder / f"{table}.parquet")
    return frame[frame["file"] == name].drop(columns="file").reset_index(drop=True)


def plain(rows: list[Any]) -> list[dict[str, Any]]:
    """Documents' rows without their lists."""
    return [
        {k: v for k, v in row.model_dump().items() if not isinstance(v, list | dict)}
        for row in rows
    ]


def execute(notebook: Path) -> int:
    """Run a notebook where it lies; how many Plotly figures it shows."""
    book = nbformat.read(notebook, 4)
    NotebookClient(book, timeout=120, resources={"metadata": {"path": notebook.parent}}).execute()
    outputs = [out for cell in book.cells for out in cell.get("outputs", ())]
    return sum("application/vnd.plotly.v1+json" in out.get("data", {}) for out in outputs)


@pytest.mark.parametrize("mode", MODES)
def test_step_buckets(
    mode: str, recipe: Nsys, two: Path, k1: Attribution, k2: Attribution, tmp_path: Path
) -> None:
    done = recipe("lanescope_step_buckets", "--input", two, "--mode", mode, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    out = tmp_path / "lanescope_step_buckets-1"
    assert list(pd.read_parquet(out / "files.parquet")["file"]) == ["k1", "k2"]
    for name, direct in (("k1", k1), ("k2", k2)):
        assert_frame_equal(of(out, "steps", name), direct.steps, check_dtype=False)
        keys = ["segment", "device", "bucket"]
        pairs = [
            frame.drop(columns="process").sort_values(keys, ignore_index=True)
            for frame in (of(out, "step_buckets", name), direct.step_buckets)
        ]
        assert_frame_equal(*pairs, check_dtype=False)
        assert of(out, "buckets", name).drop(columns="top_names").to_dict("records") == plain(
            direct.document.buckets
        )
    analysis = json.loads((out / f"{out.name}.nsys-analysis").read_text())
    assert analysis["RecipeName"] == "lanescope_step_buckets"
    assert analysis["Mode"] == mode
    assert analysis["Outputs"] == {"step_buckets.ipynb": "Notebook"}
    if mode == "none":
        assert execute(out / "step_buckets.ipynb") == 4


@pytest.mark.parametrize("mode", MODES)
def test_row_copies(mode: str, recipe: Nsys, two: Path, k2: Attribution, tmp_path: Path) -> None:
    report = two / "k2.nsys-rep"
    done = recipe("lanescope_row_copies", "--input", report, "--mode", mode, "--csv", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    out = tmp_path / "lanescope_row_copies-1"
    assert k2.layer_steps is not None
    assert k2.document.misses is not None
    direct = k2.layer_steps.reset_index(drop=True)
    assert_frame_equal(of(out, "layer_steps", "k2"), direct, check_dtype=False)
    misses = of(out, "misses", "k2").iloc[0]
    assert misses["per_layer_step.estimate"] == k2.document.misses.per_layer_step.estimate
    layers = of(out, "layers", "k2")
    assert list(layers["per_step.high"]) == [x.per_step.high for x in k2.document.misses.per_layer]
    assert (out / "layers.csv").is_file()
    if mode == "none":
        assert execute(out / "row_copies.ipynb") == 2


@pytest.mark.parametrize("mode", MODES)
def test_lane_diff(mode: str, recipe: Nsys, two: Path, unpacked: Unpacked, tmp_path: Path) -> None:
    lanes = (two / "k1.nsys-rep", two / "k2.nsys-rep")
    done = recipe("lanescope_lane_diff", "--input", *lanes, "--mode", mode, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    out = tmp_path / "lanescope_lane_diff-1"
    direct = lanescope.compare(unpacked("k1"), unpacked("k2")).pairs[0]
    assert direct.waterfall is not None
    deltas = pd.read_parquet(out / "deltas.parquet").drop(
        columns=["incumbent_lane", "candidate_lane"]
    )
    assert deltas.to_dict("records") == plain(direct.deltas)
    fall = pd.read_parquet(out / "waterfall.parquet")
    bars = [b.delta_ns for b in direct.waterfall.bars]
    assert list(fall["ns"]) == [direct.waterfall.from_ns, *bars, direct.waterfall.to_ns]
    assert json.loads((out / "comparison.json").read_text())["pairs"][0] == direct.model_dump()
    if mode == "none":
        assert execute(out / "lane_diff.ipynb") == 2


def test_one_bad_report_does_not_lose_the_rest(
    recipe: Nsys, two: Path, cpu_report: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.nsys-rep"
    broken.write_text("no report")
    done = recipe(
        "lanescope_step_buckets", "--input", broken, cpu_report, two / "k1.nsys-rep",
        "--mode", "none", "--output", "out", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    errors = [line for line in done.stdout.splitlines() if line.startswith("ERROR: ")]
    assert len(errors) == 2
    assert "broken.nsys-rep" in errors[0]
    assert "KERNEL" in errors[1]
    files = pd.read_parquet(tmp_path / "out" / "files.parquet").set_index("file")["error"]
    assert [bool(e) for e in files] == [True, True, False]


def test_nothing_is_left_where_every_report_fails(recipe: Nsys, tmp_path: Path) -> None:
    broken = tmp_path / "broken.nsys-rep"
    broken.write_text("no report")
    done = recipe(
        "lanescope_row_copies", "--input", broken, "--mode", "none", "--output", "out", cwd=tmp_path
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    assert [f.name for f in tmp_path.iterdir()] == ["broken.nsys-rep"]


def test_a_part_of_the_tables_is_not_taken_for_the_whole(
    recipe: Nsys, reports: Reports, k1: Attribution, tmp_path: Path
) -> None:
    """Other recipes leave only the tables that they read in the folder that this one finds."""
    folder = reports("k1")
    (folder / "k1_pqtdir" / "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION.parquet").unlink()
    done = recipe(
        "lanescope_step_buckets", "--input", folder, "--mode", "none", "--output", "out",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    # this report holds no kernels, so the part is all there is: used, and said
    assert "WARNING" in done.stdout
    assert "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" in done.stdout
    assert of(tmp_path / "out", "steps", "k1")["wall_ns"].sum() == k1.steps["wall_ns"].sum()


def test_the_filter_by_time_takes_whole_steps(
    recipe: Nsys, two: Path, unpacked: Unpacked, tmp_path: Path
) -> None:
    """Steps are asked for by the times of their ranges, as Nsight Systems shows them."""
    con = sqlite3.connect(unpacked("k1"))
    ranges = con.execute(
        "SELECT start, end FROM NVTX_EVENTS LEFT JOIN StringIds ON textId = id"
        " WHERE coalesce(text, value) LIKE 'spec_verify%' ORDER BY start"
    ).fetchall()
    con.close()
    start, end = ranges[3][0], ranges[7][1]
    done = recipe(
        "lanescope_step_buckets", "--input", two / "k1.nsys-rep", "--mode", "none",
        "--start", start, "--end", end, "--output", "out", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    steps = of(tmp_path / "out", "steps", "k1")
    assert list(steps[steps["measured"]]["step"]) == [3, 4, 5, 6, 7]


def test_without_dask_the_mode_says_what_is_missing(
    recipe: Nsys, two: Path, tmp_path: Path
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['distributed'] = None\n")
    done = recipe(
        "lanescope_step_buckets", "--input", two, "--mode", "dask-futures", cwd=tmp_path,
        PYTHONPATH=str(hidden),
    )  # fmt: skip
    if "distributed" not in done.stdout:
        pytest.skip("this nsys keeps no PYTHONPATH")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout


def test_a_lanescope_that_has_moved_says_so(
    recipe: Nsys, installed: Path, two: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "recipes"
    shutil.copytree(installed, moved)
    record = moved / "lanescope_recipe" / "installed.json"
    record.write_text(record.read_text().replace(json.dumps(sys.executable), '"/gone/python"'))
    done = recipe(
        "lanescope_step_buckets", "--input", two / "k1.nsys-rep", "--mode", "none", cwd=tmp_path,
        NSYS_RECIPE_PATH=os.fspath(moved),
    )  # fmt: skip
    assert done.returncode == 1
    assert "lanescope recipes install" in done.stdout
