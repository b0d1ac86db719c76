"""The last step of a window: the one place where the profiler calls the attribution.

Both verbs run as commands of their own: whatever they need or break, the window's receipts are
written by a process that is not theirs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lanescope.schemas.errors import LanescopeError

SECONDS = 3600


class AttributionFailed(LanescopeError):
    """The export is there; its attribution is not. It can be made again at any time."""


def _lanescope(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [sys.executable, "-m", "lanescope", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise AttributionFailed(
            f"lanescope {words[0]} took over {SECONDS} s", "run it by hand"
        ) from exc


def attribute(trace: Path, target: Path, profile: str | None) -> dict[str, Any]:
    """Attribute the shareable export into the folder `target`; its main figures."""
    words = ["attribute", str(trace), "--out", str(target), "--no-cache", "--force"]
    done = _lanescope(*words, *(["--profile", profile] if profile else []))
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise AttributionFailed(last, "lanescope " + " ".join(words))
    document = json.loads((target / "attribution.json").read_text())
    steps = document.get("steps") or {}
    return {
        "folder": target.name,
        "steps": steps.get("measured"),
        "wall_ms": (steps.get("wall_ms") or {}).get("mean"),
        "warnings": [w["code"] for w in document.get("warnings", [])],
        "abstained": [a["what"] for a in document.get("abstained", [])],
    }


def gates(rules: list[Path], window: Path, baseline: Path | None) -> list[dict[str, Any]]:
    """Score the window's gates on its control probe and attribution, beside a baseline window's."""
    verdicts = []
    rows = [p for p in (baseline, window) if p is not None]
    for number, path in enumerate(rules):
        name = f"gate-{number}.json"
        done = _lanescope("gate", str(path), *map(str, rows), "--out", str(window / name), "--json")
        found: dict[str, Any] = {"rules": str(path), "exit_code": done.returncode}
        if (window / name).exists():
            found |= {"file": name, "verdict": json.loads((window / name).read_text())["verdict"]}
        else:
            found["why"] = (done.stderr.strip().splitlines() or ["no output"])[-1]
        verdicts.append(found)
    return verdicts
