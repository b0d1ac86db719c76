"""A quick table of one engine's ways: K against slots, same prompts, with the text compared."""

from __future__ import annotations

import hashlib
import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lanescope.captures.lab.build import make_backend
from lanescope.captures.lab.config import LabConfig
from lanescope.captures.lab.engine import Engine
from lanescope.captures.lab.requests import Delta, Request, Sampling
from lanescope.captures.lab.truthlog import Pass


@dataclass(frozen=True)
class BenchRow:
    """One engine over all prompts. Means are over verification steps; `hit_rate` is
    1 - misses / routed rows; `text` is a digest of everything that was written."""

    k: int
    slots: int
    tokens: int
    steps: int
    tokens_per_s: float
    ms_per_step: float
    tokens_per_step: float
    misses_per_layer_step: float
    hit_rate: float
    ttft_ms: float
    text: str


class _Recorder:
    """Keeps verification steps in memory, with how long each took."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, Pass]] = []

    def mark(self, name: str) -> None:
        """Nothing to mark."""

    def passed(self, step: int, done: Pass) -> None:
        """Keep a verification step."""
        if done.kind == "verify":
            self.steps.append((time.time_ns() - done.began_ns, done))

    def close(self) -> None:
        """Nothing to write."""


def bench(
    config: LabConfig,
    device: str,
    variants: Sequence[tuple[int, int]],
    prompts: Sequence[Sequence[int]],
    tokens: int,
) -> list[BenchRow]:
    """One row per (K, slots), prompts one after another after one for warm-up."""
    rows = []
    for k, slots in variants:
        changed = replace(config, k=k, slots=slots, slot_map=())
        record = _Recorder()
        engine = Engine(changed, make_backend(changed, device), record, stats_every_s=1e9)
        engine.start()
        try:
            _run(engine, prompts[0], tokens)
            record.steps.clear()
            done = [_run(engine, prompt, tokens) for prompt in prompts]
        finally:
            engine.close()
        rows.append(_row(changed, record, done))
    return rows


def _run(engine: Engine, prompt: Sequence[int], tokens: int) -> tuple[Request, float]:
    """A finished request and its decode seconds."""
    told: queue.Queue[Delta] = queue.Queue()
    request = Request(prompt, Sampling(max_tokens=tokens), told.put)
    engine.submit(request)
    while told.get().finish is None:
        pass
    began = request.first_token_at or request.arrived
    return request, time.monotonic() - began


def _row(config: LabConfig, record: _Recorder, done: Sequence[tuple[Request, float]]) -> BenchRow:
    steps = len(record.steps)
    misses = sum(sum(p.routing.misses or ()) for _, p in record.steps) / config.layers / steps
    waits = [(r.first_token_at or r.arrived) - r.arrived for r, _ in done]
    digest = hashlib.sha256(repr([r.output for r, _ in done]).encode()).hexdigest()[:12]
    return BenchRow(
        k=config.k,
        slots=config.slots,
        tokens=sum(len(r.output) for r, _ in done),
        steps=steps,
        tokens_per_s=sum(len(r.output) - 1 for r, _ in done) / sum(s for _, s in done),
        ms_per_step=sum(ns for ns, _ in record.steps) / steps / 1e6,
        tokens_per_step=sum(1 + sum(p.accepted) for _, p in record.steps) / steps,
        misses_per_layer_step=misses,
        hit_rate=1 - misses / config.routed_rows,
        ttft_ms=1000 * sum(waits) / len(waits),
        text=digest,
    )
