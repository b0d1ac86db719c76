"""The slot cache of one layer, in plain Python: the rules of docs/replay-semantics.md, no more.

The NumPy engine uses it as it stands; the CUDA engine's fused bookkeeping kernel is tested against
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: the slot of an expert that found no room in this pass: it is read straight from host memory
HOST = -1


@dataclass(frozen=True)
class Lookup:
    """What one layer-step asked for.

    `slot_of` has the slot of each distinct expert (`HOST` where none was free), `copies` the
    (expert, slot) pairs to copy in order of expert id; `misses` counts distinct missing experts.
    """

    slot_of: dict[int, int]
    copies: list[tuple[int, int]]
    misses: int


class SlotCache:
    """Least recently used expert rows of one layer in `slots` slots."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._slot_of: dict[int, int] = {}
        self._stamp: dict[int, int] = {}
        self._free = list(range(slots - 1, -1, -1))

    def request(self, step: int, experts: Iterable[int]) -> Lookup:
        """Ask for all experts of a pass together; the missing ones move in.

        Victims go by (last step asked for, expert id); what this pass asks for is never one. Where
        even that leaves too little room, the smallest missing ids are kept.
        """
        asked = sorted(set(experts))
        missing = [e for e in asked if e not in self._slot_of]
        wanted = set(asked)
        room = len(self._free) + sum(e not in wanted for e in self._slot_of)
        kept = missing[:room]
        self._evict(len(kept) - len(self._free), wanted)
        copies = []
        for expert in kept:
            slot = self._free.pop()
            self._slot_of[expert] = slot
            copies.append((expert, slot))
        for expert in asked:
            if expert in self._slot_of:
                self._stamp[expert] = step
        where = {e: self._slot_of.get(e, HOST) for e in asked}
        return Lookup(slot_of=where, copies=copies, misses=len(missing))

    def _evict(self, count: int, wanted: set[int]) -> None:
        if count <= 0:
            return
        victims = sorted((self._stamp[e], e) for e in self._slot_of if e not in wanted)
        for _, expert in victims[:count]:
            self._free.append(self._slot_of.pop(expert))
            del self._stamp[expert]

    @property
    def resident(self) -> dict[int, int]:
        """Expert -> slot, as it stands."""
        return dict(self._slot_of)
