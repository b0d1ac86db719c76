"""Reading and writing text."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.captures.lab.tokens import BYTES, Tokenizer

TOKENIZER = Tokenizer(2048)


@settings(deadline=None)
@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    written = TOKENIZER.decode(TOKENIZER.encode(text))
    assert written == text.encode("utf-8", "replace").decode()


@settings(deadline=None)
@given(st.lists(st.integers(BYTES, 2047)))
def test_a_completion_reads_back_as_the_same_tokens(ids: list[int]) -> None:
    assert TOKENIZER.encode(TOKENIZER.decode(ids)) == ids


def test_words_are_all_different() -> None:
    big = Tokenizer(50_000)
    assert len({big.decode([i]) for i in range(BYTES, 50_000)}) == 50_000 - BYTES


def test_a_word_inside_a_longer_one_stays_bytes() -> None:
    word = TOKENIZER.decode([300])
    assert TOKENIZER.encode(word) == [300]
    assert 300 not in TOKENIZER.encode(word + "x")
