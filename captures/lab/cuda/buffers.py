"""The device's working memory, allocated once: graphs replay on fixed addresses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lanescope.captures.lab.backend import Floats, Ints
from lanescope.captures.lab.config import LabConfig
from lanescope.captures.lab.cuda.ops import BM
from lanescope.captures.lab.tokens import BYTES


@dataclass(frozen=True)
class Results:
    """What a pass left: see `Verified` and `Routing`. `logits` are the rows that were asked for."""

    misses: list[int]
    choices: Ints
    drafts: Ints
    experts: NDArray[np.int16]
    logits: Floats | None


class Buffers:
    """Every tensor that a pass of up to `rows` rows writes."""

    def __init__(self, config: LabConfig, rows: int, tiles: int, device: torch.device) -> None:
        c = config
        routed = rows * c.topk

        def ints(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        def floats(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.float32, device=device)

        def halves(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.float16, device=device)

        # what the host sends with a pass, in one piece: header, then per stream or per row
        self.inbox = ints(16 + 3 * max(rows, 16))
        self.header = self.inbox[:16]
        each = (len(self.inbox) - 16) // 3
        self.last, self.at, self.stream = self.inbox[16:].view(3, each)
        self.token, self.row_at, self.row_stream = ints(3, rows)
        self.draft_token = torch.zeros(c.streams, dtype=torch.int64, device=device)
        # what the host gets back from a pass, in one piece
        self.outbox = ints(c.layers + rows + c.streams * c.k + c.layers * routed)
        parts = [c.layers, rows, c.streams * c.k, c.layers * routed]
        self.misses, self.choices, self.drafts, self._routes = self.outbox.split(parts)
        self.hidden, self.delta = floats(rows, c.hidden), floats(rows, c.hidden)
        self.x, self.mixed = halves(rows, c.hidden), halves(rows, c.hidden)
        self.qkv = floats(rows, 3 * c.hidden)
        self.logits = floats(rows, c.vocab - BYTES)
        self.scores = floats(rows, c.experts)
        self.draft_routes = ints(routed)
        self.weights = floats(routed)
        self.copy_from, self.copy_to = ints(routed), ints(routed)
        self.tile_expert, self.tile_rows = ints(tiles), ints(tiles * BM)
        self.both, self.gated = floats(routed, 2 * c.inter), halves(routed, c.inter)
        self.parts = floats(routed, c.hidden)
        self._layers = c.layers

    def routes(self, routed: int) -> torch.Tensor:
        """Expert ids of a pass of `routed` rows, (layers, routed)."""
        return self._routes[: self._layers * routed].view(self._layers, routed)


class Outbox:
    """Fetches a pass's results in one copy to pinned memory and waits for it: a step's one wait."""

    def __init__(self, config: LabConfig, buffers: Buffers, gpu: bool) -> None:
        self._config, self._b = config, buffers
        self._host = torch.zeros_like(buffers.outbox, device="cpu")
        self._logits = torch.zeros_like(buffers.logits, device="cpu")
        self._arrived = None
        if gpu:
            self._host, self._logits = self._host.pin_memory(), self._logits.pin_memory()
            self._arrived = torch.cuda.Event()

    def fetch(self, rows: int, logits: slice | None) -> Results:
        """Results of a pass of `rows` rows, and the logits of some of them."""
        c, b = self._config, self._b
        routed = rows * c.topk
        size = b.outbox.numel() - c.layers * (b.choices.numel() * c.topk - routed)
        self._host[:size].copy_(b.outbox[:size], non_blocking=True)
        scores = None
        if logits is not None:
            scores = self._logits[logits]
            scores.copy_(b.logits[logits], non_blocking=True)
        if self._arrived:
            self._arrived.record()
            self._arrived.synchronize()
        misses, choices, drafts, routes = np.split(
            self._host[:size].numpy().copy(), np.cumsum([c.layers, len(b.choices), len(b.drafts)])
        )
        return Results(
            misses=misses.tolist(),
            choices=choices[:rows].astype(np.int64),
            drafts=drafts.astype(np.int64),
            experts=routes.reshape(c.layers, rows, c.topk).astype(np.int16),
            logits=None if scores is None else scores.numpy().copy(),
        )


class Inbox:
    """Sends a pass's few numbers to the device in one copy from pinned memory."""

    def __init__(self, buffers: Buffers, pinned: bool) -> None:
        self._b = buffers
        self._host = torch.zeros_like(buffers.inbox, device="cpu")
        if pinned:
            self._host = self._host.pin_memory()
        self._rows = self._host[16:].view(3, -1)

    def _send(self, step: int, last: list[int], at: list[int], stream: list[int]) -> None:
        self._host[0] = step
        for row, values in zip(self._rows, (last, at, stream), strict=True):
            row[: len(values)] = torch.tensor(values, dtype=torch.int32)
        self._b.inbox.copy_(self._host, non_blocking=True)

    def verify(self, step: int, streams: list[int], at: list[int], last: list[int]) -> None:
        """Last tokens, positions and places of the streams; the graph makes the rows from them."""
        self._send(step, last, at, streams)

    def prefill(self, step: int, stream: int, tokens: list[int], start: int) -> None:
        """The rows of a prefill pass."""
        n = len(tokens)
        self._send(step, tokens, list(range(start, start + n)), [stream] * n)
        b = self._b
        b.token[:n], b.row_at[:n], b.row_stream[:n] = b.last[:n], b.at[:n], b.stream[:n]
