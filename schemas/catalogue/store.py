"""Opening the catalogue: where it lies, its migrations, and sessions to read and write it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from platformdirs import user_data_path
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session

from lanescope.schemas.errors import UnusableInput, UsageError

#: The environment variable that names another catalogue.
VARIABLE = "LANESCOPE_CATALOGUE"
#: One key for the advisory lock under which PostgreSQL migrates; any constant serves.
_LOCK_KEY = 0x6C616E65


def default_url() -> str:
    """`$LANESCOPE_CATALOGUE`, or a SQLite file in the user's (XDG) data folder."""
    return os.environ.get(VARIABLE) or str(user_data_path("lanescope") / "catalogue.sqlite")


class Catalogue:
    """An open catalogue, migrated to this version's tables."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def name(self) -> str:
        """Where it lies, without a password: what messages and pages may show."""
        return self.engine.url.render_as_string(hide_password=True)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that only reads; whatever it changed is rolled back."""
        with Session(self.engine) as session:
            yield session
            session.rollback()

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that commits when its block ends well and rolls back when it does not."""
        with Session(self.engine.execution_options(begin="IMMEDIATE")) as session, session.begin():
            yield session

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()


def open_catalogue(url: str | None = None) -> Catalogue:
    """Open (and make, and migrate) the catalogue at `url`, by default `default_url()`.

    `url` is a SQLAlchemy URL (`sqlite:///file`, `postgresql://user@host/name`) or a plain path of
    a SQLite file. Two processes may open a new one at once.

    Raises UsageError for a URL that is none, UnusableInput for a database that cannot be opened or
    was written by a newer version. No message holds the URL's password.
    """
    parsed = _parse(url or default_url())
    shown = parsed.render_as_string(hide_password=True)
    try:
        engine = _engine(parsed)
        _migrate(engine)
    except (NoSuchModuleError, ModuleNotFoundError) as exc:
        raise UsageError(
            f"no driver for the catalogue {shown}: {exc}",
            "sqlite:///FILE or postgresql://..., the latter with pip install 'lanescope[postgres]'",
        ) from exc
    except CommandError as exc:
        raise UnusableInput(
            f"the catalogue {shown} was written by a newer lanescope: {exc}",
            "update lanescope, or name another catalogue",
        ) from exc
    except (DBAPIError, OSError) as exc:
        reason = str(exc.orig if isinstance(exc, DBAPIError) else exc)
        if parsed.password:
            reason = reason.replace(str(parsed.password), "***")
        raise UnusableInput(
            f"cannot open the catalogue {shown}: {reason}",
            f"check the path or server, or name another by --catalogue or ${VARIABLE}",
        ) from exc
    return Catalogue(engine)


def _parse(text_: str) -> URL:
    if "://" not in text_:
        return URL.create("sqlite", database=str(Path(text_).expanduser()))
    try:
        url = make_url(text_)
    except (ArgumentError, ValueError) as exc:  # the text itself may hold a password: not repeated
        raise UsageError(
            "the catalogue's URL cannot be read", "sqlite:///FILE or postgresql://user@host/name"
        ) from exc
    if url.drivername in {"postgres", "postgresql"}:
        return url.set(drivername="postgresql+psycopg")
    return url


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    if url.database and url.database != ":memory:":
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": 30})

    # Python's driver opens transactions by rules of its own; these two put SQLAlchemy in charge,
    # so that a migration is one transaction and writers queue instead of failing half-way.
    @event.listens_for(engine, "connect")
    def _connected(dbapi: Any, _record: Any) -> None:
        dbapi.isolation_level = None
        dbapi.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def _begun(conn: Connection) -> None:
        conn.exec_driver_sql(f"BEGIN {conn.get_execution_options().get('begin', '')}")

    return engine


def _migrate(engine: Engine) -> None:
    """Bring the tables to this version, under a lock that holds for every process."""
    config = Config()
    folder = Path(__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    with engine.execution_options(begin="IMMEDIATE").begin() as conn:
        if engine.dialect.name == "postgresql":
            conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        config.attributes["connection"] = conn
        command.upgrade(config, "head")
