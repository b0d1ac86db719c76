"""Triton kernels of a layer's experts: routing, slot bookkeeping, row copies, grouped products."""

import triton
import triton.language as tl


@triton.jit
def route_topk(
    scores, bias, routes, weights,
    E: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr, TOP: tl.constexpr,
):  # fmt: skip
    """The T best experts of a row, best first (ties: smaller id), and their softmax weights."""
    row = tl.program_id(0)
    e = tl.arange(0, BLOCK)
    t = tl.arange(0, TOP)
    x = tl.load(scores + row * E + e, mask=e < E, other=-float("inf"))
    x += tl.load(bias + e, mask=e < E, other=0.0)
    first = tl.max(x, axis=0)
    chosen = tl.zeros((TOP,), tl.int32)
    share = tl.zeros((TOP,), tl.float32)
    for i in tl.static_range(T):
        best = tl.max(x, axis=0)
        which = tl.min(tl.where(x == best, e, BLOCK), axis=0)
        chosen = tl.where(t == i, which, chosen)
        share = tl.where(t == i, tl.exp(best - first), share)
        x = tl.where(e == which, -float("inf"), x)
    tl.store(routes + row * T + t, chosen, mask=t < T)
    tl.store(weights + row * T + t, share / tl.sum(share, axis=0), mask=t < T)


@triton.jit(do_not_specialize=["routed", "slots", "layer"])
def slot_bookkeeping(
    header, routes, slot_of, stamp, copy_from, copy_to, misses, routed, slots, layer,
    E: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One layer-step of the slot cache, by the rules of docs/replay-semantics.md.

    One program sees all routed rows of the pass. `slot_of` (experts; -1: not resident) and `stamp`
    (last step asked for) are the layer's state; the rows to copy come out as `copy_from` (expert)
    and `copy_to` (slot), -1 from their end to `routed`. header[0] is the step.
    """
    e = tl.arange(0, BLOCK)
    inside = e < E
    asked = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, routed, CHUNK):
        i = start + tl.arange(0, CHUNK)
        ids = tl.load(routes + i, mask=i < routed, other=-1)
        asked |= tl.max((ids[None, :] == e[:, None]).to(tl.int32), axis=1)
    step = tl.load(header)
    slot = tl.load(slot_of + e, mask=inside, other=-1)
    last = tl.load(stamp + e, mask=inside, other=0)
    resident = (slot >= 0).to(tl.int32)
    missing = asked * (1 - resident)
    held = tl.sum(resident, axis=0)
    free = slots - held
    spare = resident * (1 - asked)
    room = free + tl.sum(spare, axis=0)
    rank = tl.cumsum(missing, axis=0) - missing
    kept = missing * (rank < room).to(tl.int32)
    evicted = tl.maximum(tl.sum(kept, axis=0) - free, 0)
    # victims in order of (last step, expert id); the slot travels in the key's low bits
    far = tl.full((BLOCK,), 0x7FFFFFFFFFFFFFFF, tl.int64)
    key = (last.to(tl.int64) << 24) | (e.to(tl.int64) << 12) | slot.to(tl.int64)
    key = tl.where(spare == 1, key, far)
    order = tl.sort(key)
    bound = tl.max(tl.where(e < evicted, order, -1), axis=0)
    victim = (key <= bound).to(tl.int32)
    behind = tl.minimum(tl.maximum(rank - free, 0), BLOCK - 1)
    freed = (tl.gather(order, behind, 0) & 0xFFF).to(tl.int32)
    mine = tl.where(rank < free, held + rank, freed)
    slot = tl.where(kept == 1, mine, tl.where(victim == 1, -1, slot))
    last = tl.where(asked * (slot >= 0).to(tl.int32) == 1, step, last)
    tl.store(slot_of + e, slot, mask=inside)
    tl.store(stamp + e, last, mask=inside)
    tl.store(copy_from + rank, e, mask=kept == 1)
    tl.store(copy_to + rank, mine, mask=kept == 1)
    copies = tl.sum(kept, axis=0)
    for start in range(0, routed, CHUNK):
        i = start + tl.arange(0, CHUNK)
        tl.store(copy_from + i, -1, mask=(i >= copies) & (i < routed))
    tl.store(misses + layer, tl.sum(missing, axis=0))


@triton.jit(do_not_specialize=["words"])
def masked_row_copy(
    host, rows, copy_from, copy_to, words, PROGS: tl.constexpr, BLOCK: tl.constexpr
):
    """Row `copy_from[i]` of pinned host memory into slot `copy_to[i]`; nothing where that is -1.

    Grid: (routed rows, PROGS). A row is `words` 64-bit words, which PROGS programs share.
    """
    i = tl.program_id(0)
    expert = tl.load(copy_from + i).to(tl.int64)
    if expert >= 0:
        source = host + expert * words
        target = rows + tl.load(copy_to + i).to(tl.int64) * words
        for start in range(tl.program_id(1) * BLOCK, words, PROGS * BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(target + at, tl.load(source + at, mask=at < words), mask=at < words)


@triton.jit(do_not_specialize=["routed"])
def moe_group_rows(
    routes, tile_expert, tile_rows, routed,
    BLOCK: tl.constexpr, BI: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Routed rows by expert, in tiles of BM rows: `tile_expert` (tiles), `tile_rows` (tiles, BM).

    Both come in filled with -1. Every program counts all rows and places BI of them.
    """
    e = tl.arange(0, BLOCK)
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    mine = tl.load(routes + i, mask=i < routed, other=-1)
    count = tl.zeros((BLOCK,), tl.int32)
    before = tl.zeros((BI,), tl.int32)
    for start in range(0, routed, BI):
        j = start + tl.arange(0, BI)
        other = tl.load(routes + j, mask=j < routed, other=-2)
        count += tl.sum((other[None, :] == e[:, None]).to(tl.int32), axis=1)
        same = (other[None, :] == mine[:, None]) & (j[None, :] < i[:, None])
        before += tl.sum(same.to(tl.int32), axis=1)
    tiles = (count + BM - 1) // BM
    first = tl.cumsum(tiles, axis=0) - tiles
    tile = tl.gather(first, tl.maximum(mine, 0), 0) + before // BM
    tl.store(tile_rows + tile * BM + before % BM, i, mask=mine >= 0)
    tl.store(tile_expert + tile, mine, mask=(mine >= 0) & (before % BM == 0))


@triton.jit
def moe_gemm_kernel(
    x, host_w, host_s, slot_w, slot_s, slot_of, tile_expert, tile_rows, out,
    N: tl.constexpr, K: tl.constexpr, SHARE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """out[i] (N) float32 = x[i // SHARE] (K) @ expert's weights (N, K) transposed, i a routed row.

    An expert is read from its slot or, where it has none (a bypass, or no room), from `host_w`. It
    has int8 weights with one float16 scale per GROUP along K. Grid: (tiles, N / BN).
    """
    tile = tl.program_id(0)
    expert = tl.load(tile_expert + tile).to(tl.int64)
    if expert >= 0:
        slot = tl.load(slot_of + expert).to(tl.int64)
        w = tl.where(slot >= 0, slot_w + slot * (N * K), host_w + expert * (N * K))
        s = tl.where(
            slot >= 0, slot_s + slot * (N * K // GROUP), host_s + expert * (N * K // GROUP)
        )
        i = tl.load(tile_rows + tile * BM + tl.arange(0, BM))
        row = i // SHARE
        n = tl.program_id(1) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        g = tl.arange(0, BK // GROUP)
        acc = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            a = tl.load(x + row[:, None] * K + start + k[None, :], mask=i[:, None] >= 0, other=0.0)
            weight = tl.load(w + n[:, None] * K + start + k[None, :]).to(tl.float32)
            scale = tl.load(s + n[:, None] * (K // GROUP) + start // GROUP + g[None, :])
            spread = tl.broadcast_to(scale.to(tl.float32)[:, :, None], (BN, BK // GROUP, GROUP))
            b = (weight * tl.reshape(spread, (BN, BK))).to(tl.float16)
            acc = tl.dot(a, tl.trans(b), acc)
        tl.store(out + i[:, None] * N + n[None, :], acc, mask=i[:, None] >= 0)


@triton.jit
def moe_silu_gate(both, out, INTER: tl.constexpr, BLOCK: tl.constexpr):
    """out (INTER) float16 = silu(gate) x up, a routed row of (gate, up) a program."""
    i = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < INTER
    gate = tl.load(both + i * (2 * INTER) + cols, mask=inside, other=0.0)
    up = tl.load(both + i * (2 * INTER) + INTER + cols, mask=inside, other=0.0)
    value = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out + i * INTER + cols, value.to(tl.float16), mask=inside)


@triton.jit
def moe_combine(parts, weights, out, H: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr):
    """out[row] (H) = sum over the row's T experts, in the router's order."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for t in tl.static_range(T):
        weight = tl.load(weights + row * T + t)
        acc += weight * tl.load(parts + (row * T + t) * H + cols, mask=cols < H, other=0.0)
    tl.store(out + row * H + cols, acc, mask=cols < H)
