"""The slot cache against a second, slower writing of docs/replay-semantics.md."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.captures.lab.slots import HOST, SlotCache

PASSES = st.lists(st.sets(st.integers(0, 11), min_size=1, max_size=8), max_size=40)


class Plain:
    """Expert -> last step, nothing else; the rules one by one."""

    def __init__(self, slots: int) -> None:
        self.slots, self.last = slots, {}

    def misses(self, step: int, asked: set[int]) -> int:
        missing = sorted(asked - self.last.keys())
        for expert in missing:
            if len(self.last) == self.slots:
                victims = self.last.keys() - asked
                if not victims:
                    break
                self.last.pop(min(victims, key=lambda e: (self.last[e], e)))
            self.last[expert] = step
        for expert in asked & self.last.keys():
            self.last[expert] = step
        return len(missing)


@settings(deadline=None)
@given(PASSES, st.integers(1, 12))
def test_same_misses_and_residents_as_the_rules(passes: list[set[int]], slots: int) -> None:
    cache, plain = SlotCache(slots), Plain(slots)
    for step, asked in enumerate(passes):
        assert cache.request(step, asked).misses == plain.misses(step, asked)
        assert cache.resident.keys() == plain.last.keys()


@settings(deadline=None)
@given(PASSES, st.integers(1, 12))
def test_every_slot_holds_what_was_copied_into_it(passes: list[set[int]], slots: int) -> None:
    cache, held = SlotCache(slots), {}
    for step, asked in enumerate(passes):
        found = cache.request(step, asked)
        for expert, slot in found.copies:
            held[slot] = expert
        assert found.slot_of.keys() == asked
        for expert, slot in found.slot_of.items():
            assert slot == HOST or held[slot] == expert
        assert set(held) <= set(range(slots))


def test_too_few_slots_keep_the_smallest_ids() -> None:
    found = SlotCache(2).request(0, [9, 3, 5])
    assert found.misses == 3
    assert [e for e, _ in found.copies] == [3, 5]
    assert found.slot_of[9] == HOST
