"""A slow replay, written from docs/replay-semantics.md with nothing but sets and lists.

One layer; `passes` is a list of lists of expert ids (repeats allowed). Each function returns the
misses of each pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

Passes = Sequence[Sequence[int]]


def _replay(
    passes: Passes,
    slots: int,
    on_pass: Callable[[int, set[int], set[int]], None],
    rank: Callable[[int], object],
    keep_rank: Callable[[int], object] = lambda e: -e,
) -> list[int]:
    """`rank` orders victims (smallest first); `keep_rank` those of this pass that find no room."""
    resident: set[int] = set()
    misses = []
    for step, ids in enumerate(passes):
        asked = set(ids)
        missing = asked - resident
        misses.append(len(missing))
        room = slots - len(resident)
        victims = sorted(resident - asked, key=rank)  # type: ignore[arg-type]
        while room < len(missing) and victims:
            resident.remove(victims.pop(0))
            room += 1
        unlucky = sorted(missing, key=keep_rank)[: max(0, len(missing) - room)]  # type: ignore[arg-type]
        hits = asked - missing
        resident |= missing - set(unlucky)
        assert len(resident) <= slots
        on_pass(step, hits, resident)
    return misses


def lru(passes: Passes, slots: int) -> list[int]:
    stamp: dict[int, int] = {}

    def note(step: int, hits: set[int], resident: set[int]) -> None:
        for e in set(passes[step]):
            stamp[e] = step

    return _replay(passes, slots, note, lambda e: (stamp[e], e))


def lfu(passes: Passes, slots: int) -> list[int]:
    stamp: dict[int, int] = {}
    uses: dict[int, int] = {}

    def note(step: int, hits: set[int], resident: set[int]) -> None:
        for e in set(passes[step]):
            stamp[e] = step
            uses[e] = uses.get(e, 0) + 1

    return _replay(passes, slots, note, lambda e: (uses[e], stamp[e], e))


def slru(passes: Passes, slots: int, protected_slots: int) -> list[int]:
    moved: dict[int, int] = {}
    protected: set[int] = set()

    def note(step: int, hits: set[int], resident: set[int]) -> None:
        protected.intersection_update(resident)
        for e in set(passes[step]) & resident:
            moved[e] = step
        protected.update(hits)
        while len(protected) > protected_slots:
            oldest = min(protected, key=lambda e: (moved[e], e))
            protected.remove(oldest)
            moved[oldest] = step

    return _replay(passes, slots, note, lambda e: (e in protected, moved[e], e))


def pinned(passes: Passes, slots: int, share: float) -> list[int]:
    """`share` of the slots hold the experts of the most passes, LRU in the rest."""
    counts: dict[int, int] = {}
    for ids in passes:
        for e in set(ids):
            counts[e] = counts.get(e, 0) + 1
    pins = int(share * slots)
    fixed = set(sorted(counts, key=lambda e: (-counts[e], e))[:pins])
    rest = [[e for e in ids if e not in fixed] for ids in passes]
    return lru(rest, slots - pins)


def fewest_misses(passes: Passes, slots: int, keep_all: bool, warmup: int = 0) -> int:
    """The optimum by trying everything: every choice of what to hold after every pass.

    `keep_all`: what a pass asks for stays (as many as fit), as in the engine.
    Without it, the start is free too, as for a static pin. Misses of the first
    `warmup` passes are free.
    """
    best: dict[frozenset[int], int] = {frozenset(): 0}
    if not keep_all:
        everything = frozenset(e for ids in passes for e in ids)
        best = dict.fromkeys(_choices(frozenset(), everything, slots, False), 0)
    for step, ids in enumerate(passes):
        asked = frozenset(ids)
        after: dict[frozenset[int], int] = {}
        for held, cost in best.items():
            paid = cost + (len(asked - held) if step >= warmup else 0)
            for choice in _choices(held, asked, slots, keep_all):
                after[choice] = min(after.get(choice, paid), paid)
        best = after
    return min(best.values())


def _choices(
    held: frozenset[int], asked: frozenset[int], slots: int, keep_all: bool
) -> Iterable[frozenset[int]]:
    if not keep_all:
        pool = held | asked
        for size in range(min(slots, len(pool)) + 1):
            yield from map(frozenset, itertools.combinations(sorted(pool), size))
        return
    if len(asked) >= slots:
        yield from map(frozenset, itertools.combinations(sorted(asked), slots))
        return
    others = held - asked
    for kept in itertools.combinations(sorted(others), min(len(others), slots - len(asked))):
        yield asked | frozenset(kept)
