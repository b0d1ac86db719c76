"""Triton kernels of the dense part of a layer: rows, embedding, norm, products, attention.

None of them lets one row touch another's arithmetic: tiles have one size whatever the batch is, so
a row's result has the same bits in a verification step, in a prefill chunk, next to other streams.
Row counts are never specialised on, for the same reason.
"""

import triton
import triton.language as tl


@triton.jit
def advance_step(last, at, stream, drafts, token, row_stream, row_at, K: tl.constexpr):
    """Row j of stream i: the stream's last token (j = 0) or draft j - 1, at position at[i] + j."""
    i = tl.program_id(0)
    for j in tl.static_range(K + 1):
        if j == 0:
            value = tl.load(last + i)
        else:
            value = tl.load(drafts + i * K + j - 1)
        row = i * (K + 1) + j
        tl.store(token + row, value)
        tl.store(row_stream + row, tl.load(stream + i))
        tl.store(row_at + row, tl.load(at + i) + j)


@triton.jit
def embedding_gather(token, table, hidden, H: tl.constexpr, BLOCK: tl.constexpr):
    """hidden[row] = table[token[row]]."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    source = table + tl.load(token + row).to(tl.int64) * H + cols
    tl.store(hidden + row * H + cols, tl.load(source, mask=cols < H).to(tl.float32), mask=cols < H)


@triton.jit
def add_norm(hidden, delta, out, gain, ADD: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr):
    """hidden += gain x delta (if ADD); out = hidden at unit root mean square, in float16."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < H
    x = tl.load(hidden + row * H + cols, mask=inside, other=0.0)
    if ADD:
        x += gain * tl.load(delta + row * H + cols, mask=inside, other=0.0)
        tl.store(hidden + row * H + cols, x, mask=inside)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / H + 1e-6)
    tl.store(out + row * H + cols, (x * scale).to(tl.float16), mask=inside)


@triton.jit(do_not_specialize=["rows"])
def dense_gemm(
    x, w, out, rows, N: tl.constexpr, K: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """out (rows, N) float32 = x (rows, K) @ w (N, K) transposed."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(x + m[:, None] * K + start + k[None, :], mask=m[:, None] < rows, other=0.0)
        b = tl.load(w + n[:, None] * K + start + k[None, :], mask=n[:, None] < N, other=0.0)
        acc = tl.dot(a, tl.trans(b), acc)
    inside = (m[:, None] < rows) & (n[None, :] < N)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=inside)


@triton.jit
def attention_kv_write(
    qkv, row_stream, row_at, keys, values, stream_stride,
    H: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A row's key and value into the cache (streams, heads, ROWS, D) at its position."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < H
    at = tl.load(row_at + row)
    base = tl.load(row_stream + row).to(tl.int64) * stream_stride
    place = base + (cols // D) * (ROWS * D) + at * D + cols % D
    source = qkv + row * (3 * H) + cols
    tl.store(keys + place, tl.load(source + H, mask=inside).to(tl.float16), mask=inside)
    tl.store(values + place, tl.load(source + 2 * H, mask=inside).to(tl.float16), mask=inside)


@triton.jit
def attention_decode(
    qkv, row_stream, row_at, keys, values, out, stream_stride, scale,
    H: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """One row and head over everything up to its own position, with a running softmax."""
    row = tl.program_id(0)
    head = tl.program_id(1)
    d = tl.arange(0, BD)
    q = tl.load(qkv + row * (3 * H) + head * D + d, mask=d < D, other=0.0) * scale
    length = tl.load(row_at + row) + 1
    base = tl.load(row_stream + row).to(tl.int64) * stream_stride + head * (ROWS * D)
    peak = -float("inf")
    total = 0.0
    acc = tl.zeros((BD,), tl.float32)
    for start in range(0, length, BN):
        n = start + tl.arange(0, BN)
        inside = (n[:, None] < length) & (d[None, :] < D)
        place = base + n[:, None] * D + d[None, :]
        k = tl.load(keys + place, mask=inside, other=0.0).to(tl.float32)
        score = tl.where(n < length, tl.sum(k * q[None, :], axis=1), -float("inf"))
        new_peak = tl.maximum(peak, tl.max(score, axis=0))
        share = tl.exp(score - new_peak)
        keep = tl.exp(peak - new_peak)
        v = tl.load(values + place, mask=inside, other=0.0).to(tl.float32)
        acc = acc * keep + tl.sum(share[:, None] * v, axis=0)
        total = total * keep + tl.sum(share, axis=0)
        peak = new_peak
    tl.store(out + row * H + head * D + d, (acc / total).to(tl.float16), mask=d < D)
