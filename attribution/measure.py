"""Which steps are measured: all but warm-up, or those in a window that the user gives."""

from __future__ import annotations

import re

from lanescope.attribution.phases.ranges import Ranges
from lanescope.attribution.phases.segments import Segment
from lanescope.schemas.errors import UsageError

_TIMES = re.compile(
    r"^(?P<clock>clock:)?(?P<a>\d+(?:\.\d+)?)(?P<ua>ns|us|ms|s)\.\.(?P<b>\d+(?:\.\d+)?)(?P<ub>ns|us|ms|s)$"
)
_STEPS = re.compile(r"^(?:steps?:)?(?P<a>\d+)\.\.(?P<b>\d+)$")
_NAMES = re.compile(r"^(?P<a>.+?)\.\.(?P<b>.+)$")
_UNIT = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def measured(
    segments: list[Segment], window: str, ranges: Ranges, origin_ns: int
) -> tuple[list[bool], str]:
    """One flag a segment, and the window in words.

    `window` is '' (all steps but warm-up), `10..59` (step indices, both included), `1.2s..3.4s`
    (times after the first kernel), `clock:5ms..9ms` (times on the trace's own clock), or
    `NAME..NAME` (from the start of the first range of that name to the end of the last). Raises
    `UsageError` for a window that holds no step.
    """
    if not window:
        warm = sum(s.warmup for s in segments if s.step >= 0)
        words = f"all steps but {warm} of warm-up" if warm else "all steps"
        return [s.step >= 0 and not s.warmup for s in segments], words
    low, high, words, by_index = _bounds(window, ranges, origin_ns)
    if by_index:
        flags = [low <= s.step <= high for s in segments]
    else:
        flags = [s.step >= 0 and low <= s.start_ns and s.end_ns <= high for s in segments]
    flags = [f and s.step >= 0 for f, s in zip(flags, segments, strict=True)]
    if any(s.step >= 0 for s in segments) and not any(flags):
        raise UsageError(f"--window {window} holds no verification step", "widen the window")
    return flags, words


def _bounds(window: str, ranges: Ranges, origin_ns: int) -> tuple[int, int, str, bool]:
    if m := _STEPS.match(window):
        return int(m["a"]), int(m["b"]), f"steps {m['a']} to {m['b']}", True
    if m := _TIMES.match(window):
        zero = 0 if m["clock"] else origin_ns
        a, b = (zero + round(float(m[k]) * _UNIT[m["u" + k]]) for k in "ab")
        words = window if m["clock"] else f"{window} after the first kernel"
        return a, b, words, False
    if m := _NAMES.match(window):
        first = [i for i, n in enumerate(ranges.names) if n == m["a"]]
        last = [i for i, n in enumerate(ranges.names) if n == m["b"]]
        starts = [int(s) for s, n in zip(ranges.start_ns, ranges.name, strict=True) if n in first]
        ends = [int(e) for e, n in zip(ranges.end_ns, ranges.name, strict=True) if n in last]
        for name, found in ((m["a"], starts), (m["b"], ends)):
            if not found:
                raise UsageError(f"--window: no range is called {name!r}", "see the ranges table")
        return min(starts), max(ends), f"{m['a']} to {m['b']}", False
    raise UsageError(f"--window {window}: not understood", "give NAME..NAME, 1.2s..3.4s or 10..59")
