"""Task outcomes: per unique task a win, a loss or a tie over its repeats.

The unit is the task, not the repeat: a hundred tasks run twice are a hundred examples.
"""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

from lanescope.attribution.lanes.intervals import clopper_pearson_upper
from lanescope.schemas.documents.gate import TaskOutcomes
from lanescope.schemas.documents.speed import SourceFile
from lanescope.schemas.errors import UnusableInput

LANE_NAMES = {
    "base": {"base", "incumbent", "control"},
    "candidate": {"candidate"},
}


def read_outcomes(
    path: Path, base: str | None = None, candidate: str | None = None
) -> tuple[TaskOutcomes, SourceFile]:
    """Rows `lane, task, repeat, passed` (JSON lines, JSON list or CSV) to outcomes.

    `base`, `candidate` name the lanes; by default the lane called base (incumbent, control) and the
    one called candidate, or the two lanes in the order in which they first appear. Raises
    UnusableInput where the lanes did not run the same tasks equally often.
    """
    try:
        data = path.read_bytes()
        rows = _records(path, data.decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, csv.Error) as exc:
        raise UnusableInput(
            f"{path}: cannot be read: {exc}", "JSON lines or CSV of outcomes"
        ) from exc
    passed: dict[str, dict[str, list[bool]]] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or not {"lane", "task", "passed"} <= row.keys():
            raise UnusableInput(
                f"{path}, row {number}: not an outcome", "lane, task, repeat, passed"
            )
        ok = _truth(row["passed"])
        if ok is None:
            raise UnusableInput(
                f"{path}, row {number}: passed is {row['passed']!r}", "true or false"
            )
        passed.setdefault(str(row["lane"]), {}).setdefault(str(row["task"]), []).append(ok)
    one, two = _lanes(path, list(passed), base, candidate)
    counts_one = {t: len(v) for t, v in passed[one].items()}
    counts_two = {t: len(v) for t, v in passed[two].items()}
    if counts_one != counts_two:
        odd = sorted(set(counts_one.items()) ^ set(counts_two.items()))[0][0]
        raise UnusableInput(
            f"{path}: {one} and {two} did not run the same tasks equally often (task {odd})",
            "the same tasks and repeats for both lanes",
        )
    source = SourceFile(
        path=str(path), sha256=hashlib.sha256(data).hexdigest(), modified_ns=path.stat().st_mtime_ns
    )
    return outcomes(passed[one], passed[two]), source


def outcomes(base: dict[str, list[bool]], candidate: dict[str, list[bool]]) -> TaskOutcomes:
    """Compare by task: task -> passed, one a repeat; both lanes have the same tasks."""
    gains = [sum(candidate[task]) - sum(base[task]) for task in base]
    losses = sum(g < 0 for g in gains)
    return TaskOutcomes(
        tasks=len(gains),
        wins=sum(g > 0 for g in gains),
        losses=losses,
        ties=sum(g == 0 for g in gains),
        loss_share_upper=clopper_pearson_upper(losses, len(gains)),
        base_passed=sum(map(sum, base.values())),
        candidate_passed=sum(map(sum, candidate.values())),
        repeats=sum(map(len, base.values())),
    )


def _records(path: Path, text: str) -> list[Any]:
    if path.suffix.lower() == ".csv":
        return list(csv.DictReader(text.splitlines()))
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _lanes(
    path: Path, found: list[str], base: str | None, candidate: str | None
) -> tuple[str, str]:
    """The two lanes of the file, in the order base, candidate."""
    named = [
        want or next((lane for lane in found if lane.lower() in LANE_NAMES[role]), None)
        for role, want in (("base", base), ("candidate", candidate))
    ]
    if named[0] in found and named[1] in found and named[0] != named[1]:
        return str(named[0]), str(named[1])
    if len(found) == 2 and not (base or candidate):
        return found[0], found[1]
    raise UnusableInput(
        f"{path}: cannot tell base from candidate among {', '.join(found) or 'no lanes'}",
        "call the lanes base and candidate, or name them",
    )


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in {"1", "1.0", "true", "yes", "pass", "passed"}:
        return True
    return False if word in {"0", "0.0", "false", "no", "fail", "failed"} else None
