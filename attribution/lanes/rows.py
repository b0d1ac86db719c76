"""One row of a probe: the names under which its fields are found, and the checks it must pass."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lanescope.schemas.documents.speed import SpeedRow
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
#: fields in integer nanoseconds, as the capture runner's probe writes them
NANOSECONDS = {"wall_s": "wall_ns", "ttft_s": "ttft_ns", "start_s": "began_unix_ns"}


def nested(record: dict[str, Any]) -> dict[str, Any]:
    """The counters that some writers keep one level down."""
    out: dict[str, Any] = {}
    for key in ("metric_delta", "counters", "acceptance"):
        inner = record.get(key)
        if isinstance(inner, dict):
            out |= {k: v for k, v in inner.items() if k not in record}
    return out


def csv_records(path: Path, text: str, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """The records of a CSV with a header, its columns under our names beside their own."""
    reader = csv.DictReader(io.StringIO(text))
    header = reader.fieldnames or []
    scaled: dict[str, tuple[str, float]] = {}
    for ours, theirs in columns.items():
        column, slash, divisor = theirs.partition("/")
        column = theirs if theirs in header else column
        scale = float(divisor) if slash and column != theirs and number_of(divisor) else 1.0
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
                value = (number_of(value) or math.nan) / scale
            row[ours] = value
        out.append(row)
    return out


def find(record: Mapping[str, Any], ours: str) -> Any:
    """A field by our name, under any of its names; None where it is absent."""
    return next((record[n] for n in (ours, *NAMES[ours]) if record.get(n) is not None), None)


def number_of(value: Any) -> float | None:
    """A finite number, or None for what is none."""
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def flag(value: Any) -> bool:
    """Whether a field says yes."""
    return value is True or str(value).strip().lower() in {"1", "true", "yes"}


def checked_row(
    path: Path, where: str, record: Mapping[str, Any], given: Mapping[str, Any]
) -> SpeedRow:
    """A checked row: enough to make a rate of, and times in an order that time allows."""
    fields: dict[str, Any] = {"warmup": flag(find(record, "warmup")), **given}
    for ours in _numeric():
        value = find(record, ours)
        nanoseconds = record.get(NANOSECONDS.get(ours, ""))
        if value is None and nanoseconds is not None:
            value = (number_of(nanoseconds) or math.nan) / 1e9
        number = number_of(value)
        if value is not None and number is None:
            raise UnusableInput(f"{path}, {where}: {ours} is {value!r}", "a finite number")
        if number is not None:
            fields[ours] = number
    if fields.get("wall_s") is None and fields.get("decode_s") and fields.get("ttft_s") is not None:
        fields["wall_s"] = fields["decode_s"] + fields["ttft_s"]
    kind = find(record, "kind")
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
