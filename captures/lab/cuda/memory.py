"""Where tensors live: dense weights and slots on the device, experts in pinned host memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from lanescope.captures.lab.config import TENSORS, LabConfig
from lanescope.captures.lab.weights import Weights
from lanescope.schemas.errors import UnusableInput

Tensors = dict[str, torch.Tensor]
#: threads that make weights; each makes whole layers
MAKERS = 16


@dataclass
class Layer:
    """One layer: `dense` on the device, `host` experts, `rows` their slots (all by tensor name).

    `slot_of` and `stamp` (experts) are the slot cache's state.
    """

    dense: Tensors
    host: Tensors
    rows: Tensors
    slot_of: torch.Tensor
    stamp: torch.Tensor
    slots: int

    def forget(self) -> None:
        """An empty cache again."""
        self.slot_of.fill_(-1)
        self.stamp.zero_()


class Memory:
    """All tensors of one model.

    Raises UnusableInput where the GPU has no room for them.
    """

    def __init__(self, config: LabConfig, device: torch.device) -> None:
        self.config, self.device = config, device
        self._weights = Weights(config)
        try:
            self._fill()
        except torch.OutOfMemoryError as exc:
            raise UnusableInput(
                f"the GPU has no room for preset {config.preset}: {str(exc).splitlines()[0]}",
                "fewer --slots, less --context, or a smaller preset",
            ) from exc

    def _fill(self) -> None:
        c = self.config
        embed, output = self._weights.embeddings()
        self.embed, self.output = self._half(embed), self._half(output)
        with ThreadPoolExecutor(MAKERS) as pool:
            self.layers = list(pool.map(self._layer, range(c.layers)))
        dense, experts = self._weights.draft()
        device_rows = {t: torch.from_numpy(experts[t]).to(self.device) for t in TENSORS}
        state = torch.full((c.experts,), -1, dtype=torch.int32, device=self.device)
        self.draft = Layer(self._dense(dense), device_rows, device_rows, state, state, 0)
        rows = c.context + c.k + 1  # rejected drafts may stand past the end
        shape = (c.layers, c.streams, c.heads, rows, c.head_dim)
        self.keys = torch.zeros(shape, dtype=torch.float16, device=self.device)
        self.values = torch.zeros_like(self.keys)

    def _half(self, array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device, torch.float16)

    def _dense(
        self, arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]
    ) -> Tensors:
        made = {name: self._half(a) for name, a in arrays.items() if name != "bias"}
        return {**made, "bias": torch.from_numpy(arrays["bias"]).to(self.device)}

    def _layer(self, index: int) -> Layer:
        slots = self.config.slots_of[index]
        made = self._weights.experts(index)
        host = {}
        rows = {}
        for name in TENSORS:
            source = torch.from_numpy(made[name])
            host[name] = self._pinned(source)
            shape = (slots, *source.shape[1:])
            rows[name] = torch.zeros(shape, dtype=source.dtype, device=self.device)
        state = torch.zeros((2, self.config.experts), dtype=torch.int32, device=self.device)
        layer = Layer(
            self._dense(self._weights.dense(index)), host, rows, state[0], state[1], slots
        )
        layer.forget()
        return layer

    def _pinned(self, source: torch.Tensor) -> torch.Tensor:
        if self.device.type == "cpu":  # Triton's interpreter
            return source.contiguous()
        pinned = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
        return pinned.copy_(source)
