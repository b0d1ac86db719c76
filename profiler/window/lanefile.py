"""A lane as it goes into a window's folder: the same file, environment values as fingerprints."""

from __future__ import annotations

import json
from typing import Any

from lanescope.profiler.window.redact import environment_names
from lanescope.schemas.documents.lane import Lane


def text(lane: Lane) -> str:
    """TOML that a comparison reads; what is at its default is left out."""
    data = lane.model_dump(exclude_defaults=True, exclude_none=True)
    if lane.environment:
        data["environment"] = environment_names(lane.environment)
    plain = {key: value for key, value in data.items() if not isinstance(value, dict)}
    lines = [f"{key} = {_value(value)}" for key, value in plain.items()]
    for key, table in data.items():
        if isinstance(table, dict):
            lines += ["", f"[{key}]"]
            lines += [f"{json.dumps(str(k))} = {_value(v)}" for k, v in table.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """JSON spells strings, numbers, booleans and lists as TOML does; tables go on one line."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(str(k))} = {_value(v)}" for k, v in value.items())
        return "{ " + inside + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
