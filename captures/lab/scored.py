"""What really happened in an attribution's steps: `truth.json` from an engine's record.

Engine and capture have clocks of their own. The offset between them is the one under which the
steps' beginnings coincide; verification steps are irregular enough for it to be unique, and where
it is not, this refuses rather than shifts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lanescope.captures.lab.truthlog import SCHEMA
from lanescope.schemas.errors import UnusableInput

Times = NDArray[np.int64]
#: a wrong offset must leave residuals this many times larger than the right one's
DISTINCT = 2.0
#: how much the beginnings may scatter, as a share of the time from step to step
SPREAD = 0.05
#: how far a step's beginning may lie from the engine's own, ns, once the offset is taken off
NEAR = 5_000_000


@dataclass(frozen=True)
class EngineRecord:
    """`engine.json` and the passes of `steps.jsonl`, in order; `marks` are the lines between."""

    facts: Mapping[str, Any]
    passes: Sequence[Mapping[str, Any]]
    marks: Sequence[Mapping[str, Any]]

    def verification(self) -> list[Mapping[str, Any]]:
        """The verification steps."""
        return [p for p in self.passes if p["kind"] == "verify"]


def read_record(folder: Path) -> EngineRecord:
    """The record in a `--truth` folder, without a torn last line, as a killed engine leaves it.

    Raises UnusableInput naming the file.
    """
    try:
        facts = json.loads((folder / "engine.json").read_text(encoding="utf-8"))
        lines = (folder / "steps.jsonl").read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as exc:
        raise UnusableInput(
            f"{folder} is no record of a lab engine: {exc}", "the folder of lab serve --truth"
        ) from exc
    found = facts.get("schema") if isinstance(facts, Mapping) else None
    if found != SCHEMA:
        raise UnusableInput(f"{folder}/engine.json has schema {found!r}", SCHEMA)
    rows = []
    for number, line in enumerate(lines[:-1], 1):  # what follows the last newline is torn or empty
        try:
            rows.append(json.loads(line))
        except ValueError as exc:
            where = f"{folder}/steps.jsonl line {number}"
            raise UnusableInput(f"{where}: {exc}", "a whole file") from exc
    return EngineRecord(facts, [r for r in rows if "kind" in r], [r for r in rows if "mark" in r])


def read_steps(attribution: Path) -> pd.DataFrame:
    """The measured steps of an attribution's folder, in order of time.

    Raises UnusableInput where there are none.
    """
    path = attribution / "steps.parquet"
    try:
        steps = pd.read_parquet(path)
    except (OSError, ValueError) as exc:
        raise UnusableInput(f"{path}: {exc}", "a folder that lanescope attribute wrote") from exc
    steps = steps[steps["measured"]].sort_values("host_start_ns").reset_index(drop=True)
    if steps.empty:
        raise UnusableInput(f"{path} holds no measured step", "a capture with verification steps")
    return steps


def align(found: Times, engine: Times) -> NDArray[np.int64]:
    """For each step found in a trace, the index of the engine's own step.

    `found` and `engine` are beginnings in ns, each ascending, on clocks that differ by a constant.
    Raises UnusableInput where no offset, or more than one, makes them coincide.
    """
    best: list[tuple[float, int]] = []
    for candidate in engine:
        offset = int(candidate - found[0])
        nearest, residual = _nearest(found + offset, engine)
        if len(np.unique(nearest)) == len(found):  # no engine step twice
            best.append((float(np.median(np.abs(residual - np.median(residual)))), offset))
    best.sort()
    if not best:
        raise UnusableInput(
            f"{len(found)} steps in the trace do not fit the engine's {len(engine)}",
            "the record of the engine that was captured",
        )
    if best[0][0] > SPREAD * float(np.median(np.diff(found))):
        raise UnusableInput(
            "the trace's steps do not begin when the engine's do",
            "the record of the engine that was captured",
        )
    if len(best) > 1 and best[1][0] <= DISTINCT * best[0][0]:
        raise UnusableInput(
            "the trace's steps fit the engine's record at more than one place",
            "a window with more steps, or range names that carry the step: --nvtx fields",
        )
    nearest, residual = _nearest(found + best[0][1], engine)
    if np.abs(residual - np.median(residual)).max() > NEAR:
        raise UnusableInput(
            "the trace's steps and the engine's record do not keep the same time",
            "the record of the engine that was captured",
        )
    return nearest


def _nearest(times: Times, engine: Times) -> tuple[NDArray[np.int64], Times]:
    """The nearest engine step of each time, and how far it lies behind it."""
    right = np.clip(np.searchsorted(engine, times), 1, max(len(engine) - 1, 1))
    left = right - 1
    right = np.minimum(right, len(engine) - 1)
    nearer = np.where(np.abs(times - engine[left]) <= np.abs(engine[right] - times), left, right)
    return nearer, times - engine[nearer]


def find_truth(folder: Path, steps: pd.DataFrame) -> dict[str, Any]:
    """`truth_of` from a record, or from a folder of records: the one that the steps fit.

    Raises UnusableInput where none fits, with what the newest one's trouble was.
    """
    if (folder / "engine.json").exists():
        return truth_of(read_record(folder), steps)
    records = sorted((p.parent for p in folder.glob("*/engine.json")), reverse=True)
    if not records:
        read_record(folder)
    trouble: list[UnusableInput] = []
    for record in records:
        try:
            return truth_of(read_record(record), steps)
        except UnusableInput as exc:
            trouble.append(exc)
    raise trouble[0]


def truth_of(record: EngineRecord, steps: pd.DataFrame) -> dict[str, Any]:
    """The truth of those steps: `misses[step][layer]`, and what is known of the lane.

    One row of `steps` is a step of the attribution; the document has one entry each, in its order.
    """
    own = record.verification()
    if len(own) < len(steps):
        raise UnusableInput(
            f"{len(steps)} steps in the trace, {len(own)} in the engine's record",
            "the record of the engine that was captured",
        )
    engine = np.array([p["start_ns"] for p in own], dtype=np.int64)
    which = align(steps["host_start_ns"].to_numpy(dtype=np.int64), engine)
    passes = [own[i] for i in which]
    config = record.facts["config"]
    misses = [p["misses"] for p in passes]
    mean = float(np.mean(misses))
    routed = [p["rows"] * config["topk"] for p in passes]
    return {
        "args": dict(config),
        "gpu": record.facts.get("gpu"),
        "torch": record.facts.get("torch"),
        "h2d_GBps": record.facts.get("h2d_GBps"),
        "steps": len(passes),
        "routed_per_layer_step": int(np.median(routed)),
        "row_bytes": record.facts["row_bytes"],
        "slots": record.facts["slots"],
        "misses_per_layer_step": mean,
        "hit_rate": 1 - mean * len(passes) / sum(routed),
        "accepted_per_step": float(np.mean([sum(p["accepted"]) for p in passes])),
        "step_rows": [_step_row(p) for p in passes],
        "misses": misses,
    }


def _step_row(done: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "engine_step": done["step"],
        "requests": done["requests"],
        "wall_ms": (done["end_ns"] - done["start_ns"]) / 1e6,
        "eager": done["eager"],
        "noisy": done["noisy"],
    }
