"""Give every launch its phase, step, request and layer: NVTX first, then what recurs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lanescope.attribution.ingest import encoding
from lanescope.attribution.ingest.ids import Ints
from lanescope.attribution.ingest.opening import Staged
from lanescope.attribution.ingest.pauses import pause_before
from lanescope.attribution.ingest.source import Kind
from lanescope.attribution.phases import by_nvtx, by_recurrence
from lanescope.attribution.phases.ranges import Launches
from lanescope.attribution.phases.segments import VERIFY, Assignment, Segment
from lanescope.attribution.phases.units import Work
from lanescope.attribution.rules.profile import Profile
from lanescope.attribution.tables import BLOCKING, HostSide

_STEP_KINDS = {("decode", VERIFY)}


@dataclass
class Phased:
    """The assignment with what the result has to say about how it was found."""

    assignment: Assignment
    node_layers: pa.Table
    basis: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    has_requests: bool = False


def phase(staged: Staged, host: HostSide, profile: Profile) -> Phased:
    """Assign all launches of a trace."""
    processes = len(staged.info.processes)
    launches = host.launches
    assignment = Assignment.nowhere(processes + 1, len(launches.api), _known(launches, processes))
    spoken = by_nvtx.assign(assignment, host.ranges, launches, profile)
    assignment.layer = by_nvtx.layer_at(
        host.ranges, profile, launches.thread, launches.start_ns, launches.end_ns
    )
    out = Phased(assignment, _node_layers(staged, host, profile))
    if staged.info.processes_mixed:
        out.reasons.append("processes share correlation ids, and a CSV does not name them")
    for p in range(processes):
        _infer_missing(p, host, assignment, spoken, out, staged)
    out.has_requests = by_nvtx.requests(assignment, host.ranges, profile)
    _number_steps(assignment, launches, host, out, staged)
    return out


def _known(launches: object, processes: int) -> Ints:
    process: Ints = launches.process  # type: ignore[attr-defined]
    return np.where(process >= 0, process, processes)


def _infer_missing(
    p: int,
    host: HostSide,
    assignment: Assignment,
    spoken: set[tuple[int, str, str]],
    out: Phased,
    staged: Staged,
) -> None:
    """Fill what ranges left open in one process: the kinds of phase that no range spoke for."""
    rebuilt = staged.info.launches_rebuilt
    told = {(phase, part) for proc, phase, part in spoken if proc == p}
    if told & _STEP_KINDS and any(phase == "prefill" for phase, _ in told):
        out.basis.append(by_nvtx.EVIDENCE)
        return
    rows = np.flatnonzero(host.launches.process == p)
    rows = rows[(host.work["kernels"][rows] > 0) | (host.work["blocks_traced"][rows] > 0)]
    if len(rows) == 0:
        return
    work = _work(host, rows)
    of_process = host.api.process == p
    syncs = host.api.start_ns[of_process & host.api.of_kind(*BLOCKING)]
    if rebuilt:
        syncs = _device_gaps(host, rows)
    copies = np.flatnonzero((host.launches.process == p) & (host.work["copies_h2d"] > 0))
    startup = _startup(p, host, staged, int(work.start_ns[0]))
    found = by_recurrence.infer(
        work,
        syncs,
        host.launches.start_ns[copies],
        startup,
        host_known=not rebuilt,
    )
    if told & _STEP_KINDS:
        out.basis.append(by_nvtx.EVIDENCE)
    elif found.stretches:
        out.basis.append(found.evidence)
    if found.reason:
        out.reasons.append(found.reason)
    for stretch in found.stretches:
        if (stretch.phase, stretch.part) in told:
            continue
        mine = rows[stretch.first : stretch.stop]
        free = mine[assignment.segment[mine] == p]
        if len(free) == 0:
            continue
        assignment.segment[free] = len(assignment.segments)
        assignment.segments.append(
            Segment(
                p,
                stretch.phase,
                stretch.part,
                "",
                stretch.evidence,
                int(host.launches.start_ns[free[0]]),
                int(host.launches.end_ns[free[-1]]),
            )
        )


#: A CSV counts time from the start of the session: CUDA takes longer than this to start up.
_STARTUP_NS = 100_000_000


def _device_gaps(host: HostSide, rows: Ints) -> Ints:
    """Start times of launches that found the device idle for long: where the host had waited."""
    start, end = host.work["gpu_start_ns"][rows], host.work["gpu_end_ns"][rows]
    out: Ints = (
        start[pause_before(start, end, host.work["kernels"][rows] == 1)] - 1
    )  # the wait ended just before
    return out


def _startup(process: int, host: HostSide, staged: Staged, first_work_ns: int) -> int | None:
    """The host time of a process's first initialisation or graph capture; None where not seen."""
    if staged.info.launches_rebuilt:
        found = _captured(staged, process, first_work_ns)
    else:
        of_process = host.api.process == process
        found = host.api.start_ns[of_process & host.api.of_kind("start-up")]
    return int(found[0]) if len(found) else None


def _captured(staged: Staged, process: int, first_work_ns: int) -> Ints:
    """The time at which graph nodes were made: start-up, where no API call tells of it.

    Nodes made before the first device work were made before the trace; without any nodes,
    start-up cannot be ruled out unless graphs are replayed.
    """
    if staged.source.kind is Kind.STATS_CSV:
        return np.zeros(1 if first_work_ns > _STARTUP_NS else 0, dtype=np.int64)
    nodes = encoding.read(staged.folder / "graph_nodes.parquet", ["start_ns", "process"])
    mine = nodes.filter(pc.equal(nodes.column("process"), process)).column("start_ns")
    if len(mine):
        made = int(pc.min(mine).as_py())
        return np.array([made] if made > first_work_ns else [], dtype=np.int64)
    replays = encoding.read(staged.folder / "work.parquet", ["graph"]).column("graph")
    seen_graphs = (pc.max(replays).as_py() or 0) > 0
    return np.zeros(0 if seen_graphs else 1, dtype=np.int64)


def _work(host: HostSide, rows: Ints) -> Work:
    w = host.work
    return Work(
        row=rows,
        start_ns=host.launches.start_ns[rows],
        end_ns=host.launches.end_ns[rows],
        kernels=w["kernels"][rows],
        gpu_ns=w["gpu_ns"][rows],
        graph=w["graph"][rows],
        print_=w["print"][rows],
        print_names=w["print_names"][rows],
        blocks=w["blocks"][rows],
    )


def _number_steps(
    assignment: Assignment, launches: Launches, host: HostSide, out: Phased, staged: Staged
) -> None:
    """Number verification steps in each process and tell warm-up apart.

    Only segments with device work are steps. Warm-up: outside every request where the trace has
    request ranges; otherwise before the first prefill of the process, if a prefill follows and the
    trace shows the process start (initialisation or graph capture before its first step). Without
    that the capture began in the middle of a request, whose prefill it does not hold.
    """
    has_work = np.zeros(len(assignment.segments), dtype=bool)
    has_work[np.unique(assignment.segment)] = True
    processes = sorted({s.process for s in assignment.segments})
    for p in processes:
        mine = [
            (s.start_ns, i)
            for i, s in enumerate(assignment.segments)
            if s.process == p and has_work[i] and s.evidence != "none"
        ]
        mine.sort()
        prefills = [t for t, i in mine if assignment.segments[i].phase == "prefill"]
        steps = [i for _, i in mine if _is_step(assignment.segments[i])]
        started = False
        if steps:
            first_work = int(launches.start_ns[launches.process == p].min())
            startup = _startup(p, host, staged, first_work)
            first_step = assignment.segments[steps[0]].start_ns
            started = startup is not None and startup <= first_step
        in_request = [assignment.segments[i].request >= 0 for i in steps]
        for number, i in enumerate(steps):
            segment = assignment.segments[i]
            segment.step = number
            if out.has_requests and any(in_request):
                segment.warmup = not in_request[number]
            elif prefills and started:
                segment.warmup = segment.start_ns < prefills[0]
        if steps and all(assignment.segments[i].warmup for i in steps):
            for i in steps:  # a prefill after all steps says nothing about them
                assignment.segments[i].warmup = False


def _is_step(segment: Segment) -> bool:
    return (segment.phase, segment.part) in _STEP_KINDS


def _node_layers(staged: Staged, host: HostSide, profile: Profile) -> pa.Table:
    """process, graph_node, layer: the layer range around the node's creation at capture.

    A node of an executable graph is a clone; its record points to the node it was cloned from,
    which was created on the capturing thread inside the layer's range.
    """
    nodes = encoding.read(staged.folder / "graph_nodes.parquet")
    empty = pa.table(
        {
            "process": pa.array([], pa.int32()),
            "graph_node": pa.array([], pa.int64()),
            "layer": pa.array([], pa.int64()),
        }
    )
    if nodes.num_rows == 0:
        return empty
    thread = pc.fill_null(nodes.column("global_tid"), 0).to_numpy(zero_copy_only=False)
    start = nodes.column("start_ns").to_numpy(zero_copy_only=False)
    node = pc.fill_null(nodes.column("graph_node"), 0).to_numpy(zero_copy_only=False)
    original = pc.fill_null(nodes.column("original_node"), 0).to_numpy(zero_copy_only=False)
    process = pc.fill_null(nodes.column("process"), -1).to_numpy(zero_copy_only=False)
    layer = by_nvtx.layer_at(host.ranges, profile, thread, start, start)
    own = {(int(p), int(n)): int(v) for p, n, v in zip(process, node, layer, strict=True) if v >= 0}
    rows: dict[tuple[int, int], int] = {}
    parent = {
        (int(p), int(n)): int(o)
        for p, n, o in zip(process, node, original, strict=True)
        if o > 0 and o != n
    }
    for key in {(int(p), int(n)) for p, n in zip(process, node, strict=True) if n > 0}:
        at, hops = key, 0
        while at not in own and at in parent and hops < 8:
            at, hops = (key[0], parent[at]), hops + 1
        if at in own:
            rows[key] = own[at]
    if not rows:
        return empty
    keys = sorted(rows)
    return pa.table(
        {
            "process": pa.array([k[0] for k in keys], pa.int32()),
            "graph_node": pa.array([k[1] for k in keys], pa.int64()),
            "layer": pa.array([rows[k] for k in keys], pa.int64()),
        }
    )
