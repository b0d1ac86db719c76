"""How the process handles memory; to be called before NumPy and Arrow are imported.

Attribution works through pieces of a few megabytes. By default glibc gives every freed piece back
to the kernel, which clears it anew for the next one: on a large trace that was an eighth of all
time. Freed memory is kept for the next piece instead; the peak is the same.
"""

from __future__ import annotations

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
#: So much freed memory is kept; larger blocks are given back one by one.
_KEEP, _LARGE = 128 << 20, 64 << 20


def keep_freed_memory() -> None:
    """Keep freed memory in the process, with one allocator for all libraries."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # the matrices here are small: a second thread would only spin beside them
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return
    mallopt(_TRIM_THRESHOLD, _KEEP)
    mallopt(_MMAP_THRESHOLD, _LARGE)
