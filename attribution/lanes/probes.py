"""Reads what a client measured: probe rows, a CSV with mapped columns, the field's own files.

Kinds of file, told apart by content:

* repetitions: JSON with `raw` (repetition -> prompt -> request); the first repetition is warm-up;
* probe: JSON with `rows`, one request a row, with the server's counters as `metric_delta`;
* rows: JSON lines, or a JSON list, of one request each, under the names in `NAMES`;
* CSV with a header, its columns mapped to those names.

A lane may be several files joined by `+`; of a file that holds several lanes, `PATH@LANE` is one.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lanescope.schemas.documents.speed import SourceFile, SpeedRow
from lanescope.schemas.errors import UnusableInput, UsageError

#: our name -> the names under which it is found in rows
NAMES: dict[str, tuple[str, ...]] = {
    "lane": ("lane",),
    "prompt": ("prompt", "prompt_id", "prompt_index", "index", "id"),
    "kind": ("kind", "class", "category"),
    "repetition": ("repetition", "rep", "repeat"),
    "tokens": ("tokens", "completion_tokens", "generation_tokens", "output_tokens"),
    "prompt_tokens": ("prompt_tokens", "input_tokens"),
    "wall_s": ("wall_s", "seconds", "wall_seconds", "wall"),
    "ttft_s": ("ttft_s", "ttft", "ttft_seconds"),
    "decode_s": ("decode_s", "decode_seconds"),
    "drafts": ("drafts", "num_drafts"),
    "drafted": ("drafted", "drafted_tokens", "draft_tokens", "num_draft_tokens"),
    "accepted": ("accepted", "accepted_tokens", "num_accepted_tokens"),
    "concurrency": ("concurrency", "c"),
    "start_s": ("start_s", "started_s", "start", "started"),
    "warmup": ("warmup", "warm_up", "warm"),
    "memory_mib": ("memory_mib", "gpu_memory_mib"),
    "rate_tok_s": ("rate_tok_s", "decode_tokens_per_s"),
}
MINUS_ONE = "(tokens - 1) / (wall - ttft)"
PER_DECODE = "tokens / decode_seconds"
STATED = "tokens after the first chunk / time after it, as the probe recorded"
#: fields in integer nanoseconds, as the capture runner's probe writes them
NANOSECONDS = {"wall_s": "wall_ns", "ttft_s": "ttft_ns", "start_s": "began_unix_ns"}


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
        records = _csv(path, text, columns) if document is None else document
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
        _row(path, f"raw[{r['repetition']}][{r['prompt']}]", r, _place(r, first_scored))
        for r in records
    ]
    return SpeedLane(
        str(summary.get("lane") or path.stem),
        [],
        rows,
        MINUS_ONE,
        _number(summary.get("memory_mib")),
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
        rows.append(_row(path, f"rows[{number}]", flat, {"prompt": prompt, "repetition": 0}))
    rule = PER_DECODE if all(r.decode_s is not None for r in rows) else MINUS_ONE
    return SpeedLane(
        str(document.get("lane") or path.stem), [], rows, rule, _number(document.get("memory_mib"))
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
        flat = {**record, **_nested(record)}
        prompt = str(_find(flat, "prompt") if _find(flat, "prompt") is not None else number)
        concurrency = int(_number(_find(flat, "concurrency")) or 1)
        seen[(prompt, concurrency)] = seen.get((prompt, concurrency), -1) + 1
        repetition = _number(_find(flat, "repetition"))
        count = seen[(prompt, concurrency)] if repetition is None else int(repetition)
        extra = {"prompt": prompt, "repetition": count}
        rows.append(_row(path, f"row {number + 1}", flat, extra))
    memory = next((m for m in (_number(_find(r, "memory_mib")) for _, r in kept) if m), None)
    stated = all(r.rate_tok_s is not None for r in rows if r.tokens > 1)
    rule = STATED if stated and any(r.rate_tok_s for r in rows) else MINUS_ONE
    name = wanted or (lanes[0] if lanes else path.stem)
    return SpeedLane(name, [], rows, rule, memory, failed)


def _nested(record: dict[str, Any]) -> dict[str, Any]:
    """The counters that some writers keep one level down."""
    out: dict[str, Any] = {}
    for key in ("metric_delta", "counters", "acceptance"):
        inner = record.get(key)
        if isinstance(inner, dict):
            out |= {k: v for k, v in inner.items() if k not in record}
    return out


def _csv(path: Path, text: str, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(text))
    header = reader.fieldnames or []
    scaled: dict[str, tuple[str, float]] = {}
    for ours, theirs in columns.items():
        column, slash, divisor = theirs.partition("/")
        column = theirs if theirs in header else column
        scale = float(divisor) if slash and column != theirs and _number(divisor) else 1.0
        if column not in header:
            raise UsageError(f"{path} has no column {column}", f"it has: {', '.join(header)}")
        scaled[ours] = (column, scale)
    out: list[dict[str, Any]] = []
    for number, record in enumerate(reader, 2):
        if None in record or None in record.values():
            raise UnusableInput(
                f"{path}, line {number}: not {len(header)} fields", "repair the line"
            )
        row: dict[str, Any] = {k: v for k, v in record.items() if v != ""}
        for ours, (column, scale) in scaled.items():
            value: Any = record[column]
            if scale != 1.0:
                value = (_number(value) or math.nan) / scale
            row[ours] = value
        out.append(row)
    return out


def _find(record: Mapping[str, Any], ours: str) -> Any:
    return next((record[n] for n in (ours, *NAMES[ours]) if record.get(n) is not None), None)


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _flag(value: Any) -> bool:
    return value is True or str(value).strip().lower() in {"1", "true", "yes"}


def _row(path: Path, where: str, record: Mapping[str, Any], given: Mapping[str, Any]) -> SpeedRow:
    """A checked row: enough to make a rate of, and times in an order that time allows."""
    fields: dict[str, Any] = {"warmup": _flag(_find(record, "warmup")), **given}
    for ours in _numeric():
        value = _find(record, ours)
        nanoseconds = record.get(NANOSECONDS.get(ours, ""))
        if value is None and nanoseconds is not None:
            value = (_number(nanoseconds) or math.nan) / 1e9
        number = _number(value)
        if value is not None and number is None:
            raise UnusableInput(f"{path}, {where}: {ours} is {value!r}", "a finite number")
        if number is not None:
            fields[ours] = number
    if fields.get("wall_s") is None and fields.get("decode_s") and fields.get("ttft_s") is not None:
        fields["wall_s"] = fields["decode_s"] + fields["ttft_s"]
    kind = _find(record, "kind")
    fields["kind"] = None if kind is None else str(kind)
    if record.get("scored") is False or record.get("phase") == "warmup":
        fields["warmup"] = True
    for need in ("tokens", "wall_s"):
        if fields.get(need) is None:
            names = ", ".join(NAMES[need])
            raise UnusableInput(f"{path}, {where}: no {need}", f"a field named one of: {names}")
    try:
        row = SpeedRow(**fields)
    except ValidationError as exc:
        first = exc.errors()[0]
        where_ = f"{where}, {'.'.join(map(str, first['loc']))}"
        raise UnusableInput(f"{path}, {where_}: {first['msg']}", "repair the row") from exc
    ttft = row.ttft_s or 0.0
    if row.tokens < 1 or row.wall_s <= 0 or ttft < 0 or ttft > row.wall_s:
        raise UnusableInput(
            f"{path}, {where}: {row.tokens} tokens in {row.wall_s} s, the first after {ttft} s",
            "at least one token, and 0 <= ttft <= wall",
        )
    return row


def _numeric() -> Iterable[str]:
    return (
        "tokens",
        "prompt_tokens",
        "wall_s",
        "ttft_s",
        "decode_s",
        "drafts",
        "drafted",
        "accepted",
        "concurrency",
        "start_s",
        "rate_tok_s",
    )
