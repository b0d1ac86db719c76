"""The catalogue opens, migrates and keeps its promises on both real engines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.exc import DBAPIError

from lanescope.schemas.catalogue import (
    Artifact,
    AttributionRow,
    Base,
    Rung,
    RungMark,
    Window,
    default_url,
    open_catalogue,
)
from lanescope.schemas.errors import UnusableInput, UsageError


def rung(name: str = "first light") -> Rung:
    return Rung(ladder="glm", name=name, change="none", status="kept", metrics={"code": {"n": 5}})


def test_migrations_make_exactly_the_models(url: str) -> None:
    catalogue = open_catalogue(url)
    with catalogue.engine.connect() as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    catalogue.close()


def test_rows_come_back_as_they_went(url: str) -> None:
    big = 2**62 + 1  # a 64-bit integer, kept to the last digit
    catalogue = open_catalogue(url)
    with catalogue.write() as session:
        window = Window(
            run="w1", candidate="k2", state="done", folder="/w", started_ns=big, facts={"µ": [1]}
        )
        window.artifacts.append(Artifact(kind="log", path="a", sha256="0" * 64, size_bytes=big))
        window.attributions.append(AttributionRow(lane="k2", trace_sha256="1" * 64, folder="/a"))
        session.add(window)
    catalogue.close()
    with open_catalogue(url).read() as session:
        window = session.scalars(sa.select(Window)).one()
        assert (window.started_ns, window.facts) == (big, {"µ": [1]})
        assert window.artifacts[0].size_bytes == big
        assert window.artifacts[0].private is False
        assert window.attributions[0].lane == "k2"


def test_a_block_that_fails_leaves_nothing(url: str) -> None:
    catalogue = open_catalogue(url)
    with pytest.raises(RuntimeError), catalogue.write() as session:  # noqa: PT012
        session.add(rung())
        session.flush()
        raise RuntimeError
    with catalogue.read() as session:
        assert session.scalars(sa.select(Rung)).all() == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rungs SET status = 'reverted'",
        "DELETE FROM rungs",
        "UPDATE rung_marks SET text = 'never mind'",
        "DELETE FROM rung_marks",
    ],
)
def test_the_ladder_can_only_grow(url: str, statement: str) -> None:
    catalogue = open_catalogue(url)
    with catalogue.write() as session:
        session.add(rung())
        session.flush()
        session.add(RungMark(rung_id=1, kind="retraction", text="the arg counts the bonus token"))
    with pytest.raises(DBAPIError, match="append-only"), catalogue.write() as session:
        session.execute(sa.text(statement))
    with catalogue.read() as session:
        assert session.scalars(sa.select(Rung)).one().status == "kept"
        assert session.scalars(sa.select(RungMark)).one().kind == "retraction"


def test_many_processes_open_a_new_one_at_once(url: str) -> None:
    code = (
        "import sys; from lanescope.schemas.catalogue import *\n"
        "with open_catalogue(sys.argv[1]).write() as s:\n"
        "    s.add(Rung(ladder='l', name=sys.argv[2], change='c', status='kept'))"
    )
    ready = [
        subprocess.Popen([sys.executable, "-c", code, url, str(i)], stderr=subprocess.PIPE)
        for i in range(4)
    ]
    for process in ready:
        _, err = process.communicate()
        assert process.returncode == 0, err.decode()
    with open_catalogue(url).read() as session:
        assert sorted(session.scalars(sa.select(Rung.name))) == ["0", "1", "2", "3"]


def test_a_newer_catalogue_is_left_alone(url: str) -> None:
    catalogue = open_catalogue(url)
    with catalogue.write() as session:
        session.execute(sa.text("UPDATE alembic_version SET version_num = 'v9999'"))
    with pytest.raises(UnusableInput, match="newer lanescope"):
        open_catalogue(url)


def test_an_older_catalogue_gains_the_new_tables(url: str) -> None:
    from alembic import command
    from alembic.config import Config

    from lanescope.schemas.catalogue import store

    catalogue = open_catalogue(url)
    with catalogue.write() as session:
        session.add(Window(run="w1", candidate="k2", state="done", folder="/w"))
    config = Config()
    config.set_main_option("script_location", str(Path(store.__file__).parent / "migrations"))
    with catalogue.engine.begin() as conn:
        config.attributes["connection"] = conn
        command.downgrade(config, "v0001")
        assert "rungs" not in sa.inspect(conn).get_table_names()
    catalogue.close()
    with open_catalogue(url).write() as session:
        assert session.scalars(sa.select(Window.run)).one() == "w1"
        session.add(rung())


def test_the_default_lies_in_the_users_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("LANESCOPE_CATALOGUE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "da#ta ?é%20"))
    catalogue = open_catalogue()
    assert (tmp_path / "da#ta ?é%20" / "lanescope" / "catalogue.sqlite").exists()
    catalogue.close()
    monkeypatch.setenv("LANESCOPE_CATALOGUE", "sqlite:///x")
    assert default_url() == "sqlite:///x"


def test_no_message_holds_the_password(tmp_path: Path) -> None:
    secret = "hunter2-very-secret"
    bad = f"postgresql://u:{secret}@localhost:1/none?connect_timeout=1"
    with pytest.raises(UnusableInput) as caught:
        open_catalogue(bad)
    assert secret not in str(caught.value)
    with pytest.raises(UsageError) as usage:
        open_catalogue(f"nonsense://u:{secret}@x:notaport/y")
    assert secret not in str(usage.value)
    with pytest.raises(UsageError, match="driver"):
        open_catalogue("mongodb://u@x/y")


@pytest.mark.parametrize("make", ["folder", "text"])
def test_a_file_that_is_no_database_is_one_line(tmp_path: Path, make: str) -> None:
    path = tmp_path / "c.sqlite"
    if make == "folder":
        path.mkdir()
    else:
        path.write_text("not a database at all, but longer than a header of one hundred bytes " * 9)
    with pytest.raises(UnusableInput) as caught:
        open_catalogue(str(path))
    assert "c.sqlite" in str(caught.value)
    assert "\n" not in str(caught.value)
