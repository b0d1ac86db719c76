"""The lab model in NumPy: for machines without a GPU, and the reference for the one with.

Every product is made row by row with the same shapes, whatever else is in the pass, so a token's
logits are the same to the last bit for any K, slot budget, chunk and number of streams.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lanescope.captures.lab.backend import Floats, Ints, Prefilled, Routing, Verified
from lanescope.captures.lab.config import TENSORS, LabConfig
from lanescope.captures.lab.ranges import Ranges
from lanescope.captures.lab.slots import HOST, SlotCache
from lanescope.captures.lab.tokens import BYTES
from lanescope.captures.lab.weights import Expert, Weights, dequantize


def by_row(x: Floats, weight: Floats) -> Floats:
    """`x @ weight.T`, one product per row of x (rows, in): no row touches the bits of another."""
    out: Floats = np.matmul(weight, x[:, :, None])[:, :, 0]
    return out


def normed(x: Floats) -> Floats:
    """Each row at unit root mean square."""
    out: Floats = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(1e-6))
    return out


def gated(gate: Floats, up: Floats) -> Floats:
    """silu(gate) x up."""
    out: Floats = gate / (1 + np.exp(-gate)) * up
    return out


def top(logits: Floats, k: int) -> tuple[Ints, Floats]:
    """The k best columns of each row, best first (ties: smaller id), and their softmax weights."""
    best = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(logits, best, axis=1)
    weights = np.exp(values - values[:, :1])
    return best, weights / weights.sum(axis=1, keepdims=True)


class _Slots:
    """The device side of one layer: slot arrays filled by row copies, and the LRU over them."""

    def __init__(self, host: Expert, slots: int) -> None:
        self.host = host
        self.rows = {t: np.zeros((slots, *host[t].shape[1:]), host[t].dtype) for t in TENSORS}
        self.cache = SlotCache(slots)

    def request(self, step: int, experts: Ints) -> tuple[dict[int, int], int]:
        """Bring in what misses; the slot of each expert and the number of misses."""
        found = self.cache.request(step, experts.ravel().tolist())
        for tensor in TENSORS:
            for expert, slot in found.copies:
                self.rows[tensor][slot] = self.host[tensor][expert]
        return found.slot_of, found.misses

    def weights(self, expert: int, slot: int) -> tuple[Floats, Floats]:
        """w13 and w2 of an expert, from its slot or from host memory."""
        source, at = (self.host, expert) if slot == HOST else (self.rows, slot)
        return (
            dequantize(source["w13"][at], source["w13_scale"][at]),
            dequantize(source["w2"][at], source["w2_scale"][at]),
        )


class CpuBackend:
    """The model on the CPU."""

    def __init__(self, config: LabConfig) -> None:
        self.config = config
        # small products gain nothing from threads, and their sums would depend on the split
        self._one_thread = threadpool_limits(limits=1, user_api="blas")
        weights = Weights(config)
        self._gain = np.float32(weights.layer_gain)
        self._embed, self._output = weights.embeddings()
        self._dense = [weights.dense(i) for i in range(config.layers)]
        self._layers = [
            _Slots(weights.experts(i), slots) for i, slots in enumerate(config.slots_of)
        ]
        self._draft_dense, draft = weights.draft()
        self._draft = _Slots(draft, 1)
        self._ranges = Ranges(config.nvtx, config.k)
        rows = config.context + config.k + 1  # rejected drafts may stand past the end
        shape = (config.layers, config.streams, config.heads, rows, config.head_dim)
        self._keys: Floats = np.zeros(shape, np.float32)
        self._values: Floats = np.zeros(shape, np.float32)

    def prefill(
        self, step: int, stream: int, tokens: list[int], start: int, cached: bool, all_logits: bool
    ) -> Prefilled:
        """One prefill pass (see `Backend`)."""
        with self._ranges.phase("prefill", step):
            at = np.arange(start, start + len(tokens))
            hidden, routing = self._forward(
                step, np.full(len(tokens), stream), at, np.asarray(tokens), cached
            )
            rows = hidden if all_logits else hidden[-1:]
            return Prefilled(by_row(normed(rows), self._output), routing)

    def verify(
        self, step: int, streams: list[int], positions: list[int], last: list[int], logits: bool
    ) -> Verified:
        """One verification step (see `Backend`)."""
        k = self.config.k
        with self._ranges.phase("draft", step):
            drafts = self._drafted(np.asarray(last))
        with self._ranges.phase("spec_verify", step):
            tokens = np.concatenate([np.asarray(last)[:, None], drafts], axis=1)
            at = np.asarray(positions)[:, None] + np.arange(k + 1)
            hidden, routing = self._forward(
                step, np.repeat(streams, k + 1), at.ravel(), tokens.ravel(), cached=True
            )
            scores = by_row(normed(hidden), self._output).reshape(len(streams), k + 1, -1)
        choices = BYTES + scores.argmax(axis=2)
        return Verified(drafts, choices, scores if logits else None, routing, eager=True)

    def _drafted(self, last: Ints) -> Ints:
        drafts = np.empty((len(last), self.config.k), np.int64)
        token = last
        for i in range(self.config.k):
            hidden = self._embed[token]
            x = normed(hidden)
            best, weights = self._route(self._draft_dense, x)
            hosts = {int(e): HOST for e in np.unique(best)}
            hidden = hidden + self._gain * self._moe(self._draft, x, best, weights, hosts)
            token = BYTES + by_row(normed(hidden), self._output).argmax(axis=1)
            drafts[:, i] = token
        return drafts

    def _forward(
        self, step: int, streams: Ints, at: Ints, tokens: Ints, cached: bool
    ) -> tuple[Floats, Routing]:
        c = self.config
        hidden = self._embed[tokens]
        experts = np.empty((c.layers, len(tokens), c.topk), np.int16)
        misses: list[int] = []
        for layer in range(c.layers):
            with self._ranges.layer(layer):
                hidden = hidden + self._gain * self._attention(layer, normed(hidden), streams, at)
                x = normed(hidden)
                best, weights = self._route(self._dense[layer], x)
                experts[layer] = best
                where = {int(e): HOST for e in np.unique(best)}
                if cached:
                    where, missed = self._layers[layer].request(step, best)
                    misses.append(missed)
                hidden = hidden + self._gain * self._moe(
                    self._layers[layer], x, best, weights, where
                )
        return hidden, Routing(experts, misses if cached else None)

    def _route(self, dense: dict[str, Floats], x: Floats) -> tuple[Ints, Floats]:
        return top(by_row(x, dense["router"]) + dense["bias"], self.config.topk)

    def _attention(self, layer: int, x: Floats, streams: Ints, at: Ints) -> Floats:
        c = self.config
        qkv = by_row(x, self._dense[layer]["qkv"]).reshape(len(x), 3, c.heads, c.head_dim)
        self._keys[layer, streams, :, at] = qkv[:, 1]
        self._values[layer, streams, :, at] = qkv[:, 2]
        mixed: Floats = np.empty((len(x), c.hidden), np.float32)
        for row, (stream, position) in enumerate(zip(streams, at, strict=True)):
            keys = self._keys[layer, stream, :, : position + 1]
            values = self._values[layer, stream, :, : position + 1]
            scores = np.matmul(keys, qkv[row, 0][:, :, None])[:, :, 0] / math.sqrt(c.head_dim)
            share = np.exp(scores - scores.max(axis=1, keepdims=True))
            share /= share.sum(axis=1, keepdims=True)
            mixed[row] = np.matmul(share[:, None, :], values).ravel()
        return by_row(mixed, self._dense[layer]["out"])

    def _moe(
        self, layer: _Slots, x: Floats, best: Ints, weights: Floats, where: dict[int, int]
    ) -> Floats:
        parts: Floats = np.empty((*best.shape, self.config.hidden), np.float32)
        for expert, slot in where.items():
            rows, rank = np.nonzero(best == expert)
            w13, w2 = layer.weights(expert, slot)
            both = by_row(x[rows], w13)
            parts[rows, rank] = by_row(gated(*np.split(both, 2, axis=1)), w2)
        out: Floats = (parts * weights[:, :, None].astype(np.float32)).sum(axis=1)
        return out

    def profile(self, on: bool) -> None:
        """Nothing to switch on a CPU."""

    def facts(self) -> dict[str, Any]:
        """No link, no GPU."""
        return {"device": "cpu", "gpu": None, "h2d_GBps": None}

    def close(self) -> None:
        """Give the other threads back."""
        self._one_thread.restore_original_limits()
