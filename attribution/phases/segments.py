"""Segments: what launches are assigned to.

A segment is one stretch of one process's work with one phase: one prefill, one verification step,
one draft; and one "outside" segment a process for what no evidence claims. Every launch gets
exactly one segment, and through it every kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lanescope.attribution.ingest.ids import Ints

PHASES = ("prefill", "decode", "mixed", "outside")
VERIFY = "verify"


@dataclass
class Segment:
    """One segment. `start_ns`, `end_ns` are host times: of its range, or of its launches."""

    process: int
    phase: str
    part: str = ""
    range_name: str = ""
    evidence: str = ""
    start_ns: int = 0
    end_ns: int = 0
    step: int = -1
    request: int = -1
    warmup: bool = False
    fields: dict[str, str] = field(default_factory=dict)


@dataclass
class Assignment:
    """Segments, and for every launch (row of `Launches`) its segment and its layer (-1: none)."""

    segments: list[Segment]
    segment: Ints
    layer: Ints
    notes: list[str] = field(default_factory=list)

    @classmethod
    def nowhere(cls, processes: int, launches: int, process: Ints) -> Assignment:
        """All launches outside: segment number p is the outside segment of process p."""
        segments = [Segment(p, "outside", evidence="none") for p in range(processes)]
        return cls(segments, process.copy(), np.full(launches, -1, dtype=np.int64))
