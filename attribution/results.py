"""The typed document, read from the tables of an analysis."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lanescope._version import __version__
from lanescope.attribution import host as host_side
from lanescope.attribution import notices
from lanescope.attribution.attribute import GRAPH_BLOCKS, Analysis, measured_array
from lanescope.attribution.frames import steps_table
from lanescope.attribution.ingest import encoding
from lanescope.attribution.ingest.ids import Ints
from lanescope.attribution.phases.ranges import held
from lanescope.attribution.rules.profile import profile_hash
from lanescope.schemas.documents.attribution import (
    ApiCall,
    AttributionDocument,
    Bucket,
    Coverage,
    Gpu,
    IntSpread,
    KernelName,
    LaunchAccount,
    PhaseRow,
    Prefill,
    PrefillRequest,
    ProcessRow,
    RangeRow,
    Spread,
    Steps,
    Trace,
)

_TOP_NAMES = 5
_MOST_RANGES = 100


def document(analysis: Analysis) -> AttributionDocument:
    """Build the document of an analysis."""
    rows = steps_table(analysis)
    measured = rows.filter(rows["measured"])
    steps = _steps(analysis, rows, measured)
    doc = AttributionDocument(
        lanescope_version=__version__,
        profile=analysis.profile.name,
        profile_sha256=profile_hash(analysis.profile),
        trace=_trace(analysis, rows),
        coverage=_coverage(analysis),
        phases=_phases(analysis),
        steps=steps,
        buckets=_buckets(analysis, measured) if steps else [],
        kernels=_kernels(analysis, measured.num_rows) if steps else [],
        launches=_launches(analysis, measured, steps) if steps else None,
        prefill=_prefill(analysis),
        ranges=_ranges(analysis),
        warnings=[],
        abstained=[],
    )
    doc.warnings, doc.abstained = notices.notices(analysis, doc)
    return doc


# -- trace and coverage --------------------------------------------------------------------


def _trace(analysis: Analysis, steps: pa.Table) -> Trace:
    info = analysis.staged.info
    span = analysis.rows("SELECT min(start_ns) AS a, max(end_ns) AS b FROM facts")[0]
    devices = analysis.rows(
        "SELECT DISTINCT process, device FROM facts JOIN segments USING (segment) ORDER BY ALL"
    )
    counts = Counter(process for process, _ in _distinct_steps(steps))
    return Trace(
        path=str(analysis.staged.source.path),
        sha256=info.sha256,
        kind=info.kind,
        nsys_version=info.nsys_version,
        schema_version=info.schema_version,
        options=info.options,
        gpus=[
            Gpu(
                gpu=g["gpu"] if g["gpu"] is not None else i,
                name=g.get("name") or "",
                uuid=g.get("uuid") or "",
                memory_bytes=g.get("memory_bytes"),
                sm_count=g.get("sm_count"),
            )
            for i, g in enumerate(info.gpus)
        ],
        processes=[
            ProcessRow(
                process=p["pid"],
                name=p["name"],
                devices=[d["device"] for d in devices if d["process"] == p["process"]],
                steps=counts[p["pid"]],
            )
            for p in info.processes
        ],
        start_ns=span["a"],
        end_ns=span["b"],
    )


def _coverage(analysis: Analysis) -> Coverage:
    info = analysis.staged.info
    row = analysis.rows(
        """
        SELECT coalesce(sum(kernels), 0)::BIGINT AS kernels,
            coalesce(sum(kernel_sum_ns), 0)::BIGINT AS kernel_sum_ns,
            coalesce(sum(kernels) FILTER (replayed), 0)::BIGINT AS graph_kernels,
            coalesce(sum(blocks), 0)::BIGINT AS graph_blocks,
            coalesce(sum(unlaunched), 0)::BIGINT AS unattributed,
            coalesce(sum(unlaunched_ns), 0)::BIGINT AS unattributed_ns
        FROM facts
        """
    )[0]
    alone = analysis.rows("SELECT coalesce(sum(alone_ns), 0)::BIGINT AS ns FROM facts")[0]["ns"]
    shared = analysis.rows("SELECT coalesce(sum(device_gain_ns), 0)::BIGINT AS ns FROM gains")
    return Coverage(
        **row,
        eager_kernels=row["kernels"] - row["graph_kernels"],
        kernel_busy_ns=alone + shared[0]["ns"],
        excluded=info.excluded,
        api_calls=info.rows.get("api", 0),
        memcpy=None if "memcpy" in info.absent else info.rows.get("memcpy", 0),
        memset=None if "memset" in info.absent else info.rows.get("memset", 0),
    )


def _phases(analysis: Analysis) -> list[PhaseRow]:
    pids = {p["process"]: p["pid"] for p in analysis.staged.info.processes}
    return [
        PhaseRow(
            process=pids.get(r["process"], -1),
            device=r["device"],
            phase=r["phase"],
            part=r["part"],
            range_name=r["range_name"],
            evidence=r["evidence"],
            instances=r["instances"],
            kernels=r["kernels"],
            graph_blocks=r["graph_blocks"],
            sum_ns=r["sum_ns"],
            busy_ns=r["busy_ns"],
        )
        for r in analysis.rows("SELECT * FROM phases_table")
    ]


# -- steps and buckets -----------------------------------------------------------------------


def nearest_rank(ordered: Ints, share: float) -> int:
    """The smallest of some ordered values that at least `share` of them do not exceed."""
    return int(ordered[max(0, math.ceil(share * len(ordered)) - 1)])


def ms_spread(values: Sequence[int] | Ints) -> Spread:
    """Nanoseconds as a spread in milliseconds."""
    ordered = np.sort(np.asarray(values, dtype=np.int64))
    return Spread(
        mean=int(ordered.sum()) / len(ordered) / 1e6,
        p50=nearest_rank(ordered, 0.50) / 1e6,
        p95=nearest_rank(ordered, 0.95) / 1e6,
        min=int(ordered[0]) / 1e6,
        max=int(ordered[-1]) / 1e6,
    )


def int_spread(values: Sequence[int] | Ints) -> IntSpread:
    """Integers as a spread; the mean alone has decimals."""
    ordered = np.sort(np.asarray(values, dtype=np.int64))
    return IntSpread(
        total=int(ordered.sum()),
        mean=int(ordered.sum()) / len(ordered),
        p50=nearest_rank(ordered, 0.50),
        p95=nearest_rank(ordered, 0.95),
        min=int(ordered[0]),
        max=int(ordered[-1]),
    )


def _distinct_steps(rows: pa.Table) -> list[tuple[int, int]]:
    """The (process, step) of some rows of the table of steps, each once."""
    pairs = np.unique(
        np.stack([encoding.ints(rows, "process"), encoding.ints(rows, "step")]), axis=1
    )
    return list(zip(*pairs.tolist(), strict=True))


def _steps(analysis: Analysis, rows: pa.Table, measured: pa.Table) -> Steps | None:
    if not measured.num_rows:
        return None
    periods = measured["period_ns"].drop_null().to_numpy()
    ints = {
        name: int_spread(encoding.ints(measured, name))
        for name in ("gpu_busy_ns", "gpu_sum_ns", "idle_ns", "kernels")
    }
    return Steps(
        count=len(_distinct_steps(rows)),
        measured=len(_distinct_steps(measured)),
        warmup=len(_distinct_steps(rows.filter(rows["warmup"]))),
        basis=", ".join(sorted(rows["evidence"].unique().to_pylist())),
        window=analysis.window,
        devices=len(measured["device"].unique()),
        wall_ms=ms_spread(encoding.ints(measured, "wall_ns")),
        period_ms=ms_spread(periods) if len(periods) else None,
        **ints,
    )


def _buckets(analysis: Analysis, measured: pa.Table) -> list[Bucket]:
    n, wall = measured.num_rows, int(encoding.ints(measured, "wall_ns").sum())
    rows = analysis.rows("SELECT * FROM buckets_table")
    whole = sum(r["sum_ns"] for r in rows) or 1
    exclusive = _exclusive(analysis)
    names: dict[str, list[str]] = {}
    for r in analysis.rows("SELECT bucket, name FROM names_table ORDER BY sum_ns DESC, name"):
        names.setdefault(r["bucket"], []).append(r["name"])
    out = []
    for r in rows:
        some = exclusive[r["bucket"]]
        # steps without this bucket
        per_step = np.sort(np.append(some, np.zeros(n - len(some), dtype=np.int64)))
        out.append(
            Bucket(
                bucket=r["bucket"],
                sum_ns=r["sum_ns"],
                busy_ns=r["busy_ns"],
                exclusive_ns=r["exclusive_ns"],
                sum_ms_per_step=r["sum_ns"] / n / 1e6,
                busy_ms_per_step=r["busy_ns"] / n / 1e6,
                exclusive_ms_per_step=r["exclusive_ns"] / n / 1e6,
                exclusive_p50_ms=nearest_rank(per_step, 0.50) / 1e6,
                exclusive_p95_ms=nearest_rank(per_step, 0.95) / 1e6,
                share_of_sum=r["sum_ns"] / whole,
                share_of_wall=r["exclusive_ns"] / wall if wall else 0.0,
                launches_per_step=r["launches"] / n,
                p50_us=r["p50_ns"] / 1e3 if r["p50_ns"] is not None else None,
                p95_us=r["p95_ns"] / 1e3 if r["p95_ns"] is not None else None,
                max_us=r["max_ns"] / 1e3 if r["bucket"] != GRAPH_BLOCKS else None,
                under_10us=r["under_10us"] / r["launches"] if r["launches"] else None,
                top_names=names.get(r["bucket"], [])[:_TOP_NAMES],
            )
        )
    return out


def _exclusive(analysis: Analysis) -> dict[str, Ints]:
    """Exclusive time of every measured step that has the bucket, by bucket [ns]."""
    table = analysis.con.sql(
        "SELECT bucket, exclusive_ns FROM step_buckets WHERE measured"
    ).to_arrow_table()
    bucket = table["bucket"].combine_chunks().dictionary_encode()
    place, ns = bucket.indices.to_numpy(), encoding.ints(table, "exclusive_ns")
    order = np.argsort(place, kind="stable")
    sizes = np.bincount(place, minlength=len(bucket.dictionary))
    parts = np.split(ns[order], np.cumsum(sizes)[:-1])
    return dict(zip(bucket.dictionary.to_pylist(), parts, strict=True))


def _kernels(analysis: Analysis, n: int) -> list[KernelName]:
    return [
        KernelName(
            bucket=r["bucket"],
            name=r["name"],
            sum_ns=r["sum_ns"],
            sum_ms_per_step=r["sum_ns"] / n / 1e6,
            launches_per_step=r["launches"] / n,
            max_us=r["max_ns"] / 1e3,
        )
        for r in analysis.rows("SELECT * FROM names_table WHERE launches > 0")
    ]


# -- host --------------------------------------------------------------------------------------


def _launches(analysis: Analysis, measured: pa.Table, steps: Steps | None) -> LaunchAccount | None:
    if analysis.staged.info.rows.get("api", 0) == 0 or steps is None:
        return None
    flags = measured_array(analysis)
    host, n = analysis.steps, int(flags.sum())
    if n == 0:
        return None
    graph_launches = int(host.graph_launches[flags].sum())
    replayed = int(encoding.ints(measured, "replayed").sum())
    kernels = steps.kernels.total
    cycle = _cycle_shares(analysis, measured)
    verdict, words = ("unknown", "no two steps run straight into one another")
    if cycle is not None:
        verdict, words = host_side.verdict(*cycle)
    return LaunchAccount(
        graph_launches_per_step=graph_launches / n,
        kernels_per_graph_launch=replayed / graph_launches if graph_launches else None,
        kernel_launch_calls_per_step=int(host.kernel_launches[flags].sum()) / n,
        eager_kernels_per_step=(kernels - replayed) / n,
        launch_ms_per_step=int(host.launch_ns[flags].sum()) / n / 1e6,
        wait_ms_per_step=int(host.wait_ns[flags].sum()) / n / 1e6,
        verdict=verdict,  # type: ignore[arg-type]
        verdict_evidence=words,
        api=[
            ApiCall(name=name, kind=kind, calls_per_step=c / n, ms_per_step=t / n / 1e6)
            for name, kind, c, t in host_side.api_by_name(analysis.host, host, flags)
        ],
    )


def _cycle_shares(
    analysis: Analysis, measured: pa.Table
) -> tuple[float, float, float, float] | None:
    """Kernels' span and union by the period; waits and launches by the host's cycle."""
    host = analysis.steps
    running = measured.filter(pc.is_valid(measured["period_ns"]))
    at = host.rows_of(encoding.ints(running, "segment"))
    period = int(encoding.ints(running, "period_ns").sum())
    cycle = int((host.stop_ns[at] - host.start_ns[at]).sum())
    if not period or not cycle:
        return None
    span, busy = (int(encoding.ints(running, name).sum()) for name in ("wall_ns", "gpu_busy_ns"))
    wait, launch = int(host.wait_ns[at].sum()), int(host.launch_ns[at].sum())
    return span / period, busy / period, wait / cycle, launch / cycle


# -- prefill and ranges ------------------------------------------------------------------------


def _prefill(analysis: Analysis) -> Prefill | None:
    pids = {p["process"]: p["pid"] for p in analysis.staged.info.processes}
    rows = analysis.rows(
        """
        SELECT s.segment, s.process, f.device, s.request,
            sum(f.kernels)::BIGINT AS kernels, sum(f.sum_ns)::BIGINT AS sum_ns,
            (sum(f.alone_ns) + coalesce(any_value(g.ns), 0))::BIGINT AS busy_ns,
            min(f.start_ns) AS start_ns, max(f.end_ns) AS end_ns
        FROM facts AS f JOIN segments AS s USING (segment)
        LEFT JOIN (SELECT segment, device, sum(step_gain_ns)::BIGINT AS ns FROM gains GROUP BY ALL)
            AS g ON g.segment = f.segment AND g.device = f.device
        WHERE s.phase = 'prefill'
        GROUP BY s.segment, s.process, f.device, s.request ORDER BY start_ns
        """
    )
    if not rows:
        return None
    n = len(rows)
    total = sum(r["sum_ns"] for r in rows)
    layers = _layers(analysis)
    top = analysis.rows(
        """
        SELECT b.bucket, b.function AS name, sum(f.sum_ns)::BIGINT AS sum_ns,
            sum(f.kernels)::BIGINT AS launches, max(f.max_ns) AS max_ns
        FROM facts AS f JOIN segments AS s USING (segment) JOIN buckets_of_names AS b USING (name)
        WHERE s.phase = 'prefill' GROUP BY ALL ORDER BY sum_ns DESC, name LIMIT 12
        """
    )
    return Prefill(
        instances=n,
        sum_ms_per_instance=total / n / 1e6,
        busy_ms_per_instance=sum(r["busy_ns"] for r in rows) / n / 1e6,
        layers=layers,
        ms_per_layer=total / n / layers / 1e6 if layers else None,
        top=[
            KernelName(
                bucket=r["bucket"],
                name=r["name"],
                sum_ns=r["sum_ns"],
                sum_ms_per_step=r["sum_ns"] / n / 1e6,
                launches_per_step=r["launches"] / n,
                max_us=r["max_ns"] / 1e3,
            )
            for r in top
        ],
        requests=[
            PrefillRequest(
                process=pids.get(r["process"], -1),
                device=r["device"],
                request=r["request"] if r["request"] >= 0 else None,
                kernels=r["kernels"],
                gpu_sum_ns=r["sum_ns"],
                gpu_busy_ns=r["busy_ns"],
                start_ns=r["start_ns"],
                end_ns=r["end_ns"],
            )
            for r in rows
        ],
    )


def _layers(analysis: Analysis) -> int | None:
    """How many layers the verification steps have, where kernels carry layers."""
    nodes = analysis.phased.node_layers
    seen = set(nodes.column("layer").to_pylist()) if nodes.num_rows else set()
    if not seen:
        seen = {int(v) for v in np.unique(analysis.phased.assignment.layer) if v >= 0}
    return len(seen) or None


def _ranges(analysis: Analysis) -> list[RangeRow]:
    """Range names by projected kernel time, the most first."""
    ranges, launches = analysis.host.ranges, analysis.host.launches
    if len(ranges) == 0:
        return []
    kernels = held(ranges, launches, analysis.host.work["kernels"])
    times = held(ranges, launches, analysis.host.work["gpu_ns"])
    span = len(ranges.names)
    key = (ranges.domain + 1) * span + ranges.name
    unique, at = np.unique(key, return_inverse=True)
    count = np.bincount(at)
    kernel_sum = np.zeros(len(unique), dtype=np.int64)
    time_sum = np.zeros(len(unique), dtype=np.int64)
    np.add.at(kernel_sum, at, kernels)
    np.add.at(time_sum, at, times)
    order = np.lexsort((unique, -time_sum))[:_MOST_RANGES]
    return [
        RangeRow(
            name=ranges.names[int(unique[i] % span)],
            domain=int(unique[i] // span) - 1 if unique[i] >= span else None,
            instances=int(count[i]),
            kernels=int(kernel_sum[i]),
            sum_ns=int(time_sum[i]),
        )
        for i in order
    ]
