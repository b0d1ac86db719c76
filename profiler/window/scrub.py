"""A shareable export: without environments, program output, user and host names; and the proof.

A trace holds the environment of every process that nsys saw: in the capture metadata, in the
target's system environment, in the string table. What is removed is remembered, and every byte of
the result is searched for it.
"""

from __future__ import annotations

import contextlib
import mmap
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lanescope.profiler.window.redact import (
    HIDDEN,
    SHORTEST,
    Redactor,
    forms,
    is_secret,
    secrets_in_command,
)
from lanescope.schemas.errors import LanescopeError, UnusableInput

_META = re.compile(r"ENVIRONMENT|USER_NAME|WORKING_DIR|HOSTNAME|DEVICE_DISPLAY_NAME", re.IGNORECASE)
_SYSTEM = re.compile(r"environment|hostname|username", re.IGNORECASE)
_ARGUMENT = re.compile(r":(COMMAND|ARGUMENT_\d+)$")
_ASSIGNMENT = re.compile(r"""(?:^|[\0\n;])([A-Za-z_][A-Za-z0-9_]*)=("?)([^\0\n;]*)\2""")
#: shorter values of plain variables are words that occur anywhere
PLAIN_LENGTH = 8
_NAMING = re.compile(r"(nameId|textId|demangledName|shortName|mangledName|jsonTextId)$")
#: tables that hold what programs printed
OUTPUT_TABLES = ("ProcessStreams", "ANALYSIS_FILE")


class NotClean(LanescopeError):
    """The proof failed: something that was to be removed is still there. Nothing was written."""


def scrub(source: Path, target: Path, known: Iterable[str] = ()) -> dict[str, Any]:
    """Write a scrubbed copy of a SQLite export. Raises `NotClean` rather than leave a secret in."""
    if target.exists():
        raise UnusableInput(f"{target} exists", "name another target")
    work = target.with_name(target.name + ".work.partial")
    final = target.with_name(target.name + ".partial")
    try:
        _copy(source, work)
        with contextlib.closing(sqlite3.connect(work)) as db:
            db.execute("PRAGMA secure_delete = ON")
            job = _Job(db, known)
            job.run()
            db.commit()
            db.execute("VACUUM INTO ?", (str(final),))
        searched = prove(final, job.removed)
        final.rename(target)
    except sqlite3.DatabaseError as exc:
        raise UnusableInput(f"{source}: not a SQLite export: {exc}", "export it again") from exc
    finally:
        work.unlink(missing_ok=True)
        final.unlink(missing_ok=True)
    return {
        "removed_variables": sorted(job.names),
        "values_searched": len(job.removed),
        "bytes_searched": searched,
        "kept_because_in_kernel_names": sorted(job.kept),
    }


def _copy(source: Path, work: Path) -> None:
    work.unlink(missing_ok=True)
    uri = f"file:{source}?mode=ro&immutable=1"
    with (
        contextlib.closing(sqlite3.connect(uri, uri=True)) as old,
        contextlib.closing(sqlite3.connect(work)) as new,
    ):
        old.backup(new)


def prove(file: Path, values: Iterable[str]) -> int:
    """Search every byte for every spelling of every value; the number of bytes searched."""
    needles = {f.encode(code) for v in values for f in forms(v) for code in ("utf-8", "utf-16-le")}
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for needle in needles:
            if data.find(needle) >= 0:
                raise NotClean(
                    f"{file.name}: a removed value is still there", "report it; nothing was written"
                )
        return len(data)


class _Job:
    """One scrubbing: the database, and what was taken out of it."""

    def __init__(self, db: sqlite3.Connection, known: Iterable[str]) -> None:
        self.db = db
        self.removed: set[str] = {v for v in known if len(v) >= SHORTEST}
        self.names: set[str] = set()
        self.kept: set[str] = set()
        self.plain: dict[str, str] = {}
        self.tables = {
            row[0]: [c[1] for c in db.execute(f'PRAGMA table_info("{row[0]}")')]
            for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }

    def run(self) -> None:
        """Take out whole texts first, learning their values; then the values wherever they are."""
        self._metadata()
        self._system()
        self._output()
        self._strings()
        self._values()

    def learn(self, text: str) -> None:
        """The variables in a text that is an environment."""
        for name, _, value in _ASSIGNMENT.findall(text):
            self.names.add(name)
            if not value:
                continue
            if is_secret(name, value) and len(value) >= SHORTEST:
                self.removed.add(value)
            elif len(value) >= PLAIN_LENGTH:
                self.plain[value] = name

    def _metadata(self) -> None:
        if "META_DATA_CAPTURE" not in self.tables:
            return
        rows = self.db.execute("SELECT rowid, name, value FROM META_DATA_CAPTURE").fetchall()
        words = [str(value) for _, name, value in rows if _ARGUMENT.search(str(name))]
        self.removed |= {v for v in secrets_in_command(words) if len(v) >= SHORTEST}
        for rowid, name, value in rows:
            if _META.search(str(name)):
                self.learn(str(value))
                self.db.execute("DELETE FROM META_DATA_CAPTURE WHERE rowid = ?", (rowid,))

    def _system(self) -> None:
        if "TARGET_INFO_SYSTEM_ENV" not in self.tables:
            return
        rows = self.db.execute("SELECT rowid, name, value FROM TARGET_INFO_SYSTEM_ENV").fetchall()
        for rowid, name, value in rows:
            if _SYSTEM.search(str(name)):
                self.learn(str(value))
                self.db.execute("DELETE FROM TARGET_INFO_SYSTEM_ENV WHERE rowid = ?", (rowid,))

    def _output(self) -> None:
        for table in OUTPUT_TABLES:
            if table in self.tables:
                self.db.execute(f'DELETE FROM "{table}"')

    def _strings(self) -> None:
        """Strings that name nothing (environments, printed text, file contents) lose their text."""
        if "StringIds" not in self.tables:
            return
        used: set[int] = set()
        for table, columns in self.tables.items():
            for column in columns:
                if _NAMING.search(column) and table != "StringIds":
                    query = (
                        f'SELECT DISTINCT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL'
                    )
                    used |= {row[0] for row in self.db.execute(query)}
        for key, value in self.db.execute("SELECT id, value FROM StringIds").fetchall():
            if key not in used and value:
                self.learn(str(value))
                self.db.execute("UPDATE StringIds SET value = ? WHERE id = ?", (HIDDEN, key))

    def _values(self) -> None:
        """Secrets go from every text; values of plain variables from all but kernel names."""
        names = [*self._kernel_names(), *self._fixed_words()]
        for value, name in self.plain.items():
            if any(value in text for text in names):
                self.kept.add(name)
            else:
                self.removed.add(value)
        redact = Redactor()
        redact.values = set()
        redact.learn(self.removed)
        for table, columns in self.tables.items():
            for column in columns if not table.startswith("ENUM_") else ():
                self._clean(table, column, redact)

    def _fixed_words(self) -> list[str]:
        """Words of the export itself: its enumerations, its tables and columns."""
        words = [word for table, columns in self.tables.items() for word in (table, *columns)]
        for table, columns in self.tables.items():
            if table.startswith("ENUM_"):
                for column in columns:
                    words += [
                        str(row[0]) for row in self.db.execute(f'SELECT "{column}" FROM "{table}"')
                    ]
        return words

    def _kernel_names(self) -> list[str]:
        kernel = "CUPTI_ACTIVITY_KIND_KERNEL"
        if kernel not in self.tables or "StringIds" not in self.tables:
            return []
        ids: set[int] = set()
        for column in ("demangledName", "shortName", "mangledName"):
            if column in self.tables[kernel]:
                query = f'SELECT DISTINCT "{column}" FROM "{kernel}"'
                ids |= {row[0] for row in self.db.execute(query)}
        rows = self.db.execute("SELECT id, value FROM StringIds").fetchall()
        return [str(value) for key, value in rows if key in ids]

    def _clean(self, table: str, column: str, redact: Redactor) -> None:
        kinds = "('text', 'blob')"
        query = f'SELECT rowid, "{column}" FROM "{table}" WHERE typeof("{column}") IN {kinds}'
        update = f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?'
        for rowid, value in self.db.execute(query).fetchall():
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            cleaned = redact.known(text)
            if cleaned != text:
                self.db.execute(update, (cleaned, rowid))
