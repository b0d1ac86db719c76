"""Compiled loops. A replay walks through tens of millions of requests one by one: NumPy cannot
(each step depends on the one before), plain Python takes minutes.

Where numba is not installed the same functions run as plain Python: the same answers, slowly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
A = TypeVar("A")
B = TypeVar("B")

try:
    import numba
except ImportError:  # no wheel for this Python yet
    COMPILED = False
else:
    COMPILED = True


def jit(function: F) -> F:
    """`function`, compiled at its first call; the machine code is kept in a cache folder."""
    if not COMPILED:
        return function
    return cast(F, numba.njit(cache=True, nogil=True)(function))


def each(function: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """`function` of every item, in their order, on the processors this process may use.

    Threads, not processes: compiled loops let go of the interpreter lock, and share the trace.
    """
    workers = len(os.sched_getaffinity(0)) if COMPILED else 1
    if workers == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))


@jit
def uniform(state: NDArray[np.uint64]) -> float:
    """The next number in [0, 1) of an xorshift generator whose state is `state[0]`."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.float64(x >> np.uint64(11)) / 9007199254740992.0
