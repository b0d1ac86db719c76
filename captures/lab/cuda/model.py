"""The CUDA backend: one verification step as CUDA graphs with an eager remainder, prefill eager."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from lanescope.captures.lab.backend import Prefilled, Routing, Verified
from lanescope.captures.lab.config import LabConfig
from lanescope.captures.lab.cuda.buffers import Buffers, Inbox, Outbox, Results
from lanescope.captures.lab.cuda.graphs import recorded
from lanescope.captures.lab.cuda.memory import Layer, Memory
from lanescope.captures.lab.cuda.noise import Noise, copy_bandwidth
from lanescope.captures.lab.cuda.ops import Ops
from lanescope.captures.lab.ranges import Ranges
from lanescope.captures.lab.tokens import BYTES
from lanescope.captures.lab.weights import Weights


class CudaBackend:
    """The model on one GPU. (`device` "cpu" runs it in Triton's interpreter, for tests.)"""

    def __init__(self, config: LabConfig, device: str = "cuda") -> None:
        self.config = config
        self.device = torch.device(device)
        self._gpu = self.device.type == "cuda"
        if self._gpu:
            # everything, capture too, runs on one stream of our own
            self._stream = torch.cuda.Stream()
            torch.cuda.set_stream(self._stream)
        self._gain = Weights(config).layer_gain
        self._memory = Memory(config, self.device)
        self._ops = Ops(config)
        self._ranges = Ranges("none", config.k)  # the warm-up is no pass
        rows = max(config.chunk, config.streams * (config.k + 1))
        self._b = Buffers(config, rows, self._ops.tiles(rows * config.topk), self.device)
        self._inbox = Inbox(self._b, self._gpu)
        self._outbox = Outbox(config, self._b, self._gpu)
        self._no_slots = torch.full((config.experts,), -1, dtype=torch.int32, device=self.device)
        self._noise = Noise(config, self.device)
        self._h2d = copy_bandwidth() if self._gpu else None
        self._warm_up()
        self._ranges = Ranges(config.nvtx, config.k)
        self._drafts: dict[int, torch.cuda.CUDAGraph] = {}
        self._steps: dict[int, list[torch.cuda.CUDAGraph]] = {}
        if self._gpu and config.graphs:
            for streams in range(1, config.streams + 1):
                self._capture(streams)

    # -- the passes ---------------------------------------------------------------------------

    def prefill(
        self, step: int, stream: int, tokens: list[int], start: int, cached: bool, all_logits: bool
    ) -> Prefilled:
        """One prefill pass (see `Backend`)."""
        self._adopt_thread()
        with self._ranges.phase("prefill", step):
            rows = len(tokens)
            self._inbox.prefill(step, stream, tokens, start)
            self._ops.embed(rows, self._b.token, self._memory.embed, self._b.hidden)
            self._layers(rows, 0, self.config.layers, cached)
            self._finish(rows)
            done = self._outbox.fetch(rows, slice(0 if all_logits else rows - 1, rows))
        assert done.logits is not None
        return Prefilled(done.logits, Routing(done.experts, done.misses if cached else None))

    def verify(
        self, step: int, streams: list[int], positions: list[int], last: list[int], logits: bool
    ) -> Verified:
        """One verification step (see `Backend`)."""
        self._adopt_thread()
        count, k = len(streams), self.config.k
        graphs = self._steps.get(count)
        noisy = self._noise.wanted(step)
        self._inbox.verify(step, streams, positions, last)
        if k:
            with self._ranges.phase("draft", step, graph=graphs is not None):
                self._drafts[count].replay() if graphs else self._draft(count)
        with self._ranges.phase("spec_verify", step, graph=graphs is not None):
            if noisy:
                self._noise.begin()
            if graphs:
                for graph in graphs:
                    graph.replay()
            else:
                for first, end in self._pieces():
                    self._piece(count, first, end)
            done = self._sampled(count * (k + 1), logits)
        return Verified(
            drafts=done.drafts[: count * k].reshape(count, k),
            choices=done.choices.reshape(count, k + 1),
            logits=None if done.logits is None else done.logits.reshape(count, k + 1, -1),
            routing=Routing(done.experts, done.misses),
            eager=graphs is None,
            noisy=noisy,
        )

    def _draft(self, count: int) -> None:
        """K tokens by the one-layer draft, each from the one before; they stay on the device."""
        b, ops, layer = self._b, self._ops, self._memory.draft
        token = b.last
        for i in range(self.config.k):
            ops.embed(count, token, self._memory.embed, b.hidden)
            ops.norm(count, b.hidden, None, b.x, self._gain)
            ops.route(count, layer, b, b.draft_routes)
            ops.experts(count, layer, self._no_slots, b, b.draft_routes)
            self._finish(count)
            token = b.draft_token
            token[:count] = b.logits[:count].argmax(dim=1) + BYTES
            b.drafts[: count * self.config.k].view(count, -1)[:, i] = token[:count]

    def _piece(self, count: int, first: int, end: int) -> None:
        """Layers `first` to `end` of a verification step, with what comes before and after all."""
        rows = count * (self.config.k + 1)
        if first == 0:
            self._ops.advance(count, self._b)
            self._ops.embed(rows, self._b.token, self._memory.embed, self._b.hidden)
        self._layers(rows, first, end, cached=True)
        if end == self.config.layers:
            self._finish(rows)

    def _layers(self, rows: int, first: int, end: int, cached: bool) -> None:
        for index in range(first, end):
            with self._ranges.layer(index):
                self._layer(rows, index, self._memory.layers[index], cached)

    def _layer(self, rows: int, index: int, layer: Layer, cached: bool) -> None:
        """Attention and experts. `b.delta` holds the last branch, not yet added to the stream."""
        b, ops = self._b, self._ops
        ops.norm(rows, b.hidden, None if index == 0 else b.delta, b.x, self._gain)
        ops.gemm(rows, b.x, layer.dense["qkv"], b.qkv)
        ops.attention(rows, b, self._memory.keys[index], self._memory.values[index], b.mixed)
        ops.gemm(rows, b.mixed, layer.dense["out"], b.delta)
        ops.norm(rows, b.hidden, b.delta, b.x, self._gain)
        routes = b.routes(rows * self.config.topk)[index]
        ops.route(rows, layer, b, routes)
        if cached:
            ops.fill_slots(rows, index, layer, b, routes)
        ops.experts(rows, layer, layer.slot_of if cached else self._no_slots, b, routes)

    def _finish(self, rows: int) -> None:
        """The last branch, the norm and the logits."""
        b = self._b
        self._ops.norm(rows, b.hidden, b.delta, b.x, self._gain)
        self._ops.gemm(rows, b.x, self._memory.output, b.logits)

    def _sampled(self, rows: int, logits: bool) -> Results:
        """The eager remainder: greedy choices, then the one wait of a step."""
        self._b.choices[:rows] = self._b.logits[:rows].argmax(dim=1).add_(BYTES)
        return self._outbox.fetch(rows, slice(0, rows) if logits else None)

    # -- making it ready ----------------------------------------------------------------------

    def _adopt_thread(self) -> None:
        """PyTorch's current stream is the thread's: the engine's thread takes ours."""
        if self._gpu:
            torch.cuda.set_stream(self._stream)

    def _pieces(self) -> list[tuple[int, int]]:
        """Layer ranges of the graphs, as even as they can be."""
        edges = np.linspace(0, self.config.layers, max(self.config.graphs, 1) + 1).round()
        return [(int(a), int(b)) for a, b in pairwise(edges) if a < b]

    def _warm_up(self) -> None:
        """Compile every kernel, then forget what that did to the caches."""
        self.prefill(0, 0, [1, 2, 3], 0, cached=False, all_logits=False)
        self.prefill(0, 0, [1, 2, 3], 0, cached=True, all_logits=True)
        self._drafts, self._steps = {}, {}
        self.verify(0, [0], [3], [BYTES], logits=True)
        for layer in self._memory.layers:
            layer.forget()

    def _capture(self, streams: int) -> None:
        self._steps[streams] = [
            recorded(partial(self._piece, streams, first, end), self._stream)
            for first, end in self._pieces()
        ]
        if self.config.k:
            self._drafts[streams] = recorded(partial(self._draft, streams), self._stream)

    def profile(self, on: bool) -> None:
        """cudaProfilerStart and cudaProfilerStop."""
        if self._gpu:
            torch.cuda.synchronize()
            torch.cuda.profiler.start() if on else torch.cuda.profiler.stop()

    def facts(self) -> dict[str, Any]:
        """The GPU, and what a plain pinned copy to it reaches."""
        name = torch.cuda.get_device_name() if self._gpu else None
        return {
            "device": self.device.type,
            "gpu": name,
            "torch": torch.__version__,
            "h2d_GBps": self._h2d,
        }

    def close(self) -> None:
        """Wait for what is under way."""
        if self._gpu:
            torch.cuda.synchronize()
