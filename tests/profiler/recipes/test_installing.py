"""`lanescope recipes`: where the recipes are put, and what is never overwritten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

NAMES = {"lanescope_step_buckets", "lanescope_row_copies", "lanescope_lane_diff"}


def run(*args: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lanescope", "recipes", *map(str, args)],
        capture_output=True, text=True, check=False, env={**os.environ, **env},
    )  # fmt: skip


def test_install_path_and_list_agree(tmp_path: Path) -> None:
    target = str(tmp_path / "my recipes")
    before = run("path", NSYS_RECIPE_PATH=target)
    assert before.returncode == 3
    assert "lanescope recipes install" in before.stderr
    assert run("install", NSYS_RECIPE_PATH=target).returncode == 0
    assert run("path", NSYS_RECIPE_PATH=target).stdout.strip() == target
    listed = json.loads(run("list", "--json", NSYS_RECIPE_PATH=target).stdout)
    assert {r["name"] for r in listed["recipes"]} == NAMES
    assert listed["python"] == sys.executable
    for name in NAMES:
        metadata = json.loads((Path(target) / name / "metadata.json").read_text())
        module = Path(target) / name / f"{metadata['module_name']}.py"
        assert f"class {metadata['class_name']}(" in module.read_text()


def test_installing_again_replaces_only_what_nobody_changed(tmp_path: Path) -> None:
    assert run("install", "--to", tmp_path).returncode == 0
    assert run("install", "--to", tmp_path).returncode == 0
    notebook = tmp_path / "lanescope_lane_diff" / "lane_diff.ipynb"
    notebook.write_text("mine")
    done = run("install", "--to", tmp_path)
    assert done.returncode == 2
    assert str(notebook) in done.stderr
    assert notebook.read_text() == "mine"
    assert run("install", "--to", tmp_path, "--force").returncode == 0
    assert notebook.read_text() != "mine"


def test_a_folder_that_cannot_be_one_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("install", "--to", tmp_path / "file")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
