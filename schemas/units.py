"""Units and their one way of being written. Times are integer nanoseconds until the last moment.

Decimal units throughout: 1 GB/s = 1e9 bytes per second = 1 byte per nanosecond. Binary sizes are
written MiB / GiB.
"""

from __future__ import annotations

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


def ns_to_ms(ns: float) -> float:
    """Nanoseconds to milliseconds."""
    return ns / NS_PER_MS


def ns_to_us(ns: float) -> float:
    """Nanoseconds to microseconds."""
    return ns / NS_PER_US


def gb_per_s(nbytes: float, ns: float) -> float:
    """Decimal GB/s: one byte per nanosecond is 1 GB/s."""
    return nbytes / ns


def significant(value: float, digits: int = 4) -> str:
    """`value` with about `digits` significant figures, thousands separated, never in e-notation."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    whole = len(str(int(magnitude))) if magnitude >= 1 else 0
    decimals = max(0, digits - whole)
    if whole == 0:  # 0.00123 keeps its leading figures, within reason
        shifted = magnitude
        while shifted < 0.1 and decimals < digits + 4:
            shifted *= 10
            decimals += 1
    return f"{value:,.{decimals}f}"


def duration(ns: float) -> str:
    """A duration in the unit that reads best: `35.1 us`, `6.012 ms`, `8.22 s`."""
    for scale, unit in ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "us")):
        if abs(ns) >= scale:
            return f"{significant(ns / scale)} {unit}"
    return f"{significant(ns, 3)} ns"


def size(nbytes: float) -> str:
    """A size in binary units: `12 MiB`, `250.7 GiB`."""
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(nbytes) >= scale:
            return f"{significant(nbytes / scale).rstrip('0').rstrip('.')} {unit}"
    return f"{nbytes:.0f} B"
