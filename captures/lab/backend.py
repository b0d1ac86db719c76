"""What the engine asks of a device, and what it gets back. `cpu.py` and `cuda/` answer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Routing:
    """What a pass routed and missed. `experts` is (layers, tokens, top-k) in the router's order;
    `misses` has one count a layer, or is None where the pass went around the cache."""

    experts: NDArray[np.int16]
    misses: list[int] | None


@dataclass(frozen=True)
class Prefilled:
    """One prefill pass: logits (tokens asked for, words) and its routing."""

    logits: Floats
    routing: Routing


@dataclass(frozen=True)
class Verified:
    """One verification step of S streams.

    `drafts` (S, K) are the tokens that were tried, `choices` (S, K+1) the target's greedy token
    after each row, `logits` (S, K+1, words) only where they were asked for.
    """

    drafts: Ints
    choices: Ints
    logits: Floats | None
    routing: Routing
    eager: bool
    noisy: bool = False


class Backend(Protocol):
    """A model on a device, with a key-value cache for every stream."""

    def prefill(
        self, step: int, stream: int, tokens: list[int], start: int, cached: bool, all_logits: bool
    ) -> Prefilled:
        """Run `tokens` of a stream from position `start`; the last one's logits, or all."""

    def verify(
        self, step: int, streams: list[int], positions: list[int], last: list[int], logits: bool
    ) -> Verified:
        """Draft K tokens after each stream's last one, then verify K+1 rows a stream.

        `positions[i]` is where `last[i]` stands in stream i.
        """

    def profile(self, on: bool) -> None:
        """Begin or end the range that a profiler may be waiting for."""

    def facts(self) -> dict[str, Any]:
        """What the device is: `device`, `gpu`, and `h2d_GBps` of a plain pinned copy."""

    def close(self) -> None:
        """Give the device back."""
