"""The document of a kernel summary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lanescope._version import __version__
from lanescope.attribution.summary import noticed
from lanescope.attribution.summary import parts as by_counts
from lanescope.attribution.summary.passes import MIN_LAYERS
from lanescope.attribution.summary.reading import DECODE, OUTSIDE, PREFILL, Entry, Reading
from lanescope.attribution.summary.rows import Call
from lanescope.attribution.tables import api_kind, plain_api_name
from lanescope.schemas.documents.attribution import (
    ApiCall,
    AttributionDocument,
    Bucket,
    Coverage,
    IntSpread,
    KernelName,
    KernelSummary,
    LaunchAccount,
    LayerCount,
    PhaseRow,
    Prefill,
    Steps,
    SummaryGroup,
    SummaryRow,
    Trace,
)

KIND = "nsys stats CSV"
_TOP_NAMES, _TOP_PREFILL, _TOP_LAYERS = 5, 12, 6


def document(reading: Reading, path: Path, sha256: str, rules_sha256: str) -> AttributionDocument:
    """Build the document of a summary as read."""
    doc = AttributionDocument(
        lanescope_version=__version__,
        profile=reading.profile.name,
        profile_sha256=rules_sha256,
        trace=Trace(
            path=str(path),
            sha256=sha256,
            kind=f"{KIND}: kernel summary",
            nsys_version="",
            schema_version="",
            gpus=[],
            processes=[],
            start_ns=None,
            end_ns=None,
        ),
        coverage=_coverage(reading),
        phases=_phases(reading),
        steps=_steps(reading),
        buckets=_buckets(reading),
        kernels=_kernels(reading),
        launches=_launches(reading),
        prefill=_prefill(reading),
        ranges=[],
        summary=_summary(reading),
        warnings=[],
        abstained=[],
    )
    doc.warnings = noticed.warnings(reading)
    doc.abstained = noticed.abstentions(reading)
    return doc


def _coverage(reading: Reading) -> Coverage:
    rows = reading.summary.rows
    return Coverage(
        kernels=sum(r.instances for r in rows),
        kernel_sum_ns=sum(r.total_ns for r in rows),
        kernel_busy_ns=None,
        graph_kernels=None,
        eager_kernels=None,
        graph_blocks=0,
        memcpy=None,
        memset=None,
        unattributed=None,
        unattributed_ns=None,
        api_calls=sum(c.calls for c in reading.summary.calls),
    )


def _phases(reading: Reading) -> list[PhaseRow]:
    evidence = "profile" if reading.by_rules else "instance counts"
    passes = reading.passes
    instances = {
        DECODE: reading.divisor or 0,
        PREFILL: (passes.prefill if passes else 0) or 0,
        OUTSIDE: 0,
    }
    out = []
    for phase in (PREFILL, DECODE, OUTSIDE):
        entries = reading.of(phase)
        if entries:
            out.append(
                PhaseRow(
                    process=-1,
                    device=None,
                    phase=phase,  # type: ignore[arg-type]
                    part="",
                    range_name="",
                    evidence=evidence if phase != OUTSIDE else "none",
                    instances=instances[phase],
                    kernels=sum(e.row.instances for e in entries),
                    sum_ns=reading.ns(phase),
                    busy_ns=None,
                )
            )
    return out


def _total(total: int, steps: int) -> IntSpread:
    return IntSpread(total=total, mean=total / steps, p50=None, p95=None, min=None, max=None)


def _steps(reading: Reading) -> Steps | None:
    steps = reading.divisor
    if not steps:
        return None
    basis = {"counts": "instance counts", "given": "given", "profile": "profile"}[reading.basis]
    return Steps(
        count=reading.passes.decode if reading.passes else steps,
        measured=steps,
        warmup=0,
        basis=basis,
        window="every pass in the capture, warm-up included",
        devices=1,
        wall_ms=None,
        period_ms=None,
        gpu_busy_ns=None,
        gpu_sum_ns=_total(reading.ns(DECODE), steps),
        idle_ns=None,
        kernels=_total(sum(e.row.instances for e in reading.of(DECODE)), steps),
    )


def _buckets(reading: Reading) -> list[Bucket]:
    steps, whole = reading.divisor, reading.ns(DECODE)
    if not steps:
        return []
    by_bucket: dict[str, list[Entry]] = {}
    for e in reading.of(DECODE):
        by_bucket.setdefault(e.bucket, []).append(e)
    out = [_bucket(name, entries, steps, whole) for name, entries in by_bucket.items()]
    return sorted(out, key=lambda b: (-b.sum_ns, b.bucket))


def _bucket(name: str, entries: list[Entry], steps: int, whole: int) -> Bucket:
    rows = sorted((e.row for e in entries), key=lambda r: -r.total_ns)
    total = sum(r.total_ns for r in rows)
    longest = [r.max_ns for r in rows]
    return Bucket(
        bucket=name,
        sum_ns=total,
        busy_ns=None,
        exclusive_ns=None,
        sum_ms_per_step=total / steps / 1e6,
        busy_ms_per_step=None,
        exclusive_ms_per_step=None,
        exclusive_p50_ms=None,
        exclusive_p95_ms=None,
        share_of_sum=total / whole if whole else 0.0,
        share_of_wall=None,
        launches_per_step=sum(r.instances for r in rows) / steps,
        # the CSV has a median a row: only of a bucket of one row is it the bucket's
        p50_us=_us(rows[0].med_ns) if len(rows) == 1 else None,
        p95_us=None,
        max_us=_longest(longest),
        under_10us=None,
        top_names=list(dict.fromkeys(r.function for r in rows))[:_TOP_NAMES],
    )


def _us(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e3


def _longest(values: Sequence[int | None]) -> float | None:
    known = [v for v in values if v is not None]
    return max(known) / 1e3 if len(known) == len(values) and known else None


def _kernels(reading: Reading) -> list[KernelName]:
    return _names(reading.of(DECODE), reading.divisor) if reading.divisor else []


def _names(entries: list[Entry], per: int) -> list[KernelName]:
    """One entry a (bucket, function name), the most time first."""
    merged: dict[tuple[str, str], list[Entry]] = {}
    for e in entries:
        merged.setdefault((e.bucket, e.row.function), []).append(e)
    out = [
        KernelName(
            bucket=bucket,
            name=name,
            sum_ns=sum(e.row.total_ns for e in group),
            sum_ms_per_step=sum(e.row.total_ns for e in group) / per / 1e6,
            launches_per_step=sum(e.row.instances for e in group) / per,
            max_us=_longest([e.row.max_ns for e in group]),
        )
        for (bucket, name), group in merged.items()
    ]
    return sorted(out, key=lambda k: (-k.sum_ns, k.name))


def _launches(reading: Reading) -> LaunchAccount | None:
    calls, steps = reading.summary.calls, reading.divisor
    if not calls or not steps:
        return None
    kinds = {c.name: api_kind(c.name) for c in calls}

    def total(kind: str, field: str) -> int:
        return sum(getattr(c, field) for c in calls if kinds[c.name] == kind)

    return LaunchAccount(
        graph_launches_per_step=total("graph launch", "calls") / steps,
        kernels_per_graph_launch=None,
        kernel_launch_calls_per_step=total("kernel launch", "calls") / steps,
        eager_kernels_per_step=None,
        launch_ms_per_step=(total("graph launch", "host_ns") + total("kernel launch", "host_ns"))
        / steps
        / 1e6,
        wait_ms_per_step=total("wait", "host_ns") / steps / 1e6,
        verdict="unknown",
        verdict_evidence="sums over the whole capture, prefill and start-up included",
        api=[_call(c, kinds[c.name], steps) for c in sorted(calls, key=lambda c: -c.host_ns)],
    )


def _call(call: Call, kind: str, steps: int) -> ApiCall:
    return ApiCall(
        name=plain_api_name(call.name),
        kind=kind,
        calls_per_step=call.calls / steps,
        ms_per_step=call.host_ns / steps / 1e6,
    )


def requests_of(reading: Reading) -> int | None:
    """Prefill passes: as given, or by the counts."""
    known = reading.given.requests or reading.profile.summary.requests
    return known or (reading.passes.prefill if reading.passes else None)


def layers_of(reading: Reading) -> int | None:
    """Layers: as given, or by the counts."""
    known = reading.given.layers or reading.profile.summary.layers
    return known or (reading.passes.layers if reading.passes else None)


def _prefill(reading: Reading) -> Prefill | None:
    entries, n = reading.of(PREFILL), requests_of(reading)
    if not entries or not n:
        return None
    layers, total = layers_of(reading), reading.ns(PREFILL)
    return Prefill(
        instances=n,
        sum_ms_per_instance=total / n / 1e6,
        busy_ms_per_instance=None,
        layers=layers,
        ms_per_layer=total / n / layers / 1e6 if layers else None,
        top=_names(entries, n)[:_TOP_PREFILL],
        requests=[],
    )


def _summary(reading: Reading) -> KernelSummary:
    passes, steps = reading.passes, reading.divisor
    mixed = [e for e in reading.entries if e.part.phase == by_counts.BOTH]
    return KernelSummary(
        rows=len(reading.entries),
        passes=passes.together if passes and passes.prefill else None,
        decode_passes=passes.decode if passes else None,
        prefill_passes=passes.prefill if passes else None,
        beside_passes=(passes.beside or None) if passes else None,
        layers=layers_of(reading),
        layer_counts=_layer_counts(reading),
        requests=requests_of(reading),
        divisor=steps,
        divisor_basis=reading.basis,  # type: ignore[arg-type]
        lead_bits=passes.lead_bits if passes else None,
        prefill_ms_per_layer=_bypass(reading),
        both_phases_ns=sum(e.row.total_ns for e in mixed),
        prefill_within_most_ns=noticed.prefill_within(mixed),
        groups=[
            SummaryGroup(group=g, sum_ns=ns, ms_per_step=ns / steps / 1e6)
            for g, ns in reading.groups.items()
            if steps
        ],
        table=[
            SummaryRow(
                name=e.row.name,
                bucket=e.bucket,
                phase=e.part.phase,  # type: ignore[arg-type]
                counted_as=e.counted_as,  # type: ignore[arg-type]
                instances=e.row.instances,
                factors=e.part.how,
                per_pass=e.part.times,
                prefill_instances=e.part.prefill_instances,
                sum_ns=e.row.total_ns,
            )
            for e in sorted(reading.entries, key=lambda e: (-e.row.total_ns, e.row.name))
        ],
    )


def _layer_counts(reading: Reading) -> list[LayerCount]:
    """Launches a pass that several kernels share, in decode and in prefill: numbers of layers."""
    held: dict[int, list[Entry]] = {}
    for e in reading.entries:
        if e.part.times is not None and e.part.times >= MIN_LAYERS and "+" not in e.part.how:
            held.setdefault(e.part.times, []).append(e)
    out = [
        LayerCount(layers=k, kernels=len(es), sum_ns=sum(e.row.total_ns for e in es))
        for k, es in held.items()
        if len(es) >= 2
    ]
    out.sort(key=lambda c: (-c.kernels, -c.sum_ns))
    return out[:_TOP_LAYERS]


def _bypass(reading: Reading) -> float | None:
    """ms of the prefill kernels that ran once a layer and prefill pass, together."""
    layers, n = layers_of(reading), requests_of(reading)
    if not layers or not n:
        return None
    ns = sum(e.row.total_ns for e in reading.of(PREFILL) if e.row.instances == n * layers)
    return ns / (n * layers) / 1e6 if ns else None
