"""Slots, K, batches and chunks change the speed; the text stays the same to the last token."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lanescope.captures.lab.config import LabConfig, configure
from lanescope.captures.lab.cpu import CpuBackend

PROMPTS = [
    list(b"the first prompt is long enough for the bypass"),
    list(b"a short one"),
    [300, 301],
]
WAYS: list[dict[str, Any]] = [
    *({"k": k, "slots": slots} for k in (0, 1, 2, 3) for slots in (1, 4, 9, 16)),
    {"k": 1, "slot_map": (3, 8, 16)},
    {"streams": 1, "k": 2},
    {"chunk": 7, "k": 1},
    {"chunk": 20, "bypass_over": 0},
    {"bypass_over": 300, "slots": 4},
    {"nvtx": "none"},
]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_same_text_whatever_the_engine_does_to_be_quick(
    engine: Callable[..., Any], outputs: Callable[..., Any], temperature: float
) -> None:
    seen = []
    for way in WAYS:
        with engine(**way) as made:
            seen.append(outputs(made, PROMPTS, max_tokens=40, temperature=temperature, seed=3))
    assert all(len(tokens) == 40 for tokens in seen[0])
    for way, text in zip(WAYS, seen, strict=True):
        assert text == seen[0], way


def test_another_seed_is_another_model(
    engine: Callable[..., Any], outputs: Callable[..., Any]
) -> None:
    texts = []
    for seed in (0, 1):
        with engine(seed=seed) as made:
            texts.append(outputs(made, PROMPTS, max_tokens=20))
    assert texts[0] != texts[1]


def small(**changes: Any) -> LabConfig:
    return configure("tiny", layers=3, hidden=64, inter=32, vocab=1024, context=256, **changes)


def test_logits_of_a_token_are_the_same_bits_in_every_batch() -> None:
    """A verified row against the same position prefilled: the reason why the text holds."""
    prompt = list(b"a prompt to begin with")
    alone = CpuBackend(small(k=3))
    together = CpuBackend(small(k=3, slots=2))
    alone.prefill(0, 0, prompt, 0, cached=False, all_logits=False)
    step = alone.verify(1, [0], [len(prompt)], [400], logits=True)
    drafts = step.drafts[0].tolist()
    rows = together.prefill(0, 0, [*prompt, 400, *drafts], 0, cached=False, all_logits=True)
    assert step.logits is not None
    assert np.array_equal(step.logits[0], rows.logits[len(prompt) :])


def test_drafts_are_worth_having(engine: Callable[..., Any], outputs: Callable[..., Any]) -> None:
    """Neither always right nor always wrong, or K would have nothing to teach."""
    with engine(k=1) as made:
        outputs(made, PROMPTS, max_tokens=100)
        counters = made.counters
    assert 0.4 < sum(counters.accepted_at) / counters.draft_tokens < 0.95
