"""The lab engine's own miss counts are the replay's, in every layer-step."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import pytest

from lanescope.attribution.replay.against import agreement
from lanescope.attribution.replay.files import read_trace
from lanescope.attribution.replay.policies import Scope, replay
from lanescope.captures.lab.build import make_engine
from lanescope.captures.lab.config import configure
from lanescope.captures.lab.requests import Delta, Request, Sampling

SMALL: dict[str, Any] = {"hidden": 64, "inter": 32, "vocab": 1024, "context": 256}
GEOMETRIES: dict[str, dict[str, Any]] = {
    "6 layers, top-2 of 16, 8 slots": {"layers": 6, "experts": 16, "topk": 2, "slots": 8},
    "3 layers, top-4 of 32, 20 slots": {"layers": 3, "experts": 32, "topk": 4, "slots": 20},
    "2 layers, top-8 of 64, 25 slots": {"layers": 2, "experts": 64, "topk": 8, "slots": 25},
    "4 layers, top-1 of 5, 2 slots": {"layers": 4, "experts": 5, "topk": 1, "slots": 2},
    "fewer slots than a step": {"layers": 2, "experts": 12, "topk": 4, "slots": 3},
    "a slot map": {"layers": 3, "experts": 16, "topk": 2, "slot_map": (2, 16, 7)},
}
PROMPTS = [b"a prompt that is longer than sixteen tokens", b"short", b"and a third, long one", b"x"]


def _serve(folder: Path, sizes: dict[str, Any]) -> tuple[int, ...]:
    """Run four prompts, three at a time; the slots of each layer."""
    engine = make_engine(configure("tiny", **{**SMALL, **sizes, "streams": 3}), "cpu", folder)
    told: queue.Queue[Delta] = queue.Queue()
    try:
        for prompt in PROMPTS:
            engine.submit(Request(list(prompt), Sampling(max_tokens=40), told.put))
        finished = 0
        while finished < len(PROMPTS):
            finished += told.get(timeout=60).finish is not None
        return engine.config.slots_of
    finally:
        engine.close()


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_layer_step_is_equal(tmp_path: Path, name: str, k: int) -> None:
    slots = _serve(tmp_path / "truth", {**GEOMETRIES[name], "k": k})
    trace = read_trace(tmp_path / "truth" / "routing.parquet")
    assert trace.prefill.any()
    assert not trace.cached_steps().all()
    _, lru = replay(trace, dict(enumerate(slots)), ["lru"], keep="lru")
    assert lru is not None
    found = agreement(tmp_path / "truth" / "misses.parquet", trace, lru, Scope.of(trace))
    assert found.first_difference == ""
    assert found.equal == found.layer_steps == lru.size
    assert found.engine_misses > 0
