"""Gate rules: read, hashed, and held against the age of the data.

Rules are older than the data by the best evidence at hand: a freeze record (`lanescope gate
freeze`) whose hash is that of the rules as they are, else the file's modification time. The data's
age is the earliest time in its rows where they carry one, else the earliest modification time.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from lanescope.schemas.documents.gate import GateRules, RulesAge
from lanescope.schemas.documents.speed import SourceFile
from lanescope.schemas.errors import UnusableInput


def read_rules(path: Path) -> tuple[GateRules, str]:
    """The rules and the SHA-256 of the file's bytes. Raises UnusableInput naming file and key."""
    try:
        data = path.read_bytes()
        parsed = tomllib.loads(data.decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise UnusableInput(f"{path}: not a rules file: {exc}", "see docs/compare.md") from exc
    try:
        rules = GateRules.model_validate(parsed)
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnusableInput(f"{path}: {where}: {first['msg']}", "see docs/compare.md") from exc
    return rules, hashlib.sha256(data).hexdigest()


def freeze_record(path: Path) -> Path:
    """Where the freeze record of a rules file lies."""
    return path.with_name(path.name + ".frozen")


def age(path: Path, sha256: str, files: Sequence[SourceFile], started_ns: int | None) -> RulesAge:
    """Hold the rules' time against the data's; `started_ns` is the earliest time in the rows."""
    rules_ns, basis = path.stat().st_mtime_ns, "modification time of the file"
    record = freeze_record(path)
    if record.is_file():
        try:
            frozen = json.loads(record.read_text(encoding="utf-8"))
            same = frozen["sha256"] == sha256
            when = int(frozen["frozen_ns"])
        except (ValueError, KeyError, TypeError) as exc:
            raise UnusableInput(f"{record}: not a freeze record", "freeze the rules again") from exc
        if same:
            rules_ns, basis = when, f"freeze record {record.name}"
        else:
            basis = "modification time of the file (it changed after it was frozen)"
            rules_ns = max(rules_ns, when)
    if started_ns is not None:
        data_ns: int | None = started_ns
        data_basis = "earliest time in the rows"
    else:
        data_ns = min((f.modified_ns for f in files), default=None)
        data_basis = "earliest modification time of the data files" if files else "no data file"
    return RulesAge(
        rules_ns=rules_ns,
        rules_basis=basis,
        data_ns=data_ns,
        data_basis=data_basis,
        older=data_ns is None or rules_ns <= data_ns,
    )
