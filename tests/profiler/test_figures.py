"""Figures of the probes against formulas, and streams of servers that say less or lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.profiler.adapters.metrics import Bracket, acceptance, contamination
from lanescope.profiler.adapters.probe import Request, _finish
from lanescope.profiler.window.figures import slowdown


def request(prompt: str, rate: float | None) -> Request:
    """A finished request with a decode rate."""
    return Request("control", 1, 0, prompt, decode_tokens_per_s=rate)


def test_slowdown_of_published_rates() -> None:
    """1 - 45.648 / 46.383 = 1.585 %, by the medians of the published probes."""
    control = [request(p, r) for p, r in zip("abc", (46.383, 40.0, 50.0), strict=True)]
    profiled = [request(p, r) for p, r in zip("abc", (45.648, 39.0, 49.0), strict=True)]
    found = slowdown(control, profiled)
    assert found["percent"] == pytest.approx(100 * (1 - 45.648 / 46.383))
    low, high = found["interval"]
    assert low <= found["percent"] <= high


@given(st.lists(st.floats(1, 1000), min_size=3, max_size=8), st.floats(0.5, 1.0))
def test_slowdown_of_a_common_factor_is_that_factor(rates: list[float], factor: float) -> None:
    control = [request(str(n), r) for n, r in enumerate(rates)]
    profiled = [request(str(n), r * factor) for n, r in enumerate(rates)]
    found = slowdown(control, profiled)
    assert found["percent"] == pytest.approx(100 * (1 - factor), abs=1e-6)
    assert found["interval"] == pytest.approx([100 * (1 - factor)] * 2, abs=1e-6)


def test_slowdown_needs_the_same_prompts() -> None:
    assert slowdown([request("a", 1.0)], [request("b", 1.0)])["percent"] is None
    assert slowdown([request("a", 1.0)], [request("a", None)])["percent"] is None
    assert slowdown([request("a", 2.0)], [request("a", 1.0)])["interval"] is None


def stream(chunks: list[tuple[int, int | None]], tokens: int | None) -> Request:
    """A request that received these (time, running usage) chunks and this final usage."""
    made = Request("control", 1, 0, "p", wall_ns=10**9, completion_tokens=tokens)
    made.chunk_rows = chunks
    _finish(made)
    return made


def test_rate_is_tokens_after_the_first_chunk_over_their_time() -> None:
    # 2 tokens in the first chunk, 8 at the end, 300 ms between: 6 / 0.3 s
    found = stream([(100_000_000, 2), (250_000_000, 5), (400_000_000, 8)], 8)
    assert found.decode_tokens_per_s == pytest.approx(20.0)
    assert found.ttft_ns == 100_000_000
    assert found.gap_per_token_ns == pytest.approx(50_000_000)
    assert found.tokens_by == "usage"


def test_without_running_usage_chunks_are_counted_and_it_is_said() -> None:
    found = stream([(100, None), (200, None), (300, None)], None)
    assert (found.completion_tokens, found.tokens_by) == (3, "chunks")


def test_one_chunk_has_no_rate() -> None:
    assert stream([(100, 8)], 8).decode_tokens_per_s is None
    assert stream([], 0).error == "no token came"


FULL = {
    "requests": 0.0,
    "prompt_tokens": 0.0,
    "generation_tokens": 0.0,
    "drafts": 0.0,
    "drafted_tokens": 0.0,
    "accepted_tokens": 0.0,
    "running": 0.0,
    "waiting": 0.0,
}
SENT = {"requests": 2, "prompt_tokens": 6, "generation_tokens": 10}


def after(**moved: float | None) -> Bracket:
    """Counters that moved by this."""
    return Bracket(before=dict(FULL), after={**FULL, **SENT, **moved})


def test_contamination_by_the_counters() -> None:
    assert contamination(after(), dict(SENT))["verdict"] == "clean"
    found = contamination(after(requests=3, generation_tokens=14), dict(SENT))
    assert found["verdict"] == "contaminated"
    assert found["reasons"] == [
        "requests moved by 3, sent from here 2",
        "generation_tokens moved by 14, sent from here 10",
    ]
    # fewer than sent is as wrong as more
    assert contamination(after(prompt_tokens=5), dict(SENT))["verdict"] == "contaminated"


def test_a_missing_series_is_not_an_idle_server() -> None:
    assert contamination(after(requests=None), dict(SENT))["verdict"] == "unknown"
    assert contamination(Bracket(None), dict(SENT))["verdict"] == "unknown"
    # a counter that went back was reset: the server was restarted
    low = Bracket(before={**FULL, "requests": 9.0}, after={**FULL, **SENT})
    assert contamination(low, dict(SENT))["verdict"] == "unknown"


def test_a_crowd_counts_even_where_it_never_finished() -> None:
    bracket = after()
    bracket.crowded = [{"on_server": 2.0, "from_here": 1.0}]
    bracket.samples = 5
    assert contamination(bracket, dict(SENT))["verdict"] == "contaminated"


def test_acceptance() -> None:
    found = acceptance(after(drafts=36, drafted_tokens=36, accepted_tokens=28))
    assert found["rate"] == pytest.approx(28 / 36)
    assert found["mean_length"] == pytest.approx(1 + 28 / 36)
    assert acceptance(after(drafts=None))["rate"] is None
    assert acceptance(after())["why"] == "nothing was drafted"
