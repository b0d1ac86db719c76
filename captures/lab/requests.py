"""A request as the engine sees it, and what it tells the client while it runs."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lanescope.captures.lab.backend import Floats
from lanescope.captures.lab.tokens import BYTES, Tokenizer

_numbers = itertools.count()


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen and when to stop. Temperature 0 is greedy.

    `logprobs` is the number of alternatives to report, None for no log-probabilities at all.
    """

    max_tokens: int = 16
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    echo: bool = False


@dataclass(frozen=True)
class TokenLogprob:
    """A token's log-probability and the best alternatives, (token id, log-probability) best first.

    The first token of a prompt has none: `value` is None.
    """

    token: int
    value: float | None
    top: list[tuple[int, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Delta:
    """What one pass added to a request. `text` is ready to send: it never holds a stop string.

    `finish` is None until the last one: `length`, `stop` or `abort`.
    """

    tokens: list[int]
    text: str
    logprobs: list[TokenLogprob]
    finish: str | None


class Request:
    """One completion under way. The engine's thread alone touches it after `Engine.submit`."""

    def __init__(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        emit: Callable[[Delta], None],
        name: str = "",
    ) -> None:
        self.number = next(_numbers)
        self.name = name or f"request-{self.number}"
        self.prompt = list(prompt)
        self.sampling = sampling
        self.output: list[int] = []
        self.prompt_logprobs: list[TokenLogprob] = []
        self.finish: str | None = None
        self.aborted = False
        self.arrived = time.monotonic()
        self.first_token_at: float | None = None
        self.emit = emit
        self._held = ""  # text that may be the beginning of a stop string

    @property
    def length(self) -> int:
        """Tokens so far: prompt and completion."""
        return len(self.prompt) + len(self.output)

    @property
    def needs_logits(self) -> bool:
        """Whether the greedy token alone is not enough."""
        return self.sampling.temperature > 0 or self.sampling.logprobs is not None

    def take(
        self, tokens: Sequence[int], logprobs: Sequence[TokenLogprob], tokenizer: Tokenizer
    ) -> Delta:
        """Add tokens until one ends the request; none at all means only the prompt was wanted."""
        taken: list[int] = []
        text = ""
        for token in tokens:
            taken.append(token)
            self.output.append(token)
            text += self._released(tokenizer.decode([token]))
            if self.finish is None and len(self.output) >= self.sampling.max_tokens:
                self.finish = "length"
            if self.finish is not None:
                break
        if not tokens:
            self.finish = "length"
        if self.finish == "length":
            text, self._held = text + self._held, ""
        if taken and self.first_token_at is None:
            self.first_token_at = time.monotonic()
        return Delta(taken, text, list(logprobs[: len(taken)]), self.finish)

    def end(self, reason: str) -> Delta:
        """End without a further token."""
        self.finish = reason
        return Delta([], "", [], reason)

    def _released(self, text: str) -> str:
        """Text that may be sent now that `text` has come; sets `finish` at a stop string."""
        self._held += text
        found = [(self._held.find(s), s) for s in self.sampling.stop if s in self._held]
        if found:
            self.finish = "stop"
            released, self._held = self._held[: min(found)[0]], ""
            return released
        keep = max((_overlap(self._held, s) for s in self.sampling.stop), default=0)
        released = self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        return released


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    return max((n for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0)


def choose(logits: Floats, sampling: Sampling, position: int) -> int:
    """The token at `position` from its logits (words,).

    Sampling draws noise from (seed, position) and takes the best of logits + noise (Gumbel-max), so
    the text depends on neither K nor the batch.
    """
    if sampling.temperature <= 0:
        return BYTES + int(logits.argmax())
    scores = logits.astype(np.float64) / sampling.temperature
    if sampling.top_p < 1:
        order = np.argsort(-scores, kind="stable")
        share = np.exp(scores[order] - scores[order[0]])
        before = np.cumsum(share) / share.sum() - share / share.sum()
        scores[order[before >= sampling.top_p]] = -math.inf
    rng = np.random.Generator(np.random.PCG64([sampling.seed, position]))
    return BYTES + int((scores + rng.gumbel(size=len(scores))).argmax())


def logprob(logits: Floats, token: int, count: int) -> TokenLogprob:
    """Log-probability of `token` under logits (words,), with the `count` best alternatives.

    The model gives bytes no probability: a prompt's byte has the lowest finite one there is.
    """
    scores = logits.astype(np.float64)
    peak = scores.max()
    scores -= peak + math.log(np.exp(scores - peak).sum())
    best = np.argsort(-scores, kind="stable")[:count]
    value = float(scores[token - BYTES]) if token >= BYTES else -9999.0
    return TokenLogprob(token, value, [(BYTES + int(i), float(scores[i])) for i in best])
