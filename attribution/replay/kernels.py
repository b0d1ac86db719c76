"""The replay loops: one layer, one slot count, one policy. Rules: `docs/replay-semantics.md`.

All policies but a static pin share one loop: rows have keys, and the row with the smallest key is
evicted. What a policy is lies in its keys. Keys of rows that the pass asks for are lifted out of
reach while its victims are chosen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.replay.jit import jit, uniform
from lanescope.attribution.replay.trace import Ids, Ints

LRU, LFU, RANDOM, SLRU, BELADY_DEMAND, BELADY = range(6)

# A key is below 2**61. While victims are chosen, a missing row of this pass lies above all rows not
# asked for, and a hit above both: nothing asked for is evicted, and a hit never makes way. (In a
# pass wider than the cache BELADY_DEMAND keeps the best of its rows, hits or not.)
_MISSED = 1 << 61
_HIT = 1 << 62


@jit
def replay_policy(
    policy: int,
    experts: Ids,
    starts: Ints,
    next_use: NDArray[np.int32],
    first_use: NDArray[np.int32],
    pinned: NDArray[np.bool_],
    slots: int,
    protected_slots: int,
    seed: int,
) -> NDArray[np.int32]:
    """Misses of each pass (steps) under `policy` with `slots` rows for the unpinned experts.

    `next_use` (as long as `experts`) and `first_use` (n_experts) come from `next_uses`; only the
    Belady policies read them. `protected_slots` is SLRU's protected segment. Caches start empty,
    but for BELADY, which like a static pin starts with the rows that serve it best.
    """
    steps = len(starts) - 1
    n_experts = len(pinned)
    widest = 0
    for s in range(steps):
        widest = max(widest, starts[s + 1] - starts[s])
    span = np.int64(steps + 1) * n_experts  # one more than the largest (step, expert) pair
    rows = np.empty(slots + widest, np.int64)  # expert held in each place
    keys = np.empty(slots + widest, np.int64)
    place = np.full(n_experts, -1, np.int64)
    uses = np.zeros(n_experts, np.int64)
    misses = np.zeros(steps, np.int32)
    state = np.array([seed * 2 + 1], np.uint64)
    held = 0
    protected = 0
    if policy == BELADY:
        for e in np.argsort(first_use, kind="mergesort")[:slots]:
            rows[held] = e
            keys[held] = np.int64(steps + 1 - first_use[e]) * n_experts + e
            place[e] = held
            held += 1
    for s in range(steps):
        free_of_claim = held
        for i in range(starts[s], starts[s + 1]):
            e = experts[i]
            if pinned[e]:
                continue
            at = place[e]
            stamp = np.int64(s) * n_experts + e
            hit = at >= 0
            if hit:
                free_of_claim -= 1
            else:
                at = held
                rows[at] = e
                place[e] = at
                held += 1
                misses[s] += 1
            if policy == LFU:
                uses[e] += 1
                key = uses[e] * span + stamp
            elif policy >= BELADY_DEMAND:
                key = np.int64(steps + 1 - next_use[i]) * n_experts + e
            elif policy == SLRU and hit:
                if keys[at] < span:
                    protected += 1
                key = span + stamp
            else:
                key = stamp
            if policy != BELADY:
                key += _HIT if hit and policy != BELADY_DEMAND else _MISSED
            keys[at] = key
        while held > slots:
            if policy == RANDOM and free_of_claim > 0:
                victim = -1
                while victim < 0 or keys[victim] >= _MISSED:
                    victim = int(uniform(state) * held)
            elif free_of_claim <= 0 and policy < BELADY_DEMAND:  # rule 5: larger ids are not kept
                victim = -1
                for j in range(held):
                    if keys[j] < _HIT and (victim < 0 or rows[j] > rows[victim]):
                        victim = j
            else:
                victim = 0
                for j in range(1, held):
                    if keys[j] < keys[victim]:
                        victim = j
            free_of_claim -= 1
            if policy == SLRU and span <= keys[victim] < _MISSED:
                protected -= 1
            place[rows[victim]] = -1
            held -= 1
            rows[victim] = rows[held]
            keys[victim] = keys[held]
            if victim != held:
                place[rows[victim]] = victim
        if policy == BELADY:
            continue
        for i in range(starts[s], starts[s + 1]):
            at = place[experts[i]]
            if at >= 0:
                keys[at] -= _HIT if keys[at] >= _HIT else _MISSED
        while protected > protected_slots:  # the oldest protected row goes back to probation
            oldest = -1
            for j in range(held):
                if keys[j] >= span and (oldest < 0 or keys[j] < keys[oldest]):
                    oldest = j
            keys[oldest] = np.int64(s) * n_experts + rows[oldest]
            protected -= 1
    return misses


@jit
def next_uses(
    experts: Ids, starts: Ints, n_experts: int, scored: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """For each request, the next pass that asks for the same expert (steps + 1: never); and for
    each expert (n_experts) the first one.

    A next use in a pass that is not scored counts as never: its miss costs nothing, so holding the
    row until then wins nothing.
    """
    steps = len(starts) - 1
    upcoming = np.full(n_experts, steps + 1, np.int32)
    out = np.empty(len(experts), np.int32)
    for s in range(steps - 1, -1, -1):
        for i in range(starts[s], starts[s + 1]):
            out[i] = upcoming[experts[i]]
            upcoming[experts[i]] = s if scored[s] else steps + 1
    return out, upcoming


@jit
def lru_depths(experts: Ids, starts: Ints, n_experts: int) -> NDArray[np.int32]:
    """How deep each request lies in the LRU order before its pass (n_experts: never seen).

    A request of depth d is a hit in every cache of more than d slots that holds whole passes.
    """
    steps = len(starts) - 1
    order = np.empty(n_experts, np.int64)  # most recent first
    asked = np.full(n_experts, -1, np.int64)  # index of the request in this pass
    seen = np.zeros(n_experts, np.bool_)
    passed = np.empty(n_experts, np.int64)
    depth = np.full(len(experts), n_experts, np.int32)
    known = 0
    for s in range(steps):
        first = starts[s]
        last = starts[s + 1]
        waiting = 0
        fresh = 0
        for i in range(first, last):
            e = experts[i]
            asked[e] = i
            if seen[e]:
                waiting += 1
            else:
                fresh += 1
                seen[e] = True
        n = 0
        p = 0
        while p < known and (waiting > 0 or fresh > 0):
            e = order[p]
            if asked[e] >= first:
                depth[asked[e]] = p
                waiting -= 1
            else:
                passed[n] = e
                n += 1
            p += 1
        known += fresh
        width = last - first
        for i in range(width):  # the larger id is the more recent one
            order[i] = experts[last - 1 - i]
        for i in range(n):
            order[width + i] = passed[i]
    return depth


@jit
def common_with(
    experts: Ids, starts: Ints, others: Ids, other_starts: Ints, pairing: Ints, n_experts: int
) -> Ints:
    """How many experts each pass shares with pass `pairing[s]` of `others` (0 where that is -1)."""
    out = np.zeros(len(starts) - 1, np.int64)
    seen = np.full(n_experts, -1, np.int64)
    for s in range(len(starts) - 1):
        if pairing[s] < 0:
            continue
        for i in range(other_starts[pairing[s]], other_starts[pairing[s] + 1]):
            seen[others[i]] = s
        for i in range(starts[s], starts[s + 1]):
            if seen[experts[i]] == s:
                out[s] += 1
    return out


@jit
def distinct_in_windows(experts: Ids, starts: Ints, bounds: Ints, n_experts: int) -> Ints:
    """Distinct experts in the passes `bounds[w]` to `bounds[w + 1]` less one, for each window."""
    out = np.zeros(len(bounds) - 1, np.int64)
    seen = np.full(n_experts, -1, np.int64)
    for w in range(len(bounds) - 1):
        for i in range(starts[bounds[w]], starts[bounds[w + 1]]):
            if seen[experts[i]] != w:
                seen[experts[i]] = w
                out[w] += 1
    return out


@jit
def lru_covered(
    experts: Ids,
    starts: Ints,
    predicted: NDArray[np.int32],
    slots: int,
    n_experts: int,
    scored: NDArray[np.bool_],
) -> Ints:
    """LRU misses of scored passes that `predicted` (passes, ranks) named, and the predicted rows
    that were neither held nor asked for. LRU itself goes on as if nothing had been predicted.

    The caller's slots hold at least one whole pass.
    """
    out = np.zeros(2, np.int64)
    order = np.empty(n_experts + 1, np.int64)  # held, most recent first
    held = 0
    inside = np.zeros(n_experts, np.bool_)
    asked = np.full(n_experts, -1, np.int64)
    named = np.full(n_experts, -1, np.int64)
    passed = np.empty(n_experts + 1, np.int64)
    for s in range(len(starts) - 1):
        for i in range(starts[s], starts[s + 1]):
            asked[experts[i]] = s
        if scored[s]:
            for r in range(predicted.shape[1]):
                e = predicted[s, r]
                if e < 0 or named[e] == s or inside[e]:
                    continue
                named[e] = s
                out[0 if asked[e] == s else 1] += 1
        n = 0
        for p in range(held):
            if asked[order[p]] != s:
                passed[n] = order[p]
                n += 1
        width = starts[s + 1] - starts[s]
        kept = min(n, max(0, slots - width))
        for p in range(kept, n):
            inside[passed[p]] = False
        for i in range(width):
            order[i] = experts[starts[s + 1] - 1 - i]
            inside[order[i]] = True
        for p in range(kept):
            order[width + p] = passed[p]
        held = width + kept
    return out


@jit
def lru_small(
    experts: Ids, starts: Ints, largest: int, n_experts: int, scored: NDArray[np.bool_]
) -> Ints:
    """LRU misses of scored passes with 0 to `largest` - 1 slots (largest), all sizes at once.

    For caches that cannot hold the widest pass. They too contain one another, so what distinguishes
    the cache of c + 1 rows from that of c is one expert, `order[c]`; each pass moves that list on
    from its front, by rule 5 where the pass is wider than the cache and by rule 3 where it is not.
    """
    out = np.zeros(largest, np.int64)
    order = np.full(largest, -1, np.int64)
    moved = np.empty(largest, np.int64)
    pool = np.empty(largest + 1, np.int64)  # held by the size at hand, not asked for, not placed
    stamp = np.full(n_experts, -1, np.int64)  # step x n_experts + expert: LRU's order
    asked = np.full(n_experts, -1, np.int64)
    placed = np.full(n_experts, -1, np.int64)
    for s in range(len(starts) - 1):
        width = starts[s + 1] - starts[s]
        for i in range(starts[s], starts[s + 1]):
            asked[experts[i]] = s
        upcoming = starts[s]  # the smallest id asked for that may still lack a place
        waiting = 0
        hits = 0
        for c in range(largest):
            if scored[s]:
                out[c] += width - hits
            x = order[c]
            wanted = x >= 0 and asked[x] == s
            if wanted:
                hits += 1
            elif x >= 0:
                pool[waiting] = x
                waiting += 1
            chosen = np.int64(-1)
            if c < width:
                if wanted and placed[x] != s:
                    chosen = x
                else:
                    while placed[experts[upcoming]] == s:
                        upcoming += 1
                    chosen = np.int64(experts[upcoming])
                placed[chosen] = s
            elif waiting > 0:
                best = 0
                for j in range(1, waiting):
                    if stamp[pool[j]] > stamp[pool[best]]:
                        best = j
                chosen = pool[best]
                waiting -= 1
                pool[best] = pool[waiting]
            moved[c] = chosen
        order[:] = moved
        for i in range(starts[s], starts[s + 1]):
            stamp[experts[i]] = s * n_experts + experts[i]
    return out
