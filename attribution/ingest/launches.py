"""The launch join: from a device row to the API call that caused it, by process and correlation id.

Correlation ids are unique within a process only, and 0, -1 or NULL mean "unknown": such ids never
join. Several API rows may share an id (a runtime call over its driver call, backtraces): the
earliest owns it, so the join never changes the number of device rows.
"""

from __future__ import annotations

import numpy as np

from lanescope.attribution.ingest.ids import Ints

_PROCESS_SHIFT = 40
_NO_KEY = np.int64(-1)


def keys(process: Ints, correlation: Ints) -> Ints:
    """One integer a (process index, correlation id); -1 where the id means nothing."""
    valid = (correlation > 0) & (correlation < (1 << _PROCESS_SHIFT)) & (process >= 0)
    return np.where(valid, (process << _PROCESS_SHIFT) | correlation, _NO_KEY)


class LaunchIndex:
    """Finds the API row of a (process, correlation id). Rows are numbered in order of start."""

    def __init__(self, process: Ints, correlation: Ints, start: Ints) -> None:
        """One element an API row, already in order of start."""
        key = keys(process, correlation)
        rows = np.flatnonzero(key >= 0)
        order = rows[np.argsort(key[rows], kind="stable")]  # stable: the earliest row comes first
        sorted_keys = key[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = sorted_keys[1:] != sorted_keys[:-1]
        self._keys = sorted_keys[first]
        self._rows = order[first].astype(np.int64)
        self.start = start
        self.shared_ids = int(len(order) - len(self._keys))

    def find(self, process: Ints, correlation: Ints) -> Ints:
        """The API row of each device row, or -1."""
        wanted = keys(process, correlation)
        if len(self._keys) == 0 or len(wanted) == 0:
            return np.full(len(wanted), -1, dtype=np.int64)
        # the kernels of one graph launch follow one another: search once a run of equal keys
        fresh = np.ones(len(wanted), dtype=bool)
        fresh[1:] = wanted[1:] != wanted[:-1]
        runs = wanted[fresh]
        at = np.searchsorted(self._keys, runs)
        at[at == len(self._keys)] = 0
        hit = (self._keys[at] == runs) & (runs >= 0)
        found: Ints = np.where(hit, self._rows[at], -1)
        out: Ints = found[np.cumsum(fresh) - 1]
        return out
