"""The same question twice: the kept answer is the answer, and another question is not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from lanescope.attribution import question as questions
from lanescope.attribution.ingest import cache
from lanescope.profiler.cli import answers
from lanescope.profiler.cli.main import main

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "captures" / "samples" / "k1.sqlite.xz"


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANESCOPE_CACHE_DIR", str(tmp_path / "cache"))
    return Path(shutil.copy(SAMPLE, tmp_path / "k1.sqlite.xz"))


def _attribute(trace: Path, out: str, *more: str) -> dict[str, bytes]:
    folder = trace.parent / out
    with pytest.raises(SystemExit) as ended:
        main(["attribute", str(trace), "--out", str(folder), *more])
    assert ended.value.code == 0
    return {f.name: f.read_bytes() for f in sorted(folder.iterdir())}


def _kept(trace: Path) -> list[Path]:
    return list((trace.parent / "cache").glob("*/answer-*"))


def test_the_same_question_gets_the_same_bytes(trace: Path) -> None:
    first = _attribute(trace, "a")
    kept = _kept(trace)
    marked = kept[0] / "report.html"
    assert len(kept) == 1
    marked.write_bytes(first["report.html"] + b"<!-- kept -->")
    second = _attribute(trace, "b")
    assert second.pop("report.html").endswith(b"<!-- kept -->"), "it was worked out again"
    assert second == {k: v for k, v in first.items() if k != "report.html"}


@pytest.mark.parametrize("other", ["window", "profile", "truth", "program", "source", "damage"])
def test_another_question_is_worked_out(
    trace: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _attribute(trace, "a")
    (_kept(trace)[0] / "report.html").write_bytes(b"kept")
    more: list[str] = []
    if other == "window":
        more = ["--window", "0..9"]
    elif other == "profile":
        text = (ROOT / "captures" / "profiles" / "slot-cache.toml").read_text()
        (trace.parent / "mine.toml").write_text(text)
        more = ["--profile", str(trace.parent / "mine.toml")]
    elif other == "truth":
        (trace.parent / "k1.truth.json").write_text(json.dumps({"misses": [[0]]}))
    elif other == "program":
        monkeypatch.setattr(questions, "_program", lambda _rooms: "another release")
    elif other == "source":
        shutil.copy(SAMPLE.with_name("k2.sqlite.xz"), trace)
    else:
        (_kept(trace)[0] / "attribution.json").write_text("{")
    assert _attribute(trace, "b", *more)["report.html"] != b"kept"
    assert len(_kept(trace)) == (2 if other == "source" else 1), "the last answer of a source"


def test_an_answer_that_cannot_be_kept_is_given_all_the_same(trace: Path) -> None:
    _attribute(trace, "a")
    for kept in _kept(trace):
        shutil.rmtree(kept)
    staged = next((trace.parent / "cache").iterdir())
    blocked = staged / "answer-blocked"
    blocked.write_text("a file of that name")
    if os.geteuid() == 0:  # root writes anywhere: the rename is what fails then
        taken = answers.asked(trace, None, "")
        (staged / f"answer-{taken}").write_text("in the way")
    assert "report.html" in _attribute(trace, "b")


def test_clear_removes_answers(trace: Path) -> None:
    _attribute(trace, "a")
    assert cache.clear()[0] == 1
    assert not _kept(trace)
