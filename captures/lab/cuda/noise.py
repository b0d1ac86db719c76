"""Other traffic on the host link, and what a plain copy over it reaches."""

from __future__ import annotations

import numpy as np
import torch

from lanescope.captures.lab.config import LabConfig

_PIECE = 8 * 2**20  # bytes of one disturbing copy
_PROBE = 256 * 2**20


class Noise:
    """Host-to-device copies on a stream of their own beside some of the steps.

    Which steps are noisy follows from seed and step alone.
    """

    def __init__(self, config: LabConfig, device: torch.device) -> None:
        self._config = config
        self._pieces = max(1, config.noise_mib * 2**20 // _PIECE) if config.noise_mib else 0
        self._on = bool(self._pieces) and device.type == "cuda"
        if self._on:
            self._stream = torch.cuda.Stream()
            self._host = torch.zeros(_PIECE, dtype=torch.uint8, pin_memory=True)
            self._device = torch.zeros(_PIECE, dtype=torch.uint8, device=device)

    def wanted(self, step: int) -> bool:
        """Whether this step is a noisy one."""
        if not self._on:
            return False
        rng = np.random.Generator(np.random.PCG64([self._config.seed, 77, step]))
        return bool(rng.random() < self._config.noise_share)

    def begin(self) -> None:
        """Start the copies; they run beside whatever the current stream does next."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(self._pieces):
                self._device.copy_(self._host, non_blocking=True)


def copy_bandwidth() -> float:
    """Decimal GB/s of a plain pinned host-to-device copy: the best of five of 256 MiB."""
    host = torch.zeros(_PROBE, dtype=torch.uint8, pin_memory=True)
    device = torch.zeros(_PROBE, dtype=torch.uint8, device="cuda")
    best = 0.0
    for _ in range(5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        device.copy_(host, non_blocking=True)
        end.record()
        end.synchronize()
        best = max(best, _PROBE / (begin.elapsed_time(end) * 1e6))
    return best
