"""The lab's vocabulary: 256 bytes, then words of fixed syllables. Reading and writing are exact.

A word token is a space and three syllables (`" bakuto"`), so a completion is plain ASCII, one word
a token, and `encode(decode(ids)) == ids`. Bytes are in the vocabulary for prompts alone: the model
never writes one, so a stream never breaks inside a character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

BYTES = 256
_SYLLABLES = tuple(c + v for c in "bdfgklmnprstvz" for v in "aeiou")
_WORD = re.compile(rb" [a-z]{6}(?![a-z])")


def word(index: int) -> str:
    """The text of word number `index` (token id `BYTES + index`)."""
    base = len(_SYLLABLES)
    first, rest = divmod(index, base * base)
    second, third = divmod(rest, base)
    return f" {_SYLLABLES[(first + third) % base]}{_SYLLABLES[second]}{_SYLLABLES[third]}"


class Tokenizer:
    """Text to ids and back for a vocabulary of `vocab` tokens."""

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab
        self._texts = [bytes([b]) for b in range(BYTES)]
        self._texts += [word(i).encode() for i in range(vocab - BYTES)]
        self._ids = {text: i for i, text in enumerate(self._texts) if i >= BYTES}

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`: known words whole, everything else byte by byte."""
        data = text.encode("utf-8", "replace")
        ids: list[int] = []
        at = 0
        for match in _WORD.finditer(data):
            token = self._ids.get(match.group())
            if token is None:
                continue
            ids.extend(data[at : match.start()])
            ids.append(token)
            at = match.end()
        ids.extend(data[at:])
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; bytes that form no character become the replacement character."""
        return b"".join(self._texts[i] for i in ids).decode("utf-8", "replace")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each token by itself, as log-probability lists show it."""
        return [self.decode([i]) for i in ids]
