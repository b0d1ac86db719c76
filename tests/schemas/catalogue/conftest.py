"""Both real engines: a SQLite file, and a PostgreSQL server of the tests' own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def _binaries() -> Path | None:
    """The folder of PostgreSQL's server programs; Debian keeps them off the PATH."""
    found = [Path(p).parent for p in [shutil.which("initdb")] if p]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((f for f in found if (f / "initdb").exists() and (f / "pg_ctl").exists()), None)


def _unprivileged() -> dict[str, Any]:
    """PostgreSQL refuses root: whom to run it as, in the words of `subprocess`."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            who = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL refuses root, and there is no user postgres or nobody")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A server in a temporary folder, reached by a socket there alone: the URL without a name."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    pytest.importorskip("psycopg", reason="no driver: pip install 'lanescope[postgres]'")
    who = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="lanescope-pg-", dir="/tmp"))  # sockets need short paths
    if who:
        os.chown(folder, who["user"], who["group"])
    data = folder / "data"

    def run(*args: str) -> None:
        done = subprocess.run(args, capture_output=True, text=True, cwd="/", check=False, **who)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        run(f"{binaries}/initdb", "-D", str(data), "-U", "lanescope", "-A", "trust", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        log = str(folder / "log")
        run(f"{binaries}/pg_ctl", "-D", str(data), "-w", "-l", log, "-o", options, "start")
        try:
            yield f"postgresql://lanescope@/%s?host={folder}"
        finally:
            run(f"{binaries}/pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that holds nothing yet, on each engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a folder/catalogue.sqlite"
    import psycopg

    server: str = request.getfixturevalue("postgres")
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(server % "postgres", autocommit=True) as conn:
        conn.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
    return server % name
