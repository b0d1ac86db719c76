"""The product's own benchmark rows go through its own gate."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from benchmarks.__main__ import gate_rows
from benchmarks.process import Cost
from lanescope.profiler.cli.main import main

#: In scans.
WALLS = {"cold": 30, "staged": 20, "again": 3, "compare": 45}
RULES = Path(__file__).parents[1] / "benchmarks" / "slower.toml"


def _rows(path: Path, slowdown: float, noise: random.Random) -> Path:
    """Five rounds on a machine whose speed drifts, of stages that are so much slower."""
    rows = []
    for times, scan in ((1, 0.01), (20, 0.2)):
        costs: dict[str, list[Cost]] = {n: [] for n in ("scan", *WALLS)}
        for _ in range(5):
            drift = noise.uniform(0.7, 1.4)
            costs["scan"] += [Cost(drift * scan, 0, 0, 0)] * 3
            for stage, wall in WALLS.items():
                each = drift * scan * wall * slowdown * noise.uniform(0.97, 1.03)
                costs[stage].append(Cost(each, 0, 0, 0))
        rows += gate_rows(times, 1000, costs)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(("slowdown", "code"), [(1.0, 0), (0.9, 0), (1.15, 10)])
def test_a_slowdown_beyond_the_noise_fails(tmp_path: Path, slowdown: float, code: int) -> None:
    noise = random.Random(8)
    before = _rows(tmp_path / "before.jsonl", 1.0, noise)
    after = _rows(tmp_path / "after.jsonl", slowdown, noise)
    rules = tmp_path / "slower.toml"
    rules.write_bytes(RULES.read_bytes())
    os.utime(rules, (1, 1))  # rules are older than the data
    with pytest.raises(SystemExit) as ended:
        main(["gate", str(rules), str(before), str(after)])
    assert ended.value.code == code
