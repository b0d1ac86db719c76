"""NVTX ranges on the calling thread, where the `nvtx` package or PyTorch has them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def _marker() -> tuple[Callable[[str], object], Callable[[], object]] | None:
    try:
        nvtx = importlib.import_module("nvtx")
    except ImportError:
        torch = sys.modules.get("torch")  # a NumPy engine does not load it for this
        if torch is None or not torch.cuda.is_available():
            return None
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    return nvtx.push_range, nvtx.pop_range


class Ranges:
    """Opens ranges named as the lane's `nvtx` option says.

    `plain`: `spec_verify`, `draft`, `prefill`, `layer_N`. `fields`: the three phases carry their
    values and are unique, as in the field. `none`: no range at all.
    """

    def __init__(self, style: str, k: int) -> None:
        self._style = style
        self._k = k
        self._sequence = 0
        self._marker = None if style == "none" else _marker()

    def _name(self, phase: str, step: int, graph: bool) -> str:
        if self._style != "fields":
            return phase
        self._sequence += 1
        return (
            f"slotcache:lab:gen:1:seq:{self._sequence}:step:{step}:boundary:step_complete"
            f":phase:{phase}:flags:{phase}:graph:{'FULL' if graph else 'NONE'}:k:K{self._k}"
        )

    @contextmanager
    def phase(self, phase: str, step: int, graph: bool = False) -> Iterator[None]:
        """A range around a phase of pass `step`."""
        with self._range(self._name(phase, step, graph)):
            yield

    @contextmanager
    def layer(self, layer: int) -> Iterator[None]:
        """A range around one layer, in eager passes and at graph capture."""
        with self._range(f"layer_{layer}"):
            yield

    @contextmanager
    def _range(self, name: str) -> Iterator[None]:
        if self._marker is None:
            yield
            return
        push, pop = self._marker
        push(name)
        try:
            yield
        finally:
            pop()
