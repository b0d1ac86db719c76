"""The GPU engine against the written rules and the NumPy engine.

Where there is no GPU, Triton's interpreter runs the same kernels; where there is no Triton, this
is skipped.
"""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
GPU = torch.cuda.is_available()
if not GPU:  # Triton looks at its import
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton")

from lanescope.captures.lab.config import configure  # noqa: E402
from lanescope.captures.lab.cpu import CpuBackend  # noqa: E402
from lanescope.captures.lab.cuda import moe  # noqa: E402
from lanescope.captures.lab.cuda.model import CudaBackend  # noqa: E402
from lanescope.captures.lab.slots import SlotCache  # noqa: E402

DEVICE = "cuda" if GPU else "cpu"


def ints(*shape: int, fill: int = 0) -> Any:
    return torch.full(shape, fill, dtype=torch.int32, device=DEVICE)


@pytest.mark.parametrize(
    ("experts", "slots", "routed"), [(12, 4, 8), (16, 16, 2), (40, 17, 20), (16, 4, 33)]
)
def test_bookkeeping_follows_the_rules(experts: int, slots: int, routed: int) -> None:
    rnd = random.Random(experts + slots + routed)
    slot_of, stamp, header = ints(experts, fill=-1), ints(experts), ints(16)
    copy_from, copy_to, misses = ints(routed), ints(routed), ints(3)
    block = max(16, 1 << (experts - 1).bit_length())
    cache, held = SlotCache(slots), {}
    for step in range(30):
        ids = [min(experts - 1, int(abs(rnd.gauss(0, experts / 3)))) for _ in range(routed)]
        header[0] = step
        routes = torch.tensor(ids, dtype=torch.int32, device=DEVICE)
        moe.slot_bookkeeping[(1,)](
            header, routes, slot_of, stamp, copy_from, copy_to, misses, routed, slots, 1,
            E=experts, BLOCK=block, CHUNK=16,
        )  # fmt: skip
        rules = cache.request(step, ids)
        count = len(rules.copies)
        assert int(misses[1]) == rules.misses
        assert copy_from.tolist() == [e for e, _ in rules.copies] + [-1] * (routed - count)
        held.update(zip(copy_to.tolist()[:count], copy_from.tolist()[:count], strict=True))
        where = slot_of.tolist()
        assert {e for e in range(experts) if where[e] >= 0} == set(cache.resident)
        assert all(held[where[e]] == e for e in cache.resident)


@pytest.mark.parametrize(("experts", "routed"), [(16, 5), (16, 100), (40, 64)])
def test_every_routed_row_is_in_one_tile_of_its_expert(experts: int, routed: int) -> None:
    rnd = random.Random(routed)
    ids = [min(experts - 1, int(rnd.expovariate(0.3))) for _ in range(routed)]
    tiles = min(routed, experts) + routed // 16
    tile_expert, tile_rows = ints(tiles, fill=-1), ints(tiles * 16, fill=-1)
    block = max(16, 1 << (experts - 1).bit_length())
    moe.moe_group_rows[((routed + 31) // 32,)](
        torch.tensor(ids, dtype=torch.int32, device=DEVICE), tile_expert, tile_rows, routed,
        BLOCK=block, BI=32, BM=16,
    )  # fmt: skip
    placed = []
    for tile, expert in enumerate(tile_expert.tolist()):
        rows = [i for i in tile_rows.tolist()[tile * 16 : tile * 16 + 16] if i >= 0]
        assert all(ids[i] == expert for i in rows)
        placed += rows
    assert sorted(placed) == list(range(routed))


def run(make: Callable[[Any], Any], config: Any, tokens: int) -> tuple[list[int], list[Any]]:
    """Greedy tokens of one prompt, and every pass's misses."""
    backend, prompt = make(config), list(b"a prompt")
    first = backend.prefill(0, 0, prompt, 0, True, False)
    out, misses = [256 + int(first.logits[0].argmax())], [first.routing.misses]
    step = 1
    while len(out) < tokens:
        done = backend.verify(step, [0], [len(prompt) + len(out) - 1], [out[-1]], False)
        good = 0
        while good < config.k and done.drafts[0, good] == done.choices[0, good]:
            good += 1
        out += done.choices[0, : good + 1].tolist()
        misses.append(done.routing.misses)
        step += 1
    return out[:tokens], misses


@pytest.mark.parametrize(("k", "slots"), [(0, 5), (2, 3)])
def test_gpu_and_cpu_write_the_same_text_with_the_same_misses(k: int, slots: int) -> None:
    config = configure(
        "tiny", k=k, slots=slots, layers=2, hidden=64, inter=32, vocab=512, context=64, chunk=16,
        progs=2, graphs=2,
    )  # fmt: skip
    assert run(lambda c: CudaBackend(c, DEVICE), config, 8) == run(CpuBackend, config, 8)
