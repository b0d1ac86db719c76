"""Reads what a client measured: probe rows, a CSV with mapped columns, the field's own files.

Kinds of file, told apart by content:

* repetitions: JSON with `raw` (repetition -> prompt -> request); the first repetition is warm-up;
* probe: JSON with `rows`, one request a row, with the server's counters as `metric_delta`;
* rows: JSON lines, or a JSON list, of one request each, under the names in `rows.NAMES`;
* CSV with a header, its columns mapped to those names.

A lane may be several files joined by `+`; of a file that holds several lanes, `PATH@LANE` is one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanescope.attribution.lanes.rows import checked_row, csv_records, find, nested, number_of
from lanescope.schemas.documents.speed import SourceFile, SpeedRow
from lanescope.schemas.errors import UnusableInput, UsageError

MINUS_ONE = "(tokens - 1) / (wall - ttft)"
PER_DECODE = "tokens / decode_seconds"
STATED = "tokens after the first chunk / time after it, as the probe recorded"


@dataclass
class SpeedLane:
    """One launch of one lane: its requests, and where they came from."""

    name: str
    files: list[SourceFile]
    rows: list[SpeedRow]
    rate_rule: str
    memory_mib: float | None = None
    failed: int = 0  # requests that ended in an error; they are in no figure

    def rate(self, row: SpeedRow) -> float | None:
        """Decode rate in tok/s by this lane's rule; None where the row cannot tell."""
        if self.rate_rule == STATED:
            return row.rate_tok_s
        seconds = row.decode_s
        if seconds is None and row.ttft_s is not None:
            seconds = row.wall_s - row.ttft_s
        tokens = row.tokens if self.rate_rule == PER_DECODE else row.tokens - 1
        return tokens / seconds if seconds and seconds > 0 and tokens > 0 else None

    def scored(self) -> list[SpeedRow]:
        """The rows that count: no warm-up, one stream at a time."""
        return [r for r in self.rows if not r.warmup and r.concurrency == 1]


def is_speed_lane(text: str) -> bool:
    """Whether `text` names probe rows (`PATH`, `PATH+PATH`, `PATH@LANE`), not an attribution."""
    path = Path(text)
    if not path.exists():
        first = text.split("+")[0]
        path = Path(first) if Path(first).exists() else Path(first.rpartition("@")[0])
    if not path.is_file() or path.name == "attribution.json":
        return False
    if path.suffix.lower() == ".csv":  # `nsys stats` writes CSV as well, with units in its header
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            return "(ns)" not in file.readline()
    return path.suffix.lower() in {".json", ".jsonl", ".ndjson"}


def read_lane(
    text: str, columns: Mapping[str, str] | None = None, name: str | None = None, warm: int = 0
) -> SpeedLane:
    """The lane that `text` names: `PATH`, `PATH+PATH`, `PATH@LANE`.

    `columns` maps our names to a CSV's (`seconds=latency_ms/1000` divides); `warm` drops the first
    repetitions of formats that do not mark them. Raises UnusableInput naming file, row and field.
    """
    paths, wanted = _paths(text)
    lane: SpeedLane | None = None
    for number, path in enumerate(paths):
        part = _read_file(path, columns or {}, wanted, prefix=f"{number}." if number else "")
        if lane is None:
            lane = part
        elif part.rate_rule != lane.rate_rule:
            raise UnusableInput(
                f"{path}: its decode rate is {part.rate_rule}, that of {paths[0]} {lane.rate_rule}",
                "join files of one format only",
            )
        else:
            lane.rows += part.rows
            lane.files += part.files
            lane.memory_mib = lane.memory_mib or part.memory_mib
            lane.failed += part.failed
    assert lane is not None
    if warm:
        lane.rows = [
            r.model_copy(update={"warmup": True}) if r.repetition < warm else r for r in lane.rows
        ]
    if not lane.scored() and all(r.warmup for r in lane.rows):
        raise UnusableInput(f"{text}: no row is scored", "there must be more than warm-up")
    lane.name = name or lane.name
    return lane


def _paths(text: str) -> tuple[list[Path], str | None]:
    if Path(text).exists():
        return [Path(text)], None
    head, at, lane = text.rpartition("@")
    wanted = lane if at and "/" not in lane else None
    paths = [Path(p) for p in (head if wanted else text).split("+")]
    for path in paths:
        if not path.is_file():
            raise UnusableInput(f"{path}: no such file", "a lane is PATH, PATH+PATH or PATH@LANE")
    return paths, wanted


def _read_file(
    path: Path, columns: Mapping[str, str], wanted: str | None, prefix: str
) -> SpeedLane:
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise UnusableInput(
            f"{path}: cannot be read as text: {exc}", "JSON, JSON lines or CSV"
        ) from exc
    source = SourceFile(
        path=str(path),
        sha256=hashlib.sha256(data).hexdigest(),
        modified_ns=path.stat().st_mtime_ns,
    )
    document = None if path.suffix.lower() == ".csv" else _json(path, text)
    if isinstance(document, dict) and isinstance(document.get("raw"), list):
        lane = _repetitions(path, document)
    elif isinstance(document, dict) and isinstance(document.get("rows"), list):
        lane = _probe(path, document, prefix)
    else:
        records = csv_records(path, text, columns) if document is None else document
        lane = _rows(path, records, wanted)
    lane.files = [source]
    return lane


def _json(path: Path, text: str) -> Any:
    """A JSON document, or the list of a file of JSON lines."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as whole:
        lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) < 2:
            raise UnusableInput(f"{path}: not JSON: {whole}", "JSON or JSON lines") from whole
        out = []
        for number, line in lines:
            try:
                out.append(json.loads(line))
            except json.JSONDecodeError as exc:
                raise UnusableInput(
                    f"{path}, line {number}: not JSON: {exc.msg}", "one object a line"
                ) from exc
        return out


def _repetitions(path: Path, document: dict[str, Any]) -> SpeedLane:
    """The field's repetition file: repetition 0 is warm-up, prompts in the same order each time."""
    raw = document["raw"]
    summary = document.get("summary") or {}
    records: list[dict[str, Any]] = []
    for repetition, requests in enumerate(raw):
        if not isinstance(requests, list):
            raise UnusableInput(f"{path}: raw[{repetition}] is no list of requests", "")
        for prompt, request in enumerate(requests):
            if not isinstance(request, dict):
                raise UnusableInput(f"{path}: raw[{repetition}][{prompt}] is no request", "")
            records.append({**request, "prompt": str(prompt), "repetition": repetition})
    first_scored = max(0, len(raw) - int(summary.get("scored_reps", len(raw) - 1)))
    rows = [
        checked_row(path, f"raw[{r['repetition']}][{r['prompt']}]", r, _place(r, first_scored))
        for r in records
    ]
    return SpeedLane(
        str(summary.get("lane") or path.stem),
        [],
        rows,
        MINUS_ONE,
        number_of(summary.get("memory_mib")),
    )


def _place(record: dict[str, Any], first_scored: int) -> dict[str, Any]:
    repetition = record["repetition"]
    return {
        "prompt": record["prompt"],
        "repetition": repetition,
        "warmup": repetition < first_scored,
    }


def _probe(path: Path, document: dict[str, Any], prefix: str) -> SpeedLane:
    """A probe file: each row a prompt of its own, the server's counters beside it."""
    rows = []
    for number, record in enumerate(document["rows"]):
        if not isinstance(record, dict):
            raise UnusableInput(f"{path}: rows[{number}] is no request", "")
        flat = {**record, **(record.get("metric_delta") or {})}
        prompt = f"{prefix}{record.get('index', number)}"
        rows.append(checked_row(path, f"rows[{number}]", flat, {"prompt": prompt, "repetition": 0}))
    rule = PER_DECODE if all(r.decode_s is not None for r in rows) else MINUS_ONE
    return SpeedLane(
        str(document.get("lane") or path.stem),
        [],
        rows,
        rule,
        number_of(document.get("memory_mib")),
    )


def _rows(path: Path, records: Any, wanted: str | None) -> SpeedLane:
    """Rows under `NAMES`. Chunk rows, which carry no request's totals, are passed over."""
    if isinstance(records, dict):
        records = [records]
    if not isinstance(records, list) or not all(isinstance(r, dict) for r in records):
        raise UnusableInput(
            f"{path}: neither rows nor a probe", "see docs/compare.md for the formats"
        )
    requests = [
        (n, r)
        for n, r in enumerate(records)
        if str(r.get("row", r.get("type", "request"))) == "request"
    ]
    lanes = sorted({str(r["lane"]) for _, r in requests if r.get("lane") is not None})
    if wanted is None and len(lanes) > 1:
        raise UsageError(
            f"{path} holds several lanes ({', '.join(lanes)})", f"say which: {path}@{lanes[0]}"
        )
    kept = [(n, r) for n, r in requests if wanted is None or str(r.get("lane")) == wanted]
    if not kept:
        raise UnusableInput(
            f"{path}: no rows" + (f" of lane {wanted}" if wanted else ""),
            f"lanes in it: {', '.join(lanes)}" if lanes else "one object a request",
        )
    failed = sum(bool(r.get("error")) for _, r in kept)
    kept = [(n, r) for n, r in kept if not r.get("error")]
    if not kept:
        raise UnusableInput(f"{path}: all {failed} requests failed", "repeat the probe")
    seen: dict[tuple[str, int], int] = {}
    rows = []
    for number, record in kept:
        flat = {**record, **nested(record)}
        prompt = str(find(flat, "prompt") if find(flat, "prompt") is not None else number)
        concurrency = int(number_of(find(flat, "concurrency")) or 1)
        seen[(prompt, concurrency)] = seen.get((prompt, concurrency), -1) + 1
        repetition = number_of(find(flat, "repetition"))
        count = seen[(prompt, concurrency)] if repetition is None else int(repetition)
        extra = {"prompt": prompt, "repetition": count}
        rows.append(checked_row(path, f"row {number + 1}", flat, extra))
    memory = next((m for m in (number_of(find(r, "memory_mib")) for _, r in kept) if m), None)
    stated = all(r.rate_tok_s is not None for r in rows if r.tokens > 1)
    rule = STATED if stated and any(r.rate_tok_s for r in rows) else MINUS_ONE
    name = wanted or (lanes[0] if lanes else path.stem)
    return SpeedLane(name, [], rows, rule, memory, failed)
