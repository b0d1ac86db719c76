"""A summary as read: rows with phase and bucket, and what the sums are divided by."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lanescope.attribution.rules.profile import UNMATCHED, BucketRule, Profile
from lanescope.attribution.summary import parts as by_counts
from lanescope.attribution.summary.parts import Part
from lanescope.attribution.summary.passes import Passes, Unclear, infer
from lanescope.attribution.summary.rows import Row, Summary, counts_by_name

DECODE, PREFILL, OUTSIDE = "decode", "prefill", "outside"


@dataclass(frozen=True)
class Given:
    """What the caller knows: decode steps, layers and requests (prefill passes); None if not."""

    steps: int | None = None
    layers: int | None = None
    requests: int | None = None


@dataclass(frozen=True)
class Entry:
    """A row, what its count says, where its time is counted, and its bucket."""

    part: Part
    counted_as: str
    bucket: str

    @property
    def row(self) -> Row:
        """The row itself."""
        return self.part.row


@dataclass
class Reading:
    """Everything the result is made from."""

    summary: Summary
    profile: Profile
    entries: list[Entry]
    passes: Passes | None
    why: str
    divisor: int | None
    basis: str  # counts, given, profile, none
    given: Given
    by_rules: bool  # whether the profile's rules say what is prefill
    groups: dict[str, int] = field(default_factory=dict)

    def of(self, counted_as: str) -> list[Entry]:
        """The entries whose time is counted in one phase."""
        return [e for e in self.entries if e.counted_as == counted_as]

    def ns(self, counted_as: str) -> int:
        """Their summed time [ns]."""
        return sum(e.row.total_ns for e in self.of(counted_as))


def read(summary: Summary, profile: Profile, given: Given) -> Reading:
    """Tell phases by the counts, or by the profile's rules where it has some."""
    rules = profile.summary
    known = Given(
        given.steps or rules.steps, given.layers or rules.layers, given.requests or rules.requests
    )
    passes, why = _passes(summary.rows, known)
    steps, basis = known.steps, "given" if given.steps else "profile"
    if steps is None:
        steps, basis = (passes.decode, "counts") if passes else (None, "none")
    told = by_counts.parts(summary.rows, passes) if passes else _untold(summary.rows)
    entries = [_entry(p, profile, known_phases=passes is not None) for p in told]
    out = Reading(
        summary, profile, entries, passes, why, steps, basis, given, by_rules=bool(rules.prefill)
    )
    out.groups = _groups(out)
    return out


def _passes(rows: list[Row], known: Given) -> tuple[Passes | None, str]:
    """By the counts; what is given helps only where they do not speak for themselves."""
    counts = [r.instances for r in rows]
    found = infer(counts, known.requests, known.layers)
    if isinstance(found, Unclear):  # a report by grid splits counts that belong together
        found = infer(counts_by_name(rows), known.requests, known.layers)
    if isinstance(found, Unclear) and (known.requests or known.layers):
        found = infer(counts)
    if isinstance(found, Unclear) and known.steps:
        found = infer(counts, known.requests, known.layers, known.steps)
    return (None, found.why) if isinstance(found, Unclear) else (found, "")


def _untold(rows: list[Row]) -> list[Part]:
    return [Part(r, by_counts.OTHER, str(r.instances)) for r in rows]


def _entry(part: Part, profile: Profile, known_phases: bool) -> Entry:
    counted = {by_counts.PREFILL: PREFILL, by_counts.OTHER: OUTSIDE}.get(part.phase, DECODE)
    if profile.summary.prefill:
        by_rule = any(_matches(r, part.row, profile) for r in profile.summary.prefill)
        counted = PREFILL if by_rule else DECODE
    elif not known_phases:
        counted = OUTSIDE
    return Entry(part, counted, bucket_of(part.row, profile))


def bucket_of(row: Row, profile: Profile) -> str:
    """The bucket of a row, by its function name or, where the profile says so, its whole name."""
    for rule in profile.buckets:
        if _matches(rule, row, profile):
            return rule.bucket
    return UNMATCHED


def _matches(rule: BucketRule, row: Row, profile: Profile) -> bool:
    if rule.instances is not None and rule.instances != row.instances:
        return False
    name = row.name.lower() if profile.summary.whole_names else row.function
    return re.search(rule.pattern, name) is not None


def _groups(reading: Reading) -> dict[str, int]:
    out: dict[str, int] = {}
    for rule in reading.profile.summary.groups:
        rows = (e.row for e in reading.of(DECODE))
        ns = sum(r.total_ns for r in rows if _matches(rule, r, reading.profile))
        out[rule.bucket] = out.get(rule.bucket, 0) + ns
    return out
