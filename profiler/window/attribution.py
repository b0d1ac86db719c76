"""The last step of a window: the one place where the profiler calls the attribution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lanescope


def attribute(trace: Path, target: Path, profile: str | None) -> dict[str, Any]:
    """Attribute the shareable export into `target`. Says so where this version cannot."""
    call = getattr(lanescope, "attribute", None)
    if call is None:
        return {"why": "this version has no attribution"}
    options: dict[str, Any] = {"profile": profile} if profile else {}
    result = call(trace, **options)
    write = getattr(result, "write", None)
    if write is not None:
        write(target)
    return {"folder": target.name}


def gates(rules: list[Path], window: Path) -> list[dict[str, Any]]:
    """Score the window's gates."""
    return [{"rules": str(path), "why": "not scored"} for path in rules]
