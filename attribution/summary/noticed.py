"""What a careful reader notices in a kernel summary, and what cannot be had from one."""

from __future__ import annotations

import re

from lanescope.attribution.rules import profile as profiles
from lanescope.attribution.rules.profile import UNMATCHED
from lanescope.attribution.summary import parts as by_counts
from lanescope.attribution.summary.reading import DECODE, Entry, Reading
from lanescope.attribution.tables import api_kind
from lanescope.schemas.findings import (
    Abstained,
    Abstention,
    Finding,
    SummaryWarning,
    TraceWarning,
)

_UNMATCHED_SHARE = 0.05
#: Prefill that may hide in rows of both phases: above this share of the decode sum buckets abstain.
_HIDDEN_PREFILL_SHARE = 0.05
#: Time under this share of the decode sum is not worth a line.
_TRIFLE = 0.001
_DRAFT_NAMES = re.compile(r"(?i)eagle|medusa|draft|(^|_)mtp(_|$)|multi_token")
_EXPERT_NAMES = re.compile(r"(?i)^bmm_|grouped|moe|expert")
_SEVERAL = re.compile(r"(?i)nccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|nvshmem")
#: Looked for among the rows of `other`, with the rules of the most detailed profile.
_TOLD_BY, _TELLING = "vllm", ("attention", "routed_moe", "dense_gemm", "communication", "sampling")


def warnings(reading: Reading) -> list[Finding]:
    """All findings, the weightiest first."""
    out = _about_passes(reading) + _about_prefill(reading) + _about_both(reading)
    out += _about_names(reading) + _about_draft(reading) + _about_graphs(reading)
    return out + _about_file(reading)


def _ms(ns: float) -> str:
    return f"{ns / 1e6:,.1f} ms"


def _about_passes(reading: Reading) -> list[Finding]:
    passes, steps = reading.passes, reading.divisor
    if passes is None or steps is None:
        return []
    totals: dict[str, int] = {}
    for e in reading.of(DECODE):
        totals[e.bucket] = totals.get(e.bucket, 0) + e.row.total_ns
    if not totals:
        return []
    top = max(totals, key=lambda b: totals[b])
    if steps != passes.decode:
        return [
            SummaryWarning.PASSES.finding(
                f"the capture holds {passes.decode} decode passes, but sums over all of them are "
                f"divided by {steps}: {top} is {totals[top] / passes.decode / 1e6:.2f} ms a step "
                f"by {passes.decode}, not {totals[top] / steps / 1e6:.2f}"
            )
        ]
    return [
        SummaryWarning.WARMUP_INSIDE.finding(
            f"{passes.decode} decode passes are in the capture, and sums are divided by all of "
            f"them ({top}: {totals[top] / passes.decode / 1e6:.2f} ms a step); a summary cannot "
            "tell warm-up steps among them"
        )
    ]


def _about_prefill(reading: Reading) -> list[Finding]:
    passes, out = reading.passes, []
    told = [e for e in reading.entries if e.part.phase == by_counts.PREFILL]
    missed = [e for e in told if e.counted_as == DECODE]
    if passes and reading.by_rules and missed:
        ns = sum(e.row.total_ns for e in missed)
        taken = len([e for e in reading.entries if e.counted_as == "prefill"])
        by_bucket: dict[str, int] = {}
        for e in missed:
            by_bucket[e.bucket] = by_bucket.get(e.bucket, 0) + e.row.total_ns
        top = max(by_bucket, key=lambda b: by_bucket[b])
        per = f", {ns / reading.divisor / 1e6:.2f} ms a step" if reading.divisor else ""
        out.append(
            SummaryWarning.PREFILL_ROWS.finding(
                f"{len(told)} rows have prefill-only counts, the profile's rules take {taken}: "
                f"{_ms(ns)} of prefill are left in decode{per}, {_ms(by_bucket[top])} in {top}"
            )
        )
    if passes and passes.prefill and not reading.by_rules:
        plain = {passes.prefill, passes.prefill * (passes.layers or 1)}
        easy = [e for e in told if e.row.instances in plain]
        hard = [e for e in told if e.row.instances not in plain]
        if hard and easy:
            out.append(
                SummaryWarning.PREFILL_SCATTERED.finding(
                    f"{len(told)} rows have prefill-only counts: {len(easy)} of "
                    f"{' or '.join(f'{n:,}' for n in sorted(plain))} instances hold "
                    f"{_ms(sum(e.row.total_ns for e in easy))}, {len(hard)} of other counts "
                    f"{_ms(sum(e.row.total_ns for e in hard))}; all are out of decode here"
                )
            )
    unclear = [e for e in reading.entries if e.part.phase == by_counts.UNCLEAR]
    if unclear:
        ns = sum(e.row.total_ns for e in unclear)
        first = max(unclear, key=lambda e: e.row.total_ns)
        out.append(
            SummaryWarning.UNCLEAR_ROWS.finding(
                f"{len(unclear)} rows, {_ms(ns)}, fit decode and prefill alike "
                f"({first.row.function}: {first.part.how})"
            )
        )
    return out


def prefill_within(mixed: list[Entry]) -> int | None:
    """The most of the time of rows of both phases that can be prefill [ns].

    By a row's prefill instances and its longest and shortest duration; all of a row's time where
    its count does not tell how many are prefill's. None where there are no such rows.
    """
    if not mixed:
        return None
    most = 0
    for e in mixed:
        row, m = e.row, e.part.prefill_instances
        bound = row.total_ns
        if m is not None:
            if row.max_ns is not None:
                bound = min(bound, m * row.max_ns)
            if row.min_ns is not None:
                bound = min(bound, row.total_ns - (row.instances - m) * row.min_ns)
        most += max(0, bound)
    return most


def _about_both(reading: Reading) -> list[Finding]:
    mixed = [e for e in reading.entries if e.part.phase == by_counts.BOTH]
    if not mixed or reading.passes is None or not reading.passes.prefill:
        return []
    ns = sum(e.row.total_ns for e in mixed)
    together = reading.passes.together
    whole = sum(1 for e in mixed if e.row.instances % together == 0)
    first = max(mixed, key=lambda e: e.row.total_ns)
    return [
        SummaryWarning.BOTH_PHASES.finding(
            f"{len(mixed)} rows, {_ms(ns)}, ran in decode and in prefill ({whole} of them a "
            f"multiple of {together} times) and stay in decode whole; at most "
            f"{_ms(prefill_within(mixed) or 0)} of them is prefill; the largest is "
            f"{first.row.function} ({first.part.how})"
        )
    ]


def _about_names(reading: Reading) -> list[Finding]:
    """Rows of `other` that the rules of another profile know."""
    decode = reading.ns(DECODE)
    rows = [e for e in reading.of(DECODE) if e.bucket == UNMATCHED]
    other = sum(e.row.total_ns for e in rows)
    if not decode or not rows or not reading.divisor:
        return []
    out = []
    told: dict[str, list[Entry]] = {}
    judge = profiles.load(_TOLD_BY)
    for e in rows:
        told.setdefault(judge.bucket_of(e.row.function), []).append(e)
    for bucket in _TELLING:
        hidden = told.get(bucket, [])
        ns = sum(e.row.total_ns for e in hidden)
        if ns > _TRIFLE * decode and bucket not in {e.bucket for e in reading.entries}:
            out.append(_hidden(bucket, hidden, ns, reading.divisor))
    if other > _UNMATCHED_SHARE * decode:
        names = dict.fromkeys(e.row.function for e in sorted(rows, key=lambda e: -e.row.total_ns))
        out.append(
            TraceWarning.UNMATCHED_TIME.finding(
                f"{other / decode:.1%} of the decode GPU sum matches no rule; most of it in "
                + ", ".join(list(names)[:3])
            )
        )
    return out


def _hidden(bucket: str, hidden: list[Entry], ns: int, steps: int) -> Finding:
    hidden = sorted(hidden, key=lambda e: -e.row.total_ns)
    shown = ", ".join(
        f"{e.row.function[:40]} {e.row.total_ns / steps / 1e6:.2f} ms a step" for e in hidden[:3]
    )
    return SummaryWarning.HIDDEN_NAMES.finding(
        f"{len(hidden)} rows under 'other' look like {bucket.replace('_', ' ')}, "
        f"{ns / steps / 1e6:.2f} ms a step together: {shown}"
    )


def draft_rows(reading: Reading) -> list[Entry]:
    """Kernels that draft: by name, or expert kernels of one a pass where layers have many."""
    passes = reading.passes
    if passes is None:
        return []
    return [e for e in reading.of(DECODE) if _drafts(e, bool(passes.layers))]


def _drafts(e: Entry, layered: bool) -> bool:
    if _DRAFT_NAMES.search(e.row.function):
        return True
    few = e.part.times is not None and e.part.times <= 3
    expert = _EXPERT_NAMES.search(e.row.function) is not None
    return layered and few and expert and e.part.phase == by_counts.DECODE


def _about_draft(reading: Reading) -> list[Finding]:
    rows = sorted(draft_rows(reading), key=lambda e: -e.row.total_ns)
    if not rows:
        return []
    ns = sum(e.row.total_ns for e in rows)
    buckets = ", ".join(sorted({e.bucket for e in rows}))
    experts = [e for e in rows if _EXPERT_NAMES.search(e.row.function)]
    words = ""
    if experts:
        counts = ", ".join(sorted({f"{e.row.instances:,}" for e in experts}))
        words = (
            f", {_ms(sum(e.row.total_ns for e in experts))} of it expert kernels that ran once a "
            f"pass and not once a layer ({counts} instances)"
        )
    return [
        SummaryWarning.DRAFT.finding(
            f"{len(rows)} rows, {_ms(ns)}, look like the draft's{words}; they are under {buckets}"
        )
    ]


def _about_graphs(reading: Reading) -> list[Finding]:
    passes, steps = reading.passes, reading.divisor
    launches = sum(c.calls for c in reading.summary.calls if api_kind(c.name) == "graph launch")
    if not launches or passes is None or steps is None:
        return []
    if steps == passes.decode and launches % passes.decode == 0:
        return []
    exact = "exactly " if launches % passes.decode == 0 else ""
    return [
        SummaryWarning.GRAPH_LAUNCHES.finding(
            f"{launches:,} graph launches are {exact}{launches / passes.decode:.2f} for each of "
            f"{passes.decode} decode passes"
            + (f", not {launches / steps:.2f}" if steps != passes.decode else "")
        )
    ]


def _about_file(reading: Reading) -> list[Finding]:
    s, out = reading.summary, []
    broken = s.broken_rows + s.broken_calls
    if broken:
        out.append(TraceWarning.BAD_CELLS.finding(f"{broken:,} rows of the CSV cannot be read"))
    if s.disagreeing:
        out.append(
            SummaryWarning.TOTALS.finding(
                f"in {len(s.disagreeing)} rows instances x average is not the total, first in "
                f"{s.disagreeing[0][:60]}"
            )
        )
    if s.rounded:
        out.append(SummaryWarning.ROUNDED.finding("the totals are rounded to the unit printed"))
    if any(_SEVERAL.search(r.function) for r in s.rows):
        out.append(
            SummaryWarning.SEVERAL_GPUS.finding("kernels that talk between GPUs are among the rows")
        )
    return out


_TIMELINE = "a kernel summary has no timeline"
_RECORD = "give the trace itself, or a cuda_gpu_trace CSV"


def abstentions(reading: Reading) -> list[Abstention]:
    """Everything that counts and sums cannot give."""
    out = [
        a.because(_TIMELINE, _RECORD)
        for a in (
            Abstained.WALL,
            Abstained.BUSY,
            Abstained.EXCLUSIVE,
            Abstained.IDLE,
            Abstained.SPREAD,
            Abstained.DURATIONS,
            Abstained.PERIOD,
            Abstained.HOST_WAIT,
        )
    ]
    out.append(Abstained.RANGES.because("a kernel summary has no ranges", "give the trace itself"))
    out.append(Abstained.GPU.because("a kernel summary names no GPU", "give the trace itself"))
    if not reading.summary.calls:
        out.append(
            Abstained.LAUNCHES.because(
                "a kernel summary has no API calls", "add --api with a cuda_api_sum CSV"
            )
        )
    return out + _untold(reading)


def _untold(reading: Reading) -> list[Abstention]:
    out, passes = [], reading.passes
    if reading.divisor is None:
        out.append(Abstained.STEPS.because(reading.why, "give --steps and --requests"))
        out.append(Abstained.BUCKETS.because("no steps", "give --steps and --requests"))
    elif passes is None and not reading.by_rules:
        out.append(
            Abstained.BUCKETS.because(
                f"phases are not told: {reading.why}", "give --requests, or rules in a profile"
            )
        )
    elif (why := _uncertain(reading)) and not reading.by_rules:
        out.append(Abstained.BUCKETS.because(why, SummaryWarning.BOTH_PHASES.advice))
    if not reading.of("prefill"):
        why = passes.why_no_prefill if passes else reading.why
        out.append(
            Abstained.PREFILL.because(why or "no row has a prefill-only count", "give --requests")
        )
    known = reading.given.layers or reading.profile.summary.layers
    if not known and (passes is None or passes.layers is None):
        why = passes.why_no_layers if passes else reading.why
        out.append(Abstained.LAYERS.because(why, "give --layers"))
    return out


def _uncertain(reading: Reading) -> str:
    """Why buckets hold too much that may be prefill; '' where they do not."""
    decode = reading.ns(DECODE)
    mixed = [e for e in reading.entries if e.part.phase == by_counts.BOTH]
    within = prefill_within(mixed) or 0
    unclear = sum(e.row.total_ns for e in reading.entries if e.part.phase == by_counts.UNCLEAR)
    if reading.passes is None or not reading.passes.prefill or not decode:
        return ""
    if within + unclear <= _HIDDEN_PREFILL_SHARE * decode:
        return ""
    return f"up to {(within + unclear) / decode:.1%} of the decode sum may be prefill's"
