"""A ladder, on both engines: standings, ties by rule, and retractions that stay visible."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lanescope.attribution.lanes import ladder
from lanescope.dashboards import ladders as views
from lanescope.dashboards.pages.ladder_page import ladder_page
from lanescope.schemas.catalogue import Catalogue, Rung, open_catalogue
from lanescope.schemas.documents.ladder import LadderDocument
from lanescope.schemas.errors import UsageError


@pytest.fixture
def store(url: str) -> Iterator[Catalogue]:
    catalogue = open_catalogue(url)
    yield catalogue
    catalogue.close()


def put(store: Catalogue, name: str, status: str = "kept", **more: object) -> None:
    metrics = {}
    for metric in ("code", "prose"):
        if metric in more:
            middle, low, high = more.pop(metric)  # type: ignore[misc]
            metrics[metric] = {"median": middle, "min": low, "max": high, "n": 5}
    with store.write() as session:
        row = Rung(ladder="glm", name=name, change=name, status=status, metrics=metrics, **more)
        ladder.add(session, row)


def read(store: Catalogue) -> LadderDocument:
    with store.read() as session:
        return ladder.read(session, "glm")


@pytest.fixture
def climbed(store: Catalogue) -> Catalogue:
    put(store, "first light", code=(27.6, 27.0, 28.0), prose=(20.7, 20.5, 20.9))
    put(store, "L2", code=(28.4, 26.9, 29.8), prose=(20.6, 20.5, 20.7))
    put(store, "L3", "reverted", code=(27.0, 23.9, 28.4), prose=(20.7, 20.6, 20.8))
    put(store, "L4", "blocked", note="boot failed in 64 s")
    put(store, "D6", code=(29.7, 27.2, 31.0), prose=(21.5, 20.4, 23.4))
    put(store, "V4b", code=(29.5, 29.5, 29.6), prose=(22.5, 22.4, 22.6))
    put(store, "D5", code=(29.5, 29.4, 29.6), prose=(22.4, 22.3, 22.6), because="official code")
    put(store, "wash", code=(29.5, 29.4, 29.6), prose=(22.0, 21.9, 22.1))
    put(store, "gated", code=(33.0, 32.0, 34.0), gate="fail")
    return store


def test_incumbency_follows_the_stated_rule(climbed: Catalogue) -> None:
    document = read(climbed)
    standing = {r.name: (r.standing, r.incumbent) for r in document.rungs}
    assert standing == {
        "first light": ("first", True),
        "L2": ("beats", True),
        "L3": ("tie", False),
        "L4": ("not measured", False),
        "D6": ("beats", True),
        "V4b": ("tie", True),  # within D6's repetitions, and better prose
        "D5": ("tie", True),  # no better prose, but a stated reason
        "wash": ("tie", False),
        "gated": ("beats", False),  # what fails its gate takes nothing
    }
    assert [i.name for i in document.incumbents] == ["first light", "L2", "D6", "V4b", "D5"]
    assert document.incumbents[-1].until_ns is None
    assert document.total_gain_pct == pytest.approx(100 * (29.5 / 27.6 - 1))
    assert "official code" in next(r for r in document.rungs if r.name == "D5").reason
    assert "tie" in document.rule


def test_a_retraction_stays_visible_and_takes_the_incumbency(climbed: Catalogue) -> None:
    with climbed.write() as session:
        ladder.mark(session, "glm", "D5", "correction", "accept length was 3.4 to 4.4")
        ladder.mark(session, "glm", "7", "retraction", "the arg counts the bonus | token <b>")
    document = read(climbed)
    rung = next(r for r in document.rungs if r.name == "D5")
    assert (rung.retracted, rung.incumbent, rung.status) == (True, False, "kept")
    assert [m.kind for m in rung.marks] == ["correction", "retraction"]
    assert document.incumbents[-1].name == "V4b"
    for text in (views.markdown(document), ladder_page(document)):
        assert "RETRACTION" in text
        assert "accept length" in text
        assert "<b>" not in text
    assert "~~D5~~" in views.markdown(document)


def test_a_metric_of_which_less_is_better(store: Catalogue) -> None:
    for name, value in (("one", 0.6), ("two", 0.5)):
        with store.write() as session:
            metrics = {"ttft": {"median": value, "better": "lower"}}
            row = Rung(ladder="glm", name=name, change="x", status="kept", metrics=metrics)
            ladder.add(session, row)
    assert [i.name for i in read(store).incumbents] == ["one", "two"]


@pytest.mark.parametrize(
    "more",
    [
        {"status": "loved"},
        {"metrics": {"code": {"median": 3, "min": 4, "max": 5}}},
        {"metrics": {"code": {"middle": 3}}},
        {"gate": "perhaps"},
        {"change": " "},
        {"name": "D6"},
    ],
)
def test_what_is_no_rung_is_refused(climbed: Catalogue, more: dict[str, object]) -> None:
    row = {"ladder": "glm", "name": "new", "change": "x", "status": "kept", "metrics": {}} | more
    with pytest.raises(UsageError), climbed.write() as session:
        ladder.add(session, Rung(**row))
    assert len(read(climbed).rungs) == 9


def test_marks_need_a_rung_and_a_reason(climbed: Catalogue) -> None:
    for rung, text in (("D9", "x"), ("99", "x"), ("D6", " ")):
        with pytest.raises(UsageError), climbed.write() as session:
            ladder.mark(session, "glm", rung, "retraction", text)
    with pytest.raises(UsageError, match="there are: glm"), climbed.read() as session:
        ladder.read(session, "other")
