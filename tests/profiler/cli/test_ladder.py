"""`lanescope ladder` from the outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lanescope.profiler.cli.main import main


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(verb: str, *args: Any) -> tuple[int, str, str]:
        argv = ["ladder", verb, *map(str, args), "--catalogue", str(tmp_path / "c.sqlite")]
        with pytest.raises(SystemExit) as caught:
            main(argv)
        out = capsys.readouterr()
        return int(caught.value.code or 0), out.out, out.err

    return run


def test_add_retract_show(call: Any, tmp_path: Path) -> None:
    verdict = tmp_path / "gate.json"
    verdict.write_text('{"verdict": "pass"}')
    base = ("--change", "nothing", "--status", "kept")
    assert call("add", "first", *base, "--values", "code=27,28,27.6")[0] == 0
    code, out, _ = call(
        "add", "D6", "--change", "draft tokens", "--status", "kept", "--metric",
        "code=29.7,27.2,31.0,5", "--diff", "draft_tokens=8->6", "--gate", verdict, "--link", "w7",
    )  # fmt: skip
    assert code == 0
    assert "incumbent of default: D6" in out
    document = json.loads(call("show", "--json")[1])
    assert document["schema"] == "lanescope.ladder/1"
    assert document["rungs"][0]["metrics"]["code"] == {
        "median": 27.6, "min": 27.0, "max": 28.0, "n": 3, "unit": "", "better": "higher",
    }  # fmt: skip
    assert document["rungs"][1]["difference"] == {"draft_tokens": ["8", "6"]}
    assert document["rungs"][1]["gate"] == "pass"
    code, out, _ = call("retract", "D6", "--why", "measured with the other map")
    assert "incumbent of default: first" in out
    table = call("show")[1]
    assert "RETRACTED" in table
    assert "measured with the other map" in table
    page = tmp_path / "ladder.html"
    assert call("show", "--format", "html", "--out", page)[0] == 0
    assert page.read_text().startswith("<!doctype html>")
    assert call("show", "--format", "html", "--out", page)[0] == 2


@pytest.mark.parametrize(
    "args",
    [
        ("--metric", "code"),
        ("--metric", "code=1,2"),
        ("--metric", "code=nan"),
        ("--metric", "code=3,4,5"),
        ("--diff", "a=b"),
        ("--lower", "code"),
        ("--gate", "/none"),
    ],
)
def test_mistakes_are_one_line(call: Any, args: tuple[str, ...]) -> None:
    code, _, err = call("add", "x", "--change", "y", "--status", "kept", *args)
    assert code in {2, 3}
    assert err.count("\n") == 1
    assert "no ladder default" in call("show")[2]
