"""Picks the device and puts an engine together."""

from __future__ import annotations

import importlib
from pathlib import Path

from lanescope.captures.lab.backend import Backend
from lanescope.captures.lab.config import LabConfig
from lanescope.captures.lab.cpu import CpuBackend
from lanescope.captures.lab.engine import Engine
from lanescope.captures.lab.truthlog import TruthLog
from lanescope.schemas.errors import UsageError

#: above this a NumPy engine is no use to anyone
CPU_LIMIT = 2 * 2**30


def cuda_available() -> bool:
    """Whether PyTorch is installed and sees a GPU."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def make_backend(config: LabConfig, device: str = "auto") -> Backend:
    """The backend on `cpu`, `cuda` or, with `auto`, on the GPU where there is one.

    Raises UsageError where the device is not there or the engine does not fit it.
    """
    if device == "auto":
        device = "cuda" if cuda_available() else "cpu"
    if device == "cuda":
        if not cuda_available():
            raise UsageError("no GPU that PyTorch can use", "--device cpu, or install PyTorch")
        # by name, because the module imports PyTorch
        module = importlib.import_module("lanescope.captures.lab.cuda.model")
        backend: Backend = module.CudaBackend(config)
        return backend
    if config.host_bytes > CPU_LIMIT:
        raise UsageError(
            f"preset {config.preset} has {config.host_bytes / 2**30:.1f} GiB of experts, too much "
            "for the CPU",
            "--preset tiny",
        )
    return CpuBackend(config)


def make_engine(
    config: LabConfig,
    device: str = "auto",
    truth: Path | None = None,
    routing: bool = True,
    stats_every_s: float = 20.0,
) -> Engine:
    """A started engine; with `truth` it writes its record into that new folder."""
    backend = make_backend(config, device)
    record = TruthLog(truth, config, backend.facts(), routing) if truth else None
    engine = Engine(config, backend, record, stats_every_s)
    engine.start()
    return engine
