"""The lab model's weights: random, but always the same for the same configuration.

Every tensor has a generator of its own, keyed by seed and tensor, so layers can be made in any
order or in parallel. Shapes are (rows out, columns in) throughout.

The model is made so that its text is worth speculating on: a token's embedding is part topic, part
its own; each word has a successor within its topic; and the output matrix knows that successor by
`agreement`. Draft and target share embeddings and output matrix, and differ in their layers, so the
draft is often right and often wrong. Tokens of one topic route alike, which gives the slot cache
something to hold.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lanescope.captures.lab.config import SCALE_GROUP, LabConfig
from lanescope.captures.lab.tokens import BYTES

Floats = NDArray[np.float32]
TOPIC = 64  # words of one topic
#: share of the residual stream that all layers together add, against the embedding's
LAYER_SHARE = 1.0
_INT8_STD = 127 / math.sqrt(3)
_DRAFT = 10_000  # the draft's layer number among the generators


class Expert(dict[str, NDArray[np.generic]]):
    """The rows of one layer's experts, by tensor.

    `w13` int8 (experts, 2 x inter, hidden), `w2` int8 (experts, hidden, inter), `w13_scale` and
    `w2_scale` float16, one per 16 weights of a row.
    """


class Weights:
    """Makes the tensors of one configuration."""

    def __init__(self, config: LabConfig) -> None:
        self.config = config

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self.config.seed, *key]))

    def _normal(self, shape: tuple[int, ...], scale: float, *key: int) -> Floats:
        out: Floats = self._rng(*key).standard_normal(shape, dtype=np.float32)
        out *= np.float32(scale)
        return out

    def embeddings(self) -> tuple[Floats, Floats]:
        """The embedding (vocab, hidden) and the output matrix (words, hidden): bytes are never
        written, so output row i is token `BYTES + i`."""
        c = self.config
        words = c.vocab - BYTES
        own = self._normal((c.vocab, c.hidden), 1.0, 1)
        topics = self._normal((c.vocab // TOPIC + 1, c.hidden), 1.0, 2)
        embed = math.sqrt(1 - c.locality) * own
        embed += math.sqrt(c.locality) * topics[np.arange(c.vocab) // TOPIC]
        output = self._normal((words, c.hidden), 1.0, 3)
        # the successor of a word must stand out from the best of `words` random directions
        known = math.sqrt(2 * math.log(words) / c.hidden)
        known *= c.agreement * math.sqrt((1 + LAYER_SHARE**2) / (1 - c.locality))
        output[self._successors(words)] += np.float32(known) * own[BYTES:]
        return embed.astype(np.float32), output

    def _successors(self, words: int) -> NDArray[np.int64]:
        """The word that tends to follow each word: a random cycle through each topic."""
        rng = self._rng(4)
        after = np.empty(words, dtype=np.int64)
        for start in range(0, words, TOPIC):
            order = start + rng.permutation(min(TOPIC, words - start))
            after[order] = np.roll(order, -1)
        return after

    def dense(self, layer: int) -> dict[str, Floats]:
        """Attention and router of a layer: `qkv` (3 x hidden, hidden), `out` (hidden, hidden),
        `router` (experts, hidden) and its fixed `bias` (experts)."""
        c = self.config
        unit = 1 / math.sqrt(c.hidden)
        return {
            "qkv": self._normal((3 * c.hidden, c.hidden), unit, 5, layer),
            "out": self._normal((c.hidden, c.hidden), unit, 6, layer),
            "router": self._normal((c.experts, c.hidden), unit, 7, layer),
            "bias": self._normal((c.experts,), c.skew, 8, layer),
        }

    def experts(self, layer: int) -> Expert:
        """The routed experts of a layer."""
        c = self.config
        return Expert(
            {
                **self._quantized("w13", 2 * c.inter, c.hidden, 9, layer),
                **self._quantized("w2", c.hidden, c.inter, 10, layer),
            }
        )

    def _quantized(
        self, name: str, rows: int, cols: int, *key: int
    ) -> dict[str, NDArray[np.generic]]:
        n = self.config.experts
        # raw words of the generator are the quickest random bytes there are, and lock nothing
        source = np.random.SFC64([self.config.seed, *key])
        words = n * rows * cols // 8
        weights = source.random_raw(words).view(np.int8).reshape(n, rows, cols)
        shares = source.random_raw(words // SCALE_GROUP).view(np.uint8)
        unit = 1 / (_INT8_STD * math.sqrt(cols))
        table = (unit * np.linspace(0.5, 1.5, 256)).astype(np.float16)
        scales = table[shares].reshape(n, rows, cols // SCALE_GROUP)
        return {name: weights, f"{name}_scale": scales}

    def draft(self) -> tuple[dict[str, Floats], Expert]:
        """The draft's one layer: its router and its own experts, which stay on the device."""
        return self.dense(_DRAFT), self.experts(_DRAFT)

    @property
    def layer_gain(self) -> float:
        """What each of a layer's two branches is scaled by, so that depth changes no balance."""
        return LAYER_SHARE / math.sqrt(2 * self.config.layers)


def dequantize(rows: NDArray[np.generic], scales: NDArray[np.generic]) -> Floats:
    """Weights as float32 from int8 rows and one float16 scale per 16 columns."""
    shaped = rows.astype(np.float32).reshape(*scales.shape, SCALE_GROUP)
    shaped *= scales.astype(np.float32)[..., None]
    return shaped.reshape(rows.shape)
