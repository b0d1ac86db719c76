"""CUDA graphs: record a function's launches once, `replay()` them with one call."""

from __future__ import annotations

from collections.abc import Callable

import torch


def recorded(work: Callable[[], None], stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    """`work`'s launches as a graph. Its kernels must have run before: nothing compiles in here.

    NVTX ranges that `work` opens exist at this moment only.
    """
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        work()
    torch.cuda.synchronize()
    return graph
