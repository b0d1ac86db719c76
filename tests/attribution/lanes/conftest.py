"""Probe files of the field's shapes, made to order."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

Make = Callable[..., Path]


@pytest.fixture
def repetitions(tmp_path: Path) -> Make:
    """A repetition file: warm-up first, then three scored ones, to the decode rates given."""

    def make(name: str, rates: Sequence[float], ttft: float = 0.5, jitter: float = 1e-4) -> Path:
        raw = []
        for repetition in range(4):
            scale = [0.9, 1 - jitter, 1.0, 1 + jitter][repetition]
            raw.append(
                [
                    {
                        "wall": ttft + 511 / (rate * scale),
                        "ttft": ttft,
                        "completion_tokens": 512,
                        "prompt_tokens": 27 + i,
                        "kind": "prose" if i % 2 else "code",
                    }
                    for i, rate in enumerate(rates)
                ]
            )
        path = tmp_path / f"{name}.json"
        summary = {"lane": name, "max_tokens": 512, "scored_reps": 3, "prompts": len(rates)}
        path.write_text(json.dumps({"summary": summary, "per_prompt": [], "raw": raw}))
        return path

    return make


@pytest.fixture
def rows(tmp_path: Path) -> Make:
    """A file of JSON lines."""

    def make(name: str, records: Sequence[dict[str, Any]]) -> Path:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(r) + "\n" for r in records))
        return path

    return make
