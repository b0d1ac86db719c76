"""A window's output folder: receipts, manifest, and the reserve that a full disk cannot take.

Every file is written to a temporary name and renamed. The raw report and the raw engine log go to
a folder of their own, marked private; nothing in the output folder has passed by the redactor.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lanescope.profiler.window.redact import Redactor
from lanescope.schemas.documents.receipt import FileEntry, Manifest, Receipt
from lanescope.schemas.errors import UnusableInput, no_space_left

RESERVE = 4 * 2**20
PRIVATE_NOTE = (
    "PRIVATE: the raw report in this folder holds the environment and the output of every\n"
    "process it saw. Make a shareable export with `lanescope scrub`; do not publish this folder.\n"
)


def utc(seconds: float | None = None) -> str:
    """A time as text, UTC, to the millisecond."""
    stamp = datetime.datetime.fromtimestamp(
        time.time() if seconds is None else seconds, datetime.UTC
    )
    return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sha256_of(path: Path) -> str:
    """The hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Folder:
    """The output folder of one run."""

    def __init__(self, path: Path, private: Path, window: str, run: str, redact: Redactor) -> None:
        self.path = path
        self.private = private
        self.window = window
        self.run = run
        self.redact = redact
        self.unwritten: list[str] = []

    def create(self) -> None:
        """Make both folders; an existing one is another window's, and is not touched."""
        for folder, mode in ((self.path, 0o755), (self.private, 0o700)):
            try:
                folder.mkdir(mode=mode, parents=True)
            except FileExistsError as exc:
                raise UnusableInput(
                    f"{folder} exists", "earlier results are never touched"
                ) from exc
            except OSError as exc:
                raise UnusableInput(f"{folder}: {exc.strerror}", "name another output") from exc
        (self.path / "receipts").mkdir()
        (self.private / "PRIVATE.txt").write_text(PRIVATE_NOTE)
        with (self.path / ".reserve").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE)

    def write(self, name: str, text: str) -> Path:
        """A text file in the folder, redacted."""
        return self._put(name, self.redact.text(text))

    def write_document(self, name: str, text: str) -> Path:
        """A file that names secrets without holding any: known values alone are replaced."""
        return self._put(name, self.redact.known(text))

    def write_page(self, name: str, text: str) -> Path:
        """A page made of files of this folder. It never costs the reserve: see `_put`."""
        _write(self.path / name, self.redact.known(text))
        return self.path / name

    def write_json(self, name: str, data: Any) -> Path:
        """A JSON file in the folder, redacted value by value."""
        return self._put(name, self._json(data, 1) + "\n")

    def write_rows(self, name: str, rows: Iterable[Any]) -> Path:
        """A file of JSON lines, redacted value by value."""
        return self._put(name, "".join(self._json(row, None) + "\n" for row in rows))

    def _json(self, data: Any, indent: int | None) -> str:
        return self.redact.known(json.dumps(self.redact.data(data), indent=indent))

    def _put(self, name: str, content: str) -> Path:
        """Write, giving up the reserve where the disk is full."""
        target = self.path / name
        try:
            _write(target, content)
        except OSError as exc:
            if not no_space_left(exc):
                raise
            (self.path / ".reserve").unlink(missing_ok=True)
            _write(target, content)
        return target

    def receipt(self, receipt: Receipt) -> None:
        """One receipt. Where even that cannot be written it is kept, and said on stderr."""
        name = f"receipts/{receipt.number:02d}-{receipt.state}.json"
        try:
            self.write_json(name, receipt.model_dump())
        except OSError as exc:
            line = self.redact.text(f"{receipt.state}: {receipt.status} {receipt.error}".strip())
            self.unwritten.append(f"{line} (receipt not written: {exc.strerror})")
            with contextlib.suppress(OSError):
                print(f"lanescope: {self.unwritten[-1]}", file=sys.stderr)

    def seal(self, outcome: str) -> Manifest:
        """Drop the reserve and bind every file by its hash."""
        (self.path / ".reserve").unlink(missing_ok=True)
        for left in self.path.rglob("*.partial"):  # of a runner that was killed while it wrote
            left.unlink()
        files = [
            FileEntry(
                path=str(p.relative_to(self.path)), bytes=p.stat().st_size, sha256=sha256_of(p)
            )
            for p in sorted(self.path.rglob("*"))
            if p.is_file() and p.name != "manifest.json"
        ]
        manifest = Manifest(window=self.window, run=self.run, outcome=outcome, files=files)
        self.write_json("manifest.json", manifest.model_dump())
        return manifest


def _write(target: Path, content: str) -> None:
    partial = target.with_name(target.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(target)
    finally:  # a signal too leaves nothing half-written
        partial.unlink(missing_ok=True)


def verify(path: Path) -> list[str]:
    """What differs between a window's folder and its manifest; empty where nothing does."""
    try:
        manifest = Manifest.model_validate_json((path / "manifest.json").read_bytes())
    except OSError as exc:
        raise UnusableInput(f"{path}: no manifest.json", "name the folder of a window") from exc
    except ValueError as exc:
        raise UnusableInput(f"{path}/manifest.json: not a manifest", "it was altered") from exc
    wrong = []
    for entry in manifest.files:
        file = path / entry.path
        if not file.is_file():
            wrong.append(f"{entry.path}: missing")
        elif file.stat().st_size != entry.bytes or sha256_of(file) != entry.sha256:
            wrong.append(f"{entry.path}: altered")
    listed = {entry.path for entry in manifest.files} | {"manifest.json"}
    for file in sorted(path.rglob("*")):
        if file.is_file() and str(file.relative_to(path)) not in listed:
            wrong.append(f"{file.relative_to(path)}: not in the manifest")
    return wrong
