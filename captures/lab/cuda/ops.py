"""One method a kernel: grids, tile sizes and strides, worked out once from the configuration."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton

from lanescope.captures.lab.config import SCALE_GROUP, TENSORS, LabConfig
from lanescope.captures.lab.cuda import kernels, moe
from lanescope.captures.lab.cuda.memory import Layer

#: tile sizes of the products; fixed, so that a row's bits never depend on the batch
BM, BN_DENSE, BN_MOE = 16, 32, 32
COPY_WORDS = 512  # 64-bit words that a copying program moves at a time
CHUNK = 16  # routed rows that bookkeeping reads at a time
GROUP_ROWS = 32  # routed rows that a program of `moe_group_rows` places


def _block(k: int, most: int) -> int:
    """The largest power of two up to `most` that divides k."""
    return min(most, k & -k)


def _words(rows: torch.Tensor) -> torch.Tensor:
    """Rows of a tensor as 64-bit words."""
    return rows.view(len(rows), -1).view(torch.int64)


class Ops:
    """Launches the kernels of one model."""

    def __init__(self, config: LabConfig) -> None:
        self.config = config
        self.hidden_block = triton.next_power_of_2(config.hidden)
        self.inter_block = triton.next_power_of_2(config.inter)
        self.expert_block = max(16, triton.next_power_of_2(config.experts))
        self.kv_rows = config.context + config.k + 1
        self.stream_stride = config.heads * self.kv_rows * config.head_dim

    def tiles(self, routed: int) -> int:
        """The most tiles that `routed` rows can need."""
        return min(routed, self.config.experts) + routed // BM

    def advance(self, streams: int, b: Any) -> None:
        """Tokens, streams and positions of a verification step's rows."""
        kernels.advance_step[(streams,)](
            b.last, b.at, b.stream, b.drafts, b.token, b.row_stream, b.row_at, K=self.config.k
        )

    def embed(self, rows: int, token: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> None:
        """Embedding rows into the residual stream."""
        kernels.embedding_gather[(rows,)](
            token, table, out, H=self.config.hidden, BLOCK=self.hidden_block
        )

    def norm(
        self,
        rows: int,
        hidden: torch.Tensor,
        delta: torch.Tensor | None,
        out: torch.Tensor,
        gain: float,
    ) -> None:
        """Add a branch to the residual stream, and its norm."""
        kernels.add_norm[(rows,)](
            hidden,
            hidden if delta is None else delta,
            out,
            gain,
            ADD=delta is not None,
            H=self.config.hidden,
            BLOCK=self.hidden_block,
        )

    def gemm(self, rows: int, x: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> None:
        """A dense product."""
        n, k = w.shape
        kernels.dense_gemm[(triton.cdiv(rows, BM), triton.cdiv(n, BN_DENSE))](
            x, w, out, rows, N=n, K=k, BM=BM, BN=BN_DENSE, BK=_block(k, 128)
        )

    def attention(
        self, rows: int, b: Any, keys: torch.Tensor, values: torch.Tensor, out: torch.Tensor
    ) -> None:
        """Write the rows' keys and values, then attend."""
        c = self.config
        kernels.attention_kv_write[(rows,)](
            b.qkv,
            b.row_stream,
            b.row_at,
            keys,
            values,
            self.stream_stride,
            H=c.hidden,
            D=c.head_dim,
            ROWS=self.kv_rows,
            BLOCK=self.hidden_block,
        )
        kernels.attention_decode[(rows, c.heads)](
            b.qkv,
            b.row_stream,
            b.row_at,
            keys,
            values,
            out,
            self.stream_stride,
            1 / math.sqrt(c.head_dim),
            H=c.hidden,
            D=c.head_dim,
            ROWS=self.kv_rows,
            BD=triton.next_power_of_2(c.head_dim),
            BN=64,
        )

    def route(self, rows: int, layer: Layer, b: Any, routes: torch.Tensor) -> None:
        """The router, then the experts of each row."""
        c = self.config
        self.gemm(rows, b.x, layer.dense["router"], b.scores)
        moe.route_topk[(rows,)](
            b.scores,
            layer.dense["bias"],
            routes,
            b.weights,
            E=c.experts,
            T=c.topk,
            BLOCK=self.expert_block,
            TOP=triton.next_power_of_2(c.topk),
        )

    def fill_slots(self, rows: int, index: int, layer: Layer, b: Any, routes: torch.Tensor) -> None:
        """Bookkeeping of a layer-step, then its four row copies."""
        routed = rows * self.config.topk
        moe.slot_bookkeeping[(1,)](
            b.header,
            routes,
            layer.slot_of,
            layer.stamp,
            b.copy_from,
            b.copy_to,
            b.misses,
            routed,
            layer.slots,
            index,
            E=self.config.experts,
            BLOCK=self.expert_block,
            CHUNK=CHUNK,
        )
        for name in TENSORS:
            host, slots = _words(layer.host[name]), _words(layer.rows[name])
            moe.masked_row_copy[(routed, self.config.progs)](
                host,
                slots,
                b.copy_from,
                b.copy_to,
                host.shape[1],
                PROGS=self.config.progs,
                BLOCK=COPY_WORDS,
            )

    def experts(
        self, rows: int, layer: Layer, slot_of: torch.Tensor, b: Any, routes: torch.Tensor
    ) -> None:
        """The routed experts of the rows, from where `slot_of` says they are, into `b.delta`."""
        c = self.config
        routed = rows * c.topk
        tiles = self.tiles(routed)
        b.tile_expert[:tiles].fill_(-1)
        b.tile_rows[: tiles * BM].fill_(-1)
        moe.moe_group_rows[(triton.cdiv(routed, GROUP_ROWS),)](
            routes,
            b.tile_expert,
            b.tile_rows,
            routed,
            BLOCK=self.expert_block,
            BI=GROUP_ROWS,
            BM=BM,
        )
        self._product(tiles, layer, slot_of, b, "w13", b.x, b.both, c.topk)
        moe.moe_silu_gate[(routed,)](b.both, b.gated, INTER=c.inter, BLOCK=self.inter_block)
        self._product(tiles, layer, slot_of, b, "w2", b.gated, b.parts, 1)
        moe.moe_combine[(rows,)](
            b.parts, b.weights, b.delta, H=c.hidden, T=c.topk, BLOCK=self.hidden_block
        )

    def _product(
        self,
        tiles: int,
        layer: Layer,
        slot_of: torch.Tensor,
        b: Any,
        name: str,
        x: torch.Tensor,
        out: torch.Tensor,
        share: int,
    ) -> None:
        _, n, k = layer.host[name].shape
        moe.moe_gemm_kernel[(tiles, n // BN_MOE)](
            x,
            layer.host[name],
            layer.host[f"{name}_scale"],
            layer.rows[name],
            layer.rows[f"{name}_scale"],
            slot_of,
            b.tile_expert,
            b.tile_rows,
            out,
            N=n,
            K=k,
            SHARE=share,
            BM=BM,
            BN=BN_MOE,
            BK=_block(k, 128),
            GROUP=SCALE_GROUP,
        )
