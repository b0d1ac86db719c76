"""What the verbs print fits 80 columns, obeys NO_COLOR and --plain, and leaves nothing out."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lanescope.dashboards.terminal import Column, console, sentence, table
from lanescope.profiler.cli.main import VERBS, main
from lanescope.schemas.catalogue import Window, open_catalogue
from tests.conftest import REPOSITORY, SAMPLES, TRACES

RECEIPTS = REPOSITORY / "captures" / "receipts"
GOOD, KILLED = RECEIPTS / "h200-slots44", RECEIPTS / "h200-nsys-killed"
PROBE = "probe-control.requests.jsonl"
COLOUR = tuple(f"\x1b[{code}" for code in ("3", "9", "4", "1;3", "38"))


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def ladder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A catalogue with a ladder of long words, and windows with long names."""
    url = str(tmp_path / "c.sqlite")
    store = open_catalogue(url)
    with store.write() as session:
        session.add(Window(run="w" * 120, candidate="lane " * 30, state="done", folder="/f" * 90))
    store.close()
    words = "a change that needs many words to be told " * 4
    for number in range(3):
        args = ["add", f"rung-{'x' * 40}-{number}", "--change", words, "--status", "kept"]
        metrics = [f"--metric=metric number {m}={number + m}.5,{m},{number + m + 1},5"
                   for m in range(6)]  # fmt: skip
        with pytest.raises(SystemExit):
            main(["ladder", *args, *metrics, "--note", words, "--catalogue", url])
    capsys.readouterr()
    return url


def _lines(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    assert ended.value.code in (0, None, 1)
    out = capsys.readouterr().out
    assert out
    return out.splitlines()


def _fits(lines: list[str], width: int = 80) -> None:
    for line in lines:
        # a word that cannot be broken (a path, a hash) may stand alone on a line
        assert cell_len(line.rstrip()) <= width or " " not in line.strip(), line


@pytest.fixture(autouse=True)
def _eighty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "args",
    [
        ("attribute", str(SAMPLES / "k1.sqlite.xz"), "--truth", str(SAMPLES / "k1.truth.json")),
        ("attribute", str(TRACES / "twoproc.sqlite.xz")),
        ("compare", str(SAMPLES / "k1.sqlite.xz"), str(SAMPLES / "k2.sqlite.xz")),
        (
            "compare",
            *(str(SAMPLES / f"{n}.sqlite.xz") for n in ("slots20", "k1", "slots44")),
            "--axis=slots=20,32,44",
        ),
        ("compare", str(KILLED / PROBE), str(GOOD / PROBE)),
        ("hits", str(GOOD / "engine.log")),
        ("receipt", "verify", str(GOOD)),
    ],
    ids=lambda args: " ".join(Path(a).name for a in args)[:50],
)
def test_verbs_fit_eighty_columns(
    args: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    _fits(_lines(capsys, *args))


def test_catalogue_verbs_fit_eighty_columns(
    ladder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = _lines(capsys, "ladder", "show", "--catalogue", ladder)
    _fits(shown)
    assert any("Not shown at this width" in line for line in shown)
    _fits(_lines(capsys, "windows", "list", "--catalogue", ladder))


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_eighty_columns(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    _fits(_lines(capsys, *([verb] if verb else []), "--help"))


def test_plain_is_for_every_verb(ladder: str, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (
        ("compare", str(KILLED / PROBE), str(GOOD / PROBE)),
        ("ladder", "show", "--catalogue", ladder),
        ("windows", "list", "--catalogue", ladder),
        ("hits", str(GOOD / "engine.log")),
    ):
        for line in _lines(capsys, *args, "--plain"):
            assert not set(line) & set("─│┌┐└┘━┃"), line


def _shown(plain: bool = False) -> str:
    file = Terminal()
    con = console(file, plain)
    table("Title", [Column("name", numeric=False), Column("ms")], [["a", "1.0"]], con)
    sentence(con, "in colour", style="red")
    return file.getvalue()


def test_colour_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert any(code in _shown() for code in COLOUR)
    assert "\x1b" not in _shown(plain=True)
    assert "─" not in _shown(plain=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any(code in _shown() for code in COLOUR)
    piped = io.StringIO()
    sentence(console(piped), "no colour", style="red")
    assert "\x1b" not in piped.getvalue()


@given(
    st.integers(40, 120),
    st.lists(st.lists(st.text(st.characters(codec="ascii", categories=["L", "N", "Zs"]),
                              max_size=60), min_size=5, max_size=5), max_size=5),
)  # fmt: skip
def test_no_table_is_wider_than_its_console(width: int, rows: list[list[str]]) -> None:
    file = io.StringIO()
    con = console(file)
    con.width = width
    columns = [Column("text", numeric=False), *(Column(f"n{i}") for i in range(4))]
    rows = [[row[0], *(cell.replace(" ", "")[: width // 3] for cell in row[1:])] for row in rows]
    table("", columns, rows, con)
    text = file.getvalue()
    assert all(cell_len(line) <= width for line in text.splitlines())
    missing = text.partition("Not shown at this width: ")[2]
    for i in range(4):
        heading = f"n{i}"
        assert heading in text
        if heading not in missing:
            assert all(row[i + 1] in text for row in rows)


def test_the_column_to_be_missed_least_goes_first() -> None:
    file = io.StringIO()
    con = console(file)
    con.width = 40
    columns = [Column("a"), Column("b", drop_order=1), Column("c")]
    table("", columns, [["1" * 15, "2" * 15, "3" * 15]], con)
    assert "3" * 15 in file.getvalue()
    assert "Not shown at this width: b." in file.getvalue()


def test_sentences_break_between_words_only() -> None:
    file = io.StringIO()
    con = console(file)
    path = "/a/very/long/path/" + "x" * 90
    sentence(con, f"Written to {path} and there is more to be said of it than fits on one line")
    lines = file.getvalue().splitlines()
    assert any(line.strip() == path for line in lines)
    assert " ".join(line.strip() for line in lines).startswith(f"Written to {path} and")
