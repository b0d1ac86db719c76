"""Phases, steps, requests and layers from the NVTX rules of a profile: the strongest evidence."""

from __future__ import annotations

import re

import numpy as np

from lanescope.attribution.phases.ranges import Launches, Ranges, innermost
from lanescope.attribution.phases.segments import Assignment, Segment
from lanescope.attribution.rules.profile import Profile, RangeRule

EVIDENCE = "nvtx"


def matches(ranges: Ranges, rules: list[RangeRule]) -> dict[int, tuple[RangeRule, dict[str, str]]]:
    """Name index -> (first rule that matches, named groups), each distinct name looked at once."""
    out: dict[int, tuple[RangeRule, dict[str, str]]] = {}
    compiled = [(rule, re.compile(rule.pattern)) for rule in rules]
    for index in np.unique(ranges.name):
        for rule, pattern in compiled:
            found = pattern.search(ranges.names[int(index)])
            if found:
                out[int(index)] = (rule, {k: v for k, v in found.groupdict().items() if v})
                break
    return out


def assign(
    assignment: Assignment, ranges: Ranges, launches: Launches, profile: Profile
) -> set[tuple[int, str, str]]:
    """Give launches inside phase ranges their segments, in place.

    Returns the (process, phase, part) that ranges with launches in them spoke for.
    """
    rules = [r for r in profile.ranges if r.kind == "phase"]
    found = matches(ranges, rules)
    rows = np.flatnonzero(np.isin(ranges.name, list(found)))
    if len(rows) == 0:
        return set()
    chosen = ranges.take(rows)
    base = len(assignment.segments)
    spoken: set[tuple[int, str, str]] = set()
    for i in range(len(chosen)):
        rule, groups = found[int(chosen.name[i])]
        word = groups.get("phase") or rule.phase or ranges.names[int(chosen.name[i])]
        phase, part = profile.phase_of(word)
        assignment.segments.append(
            Segment(
                process=int(chosen.process[i]),
                phase=phase,
                part=part,
                range_name=word,
                evidence=EVIDENCE,
                start_ns=int(chosen.start_ns[i]),
                end_ns=int(chosen.end_ns[i]),
                fields=groups,
            )
        )
    inside = innermost(chosen, launches.thread, launches.start_ns, launches.end_ns)
    hit = inside >= 0
    assignment.segment[hit] = base + inside[hit]
    for i in np.unique(inside[hit]):
        segment = assignment.segments[base + int(i)]
        spoken.add((segment.process, segment.phase, segment.part))
    return spoken


def requests(assignment: Assignment, ranges: Ranges, profile: Profile) -> bool:
    """Number the request of each segment by the request range around it on its process.

    Returns whether the trace has request ranges at all.
    """
    found = matches(ranges, [r for r in profile.ranges if r.kind == "request"])
    rows = np.flatnonzero(np.isin(ranges.name, list(found)))
    if len(rows) == 0:
        return False
    chosen = ranges.take(rows)
    for p in np.unique(chosen.process):
        of_process = chosen.take(chosen.process == p)
        segments = [s for s in assignment.segments if s.process == p and s.end_ns > 0]
        start = np.array([s.start_ns for s in segments], dtype=np.int64)
        end = np.array([s.end_ns for s in segments], dtype=np.int64)
        # requests may run on any thread of the process: look at time alone
        timeline = Ranges(
            of_process.range,
            of_process.process,
            np.zeros_like(of_process.thread),
            of_process.start_ns,
            of_process.end_ns,
            of_process.name,
            of_process.domain,
            of_process.names,
        )
        at = innermost(timeline, np.zeros(len(start), dtype=np.int64), start, end)
        for seg, index in zip(segments, at.tolist(), strict=True):
            if index >= 0:
                seg.request = int(found[int(of_process.name[index])][1].get("request", index))
    return True


def layer_at(
    ranges: Ranges, profile: Profile, thread: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """The layer of the innermost layer range around each host interval; -1 where there is none."""
    found = matches(ranges, [r for r in profile.ranges if r.kind == "layer"])
    rows = np.flatnonzero(np.isin(ranges.name, list(found)))
    if len(rows) == 0:
        return np.full(len(start), -1, dtype=np.int64)
    chosen = ranges.take(rows)
    names, at = np.unique(chosen.name, return_inverse=True)
    number = np.array([int(found[int(n)][1].get("layer", -1)) for n in names], dtype=np.int64)[at]
    inside = innermost(chosen, thread, start, end)
    return np.where(inside >= 0, number[np.maximum(inside, 0)], -1)
