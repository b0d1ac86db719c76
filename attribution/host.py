"""What the host does in a step: launches, waits, other API calls, and what bounds the step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.attribution.ingest.ids import Ints
from lanescope.attribution.phases.segments import Assignment
from lanescope.attribution.tables import BLOCKING, HostSide, plain_api_name

LAUNCH_KINDS = ("kernel launch", "graph launch")
#: A step whose GPU is busy for this share of its period is bound by the GPU.
GPU_BOUND_SHARE = 0.85
#: A host that waits less than this share of the period is busy itself.
_HARDLY_WAITS = 0.25
#: Launch calls of this share of the period are what the host is busy with.
_MUCH_LAUNCHING = 0.2


@dataclass
class StepHost:
    """Host figures of each step, one element a step (in the order of `segment`)."""

    segment: Ints
    start_ns: Ints  # first launch of the step
    stop_ns: Ints  # first launch of the next step or prefill; of the last, where its work ends
    wait_ns: Ints
    launch_ns: Ints
    graph_launches: Ints
    kernel_launches: Ints
    call_step: Ints  # for each API call: row of this table, -1 outside all steps

    def rows_of(self, segment: Ints) -> Ints:
        """The rows of the steps with these segments, each of which is there."""
        order = np.argsort(self.segment, kind="stable")
        rows: Ints = order[np.searchsorted(self.segment[order], segment)]
        return rows


def step_host(assignment: Assignment, host: HostSide) -> StepHost:
    """Cut the host's time into step cycles: a step's first launch to the first launch of the next
    step or prefill of its process. Drafts belong to the cycle of the step before them. The last
    step of a process has nothing after it and ends with its own work, see `_work_ends`."""
    first = _first_launch(assignment, host)
    steps = [i for i, s in enumerate(assignment.segments) if s.step >= 0]
    out_rows: list[tuple[int, int, int]] = []
    by_process: dict[int, list[tuple[int, int, bool]]] = {}
    for i, s in enumerate(assignment.segments):
        ends_cycle = s.step >= 0 or s.phase in ("prefill", "mixed")
        if ends_cycle and first[i] >= 0:
            by_process.setdefault(s.process, []).append((int(first[i]), i, s.step >= 0))
    for process, rows in by_process.items():
        rows.sort()
        for k, (began, i, is_step) in enumerate(rows):
            if is_step:
                is_last = k + 1 == len(rows)
                ended = _work_ends(assignment, host, process, began) if is_last else rows[k + 1][0]
                out_rows.append((i, began, ended))
    out_rows.sort()
    segment = np.array([r[0] for r in out_rows], dtype=np.int64)
    start = np.array([r[1] for r in out_rows], dtype=np.int64)
    stop = np.array([r[2] for r in out_rows], dtype=np.int64)
    call_step = _calls_to_steps(assignment, host, segment, start, stop)
    return _sum_up(host, segment, start, stop, call_step, len(steps))


def _work_ends(assignment: Assignment, host: HostSide, process: int, began: int) -> int:
    """Just after the last launch of a process's last step (and of the drafts behind it), or after
    the wait for them: the first blocking call that begins while their device work still runs and
    ends when it is done. What the process waits for later, such as its shutdown, is not the step's.
    """
    segments = assignment.segments
    of_decode = np.array([s.process == process and s.phase == "decode" for s in segments])
    mine = (host.launches.start_ns >= began) & of_decode[assignment.segment]
    launched = int(host.launches.end_ns[mine].max(initial=began))
    done = int(host.work["gpu_end_ns"][mine].max(initial=0))
    waits = (host.api.process == process) & host.api.of_kind(*BLOCKING)
    waits &= (host.api.start_ns >= began) & (host.api.start_ns <= done) & (host.api.end_ns >= done)
    waited = host.api.end_ns[waits]
    return max(launched, int(waited.min()) if len(waited) else 0) + 1


def _first_launch(assignment: Assignment, host: HostSide) -> Ints:
    first = np.full(len(assignment.segments), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(first, assignment.segment, host.launches.start_ns)
    first[first == np.iinfo(np.int64).max] = -1
    return first


def _calls_to_steps(
    assignment: Assignment, host: HostSide, segment: Ints, start: Ints, stop: Ints
) -> Ints:
    call_step = np.full(len(host.api.start_ns), -1, dtype=np.int64)
    process = np.array([assignment.segments[i].process for i in segment], dtype=np.int64)
    for p in np.unique(process):
        mine = np.flatnonzero(process == p)
        mine = mine[np.argsort(start[mine], kind="stable")]
        calls = np.flatnonzero(host.api.process == p)
        at = np.searchsorted(start[mine], host.api.start_ns[calls], side="right") - 1
        ok = (at >= 0) & (host.api.start_ns[calls] < stop[mine[np.maximum(at, 0)]])
        call_step[calls[ok]] = mine[at[ok]]
    return call_step


def _sum_up(
    host: HostSide, segment: Ints, start: Ints, stop: Ints, call_step: Ints, steps: int
) -> StepHost:
    inside = call_step >= 0
    duration = host.api.end_ns - host.api.start_ns

    def total(mask: np.ndarray, values: Ints | None) -> Ints:
        out = np.zeros(steps, dtype=np.int64)
        rows = inside & mask
        np.add.at(out, call_step[rows], 1 if values is None else values[rows])
        return out

    launching = host.api.of_kind(*LAUNCH_KINDS)
    return StepHost(
        segment=segment,
        start_ns=start,
        stop_ns=stop,
        wait_ns=total(host.api.of_kind(*BLOCKING), duration),
        launch_ns=total(launching, duration),
        graph_launches=total(host.api.of_kind("graph launch"), None),
        kernel_launches=total(host.api.of_kind("kernel launch"), None),
        call_step=call_step,
    )


def api_by_name(
    host: HostSide, steps: StepHost, measured: np.ndarray
) -> list[tuple[str, str, int, int]]:
    """(plain name, kind, calls, ns) within measured steps, most time first."""
    rows = np.flatnonzero(steps.call_step >= 0)
    rows = rows[measured[steps.call_step[rows]]]
    calls = np.bincount(host.api.name[rows], minlength=len(host.api.names))
    time = np.zeros(len(host.api.names), dtype=np.int64)
    np.add.at(time, host.api.name[rows], host.api.end_ns[rows] - host.api.start_ns[rows])
    merged: dict[str, list[int]] = {}
    kinds: dict[str, str] = {}
    for i, name in enumerate(host.api.names):
        if calls[i]:
            plain = plain_api_name(name)
            entry = merged.setdefault(plain, [0, 0])
            entry[0] += int(calls[i])
            entry[1] += int(time[i])
            kinds[plain] = _kind_of(host, i)
    out = [(n, kinds[n], c, t) for n, (c, t) in merged.items()]
    return sorted(out, key=lambda r: (-r[3], r[0]))


def _kind_of(host: HostSide, name: int) -> str:
    row = int(np.flatnonzero(host.api.name == name)[0])
    return host.api.kinds[int(host.api.kind[row])]


def verdict(
    span_share: float, busy_share: float, wait_share: float, launch_share: float
) -> tuple[str, str]:
    """What bounds a step, by shares of its period, and the sentence that says why.

    span_share: first kernel start to last kernel end; busy_share: union of its kernels;
    wait_share, launch_share: host time in blocking waits and in launch calls. While the host waits
    for the device, or kernels fill the period, the device is the bound; a host that hardly waits is
    the bound itself, and if launch calls are a good part of its time they are.
    """
    words = (
        f"kernels span {span_share:.1%} of the period (busy {busy_share:.1%}), host waits "
        f"{wait_share:.1%}, in launch calls {launch_share:.1%}"
    )
    if span_share >= GPU_BOUND_SHARE and busy_share >= GPU_BOUND_SHARE / 2:
        if busy_share < GPU_BOUND_SHARE and wait_share < _HARDLY_WAITS:
            return ("launch-bound" if launch_share >= _MUCH_LAUNCHING else "host-bound"), words
        return "gpu-bound", words
    if wait_share >= GPU_BOUND_SHARE / 2 and busy_share >= 0.5:
        return "gpu-bound", words
    if wait_share < _HARDLY_WAITS:
        return ("launch-bound" if launch_share >= _MUCH_LAUNCHING else "host-bound"), words
    return "idle", words


#: This many launches without one device row in a whole second mean that records were lost.
_LOST_LAUNCHES = 20


def seconds_without_kernels(host: HostSide, rebuilt: bool) -> list[tuple[int, int]]:
    """(second, launches) of whole seconds whose launches left no device row at all.

    Launches while a graph is captured never have one and do not count.
    """
    if rebuilt:
        return []
    launching = np.flatnonzero(host.api.of_kind(*LAUNCH_KINDS) & ~_while_capturing(host))
    if len(launching) == 0:
        return []
    has_work = np.isin(launching, host.launches.api)
    second = (host.api.start_ns[launching] - host.api.start_ns[launching[0]]) // 1_000_000_000
    launches = np.bincount(second)
    seen = np.bincount(second, weights=has_work)
    lost = np.flatnonzero((launches >= _LOST_LAUNCHES) & (seen == 0))
    return [(int(s), int(launches[s])) for s in lost]


def _while_capturing(host: HostSide) -> np.ndarray:
    """Mask of API calls made while a stream of their process was being captured."""
    begins = np.array([n.find("StreamBeginCapture") >= 0 for n in host.api.names], dtype=bool)
    finishes = np.array([n.find("StreamEndCapture") >= 0 for n in host.api.names], dtype=bool)
    out = np.zeros(len(host.api.start_ns), dtype=bool)
    if not begins.any():
        return out
    turns = np.flatnonzero((begins | finishes)[host.api.name])  # few: captures begin and end
    for p in np.unique(host.api.process[turns]):
        mine = turns[host.api.process[turns] == p]
        change = np.where(begins[host.api.name[mine]], 1, -1)
        open_from = np.cumsum(change) > 0
        for row, until, capturing in zip(
            mine, np.append(mine[1:], len(out)), open_from, strict=True
        ):
            if capturing:
                out[row:until] |= host.api.process[row:until] == p
    return out


def workers_without_kernels(host: HostSide, processes: int) -> list[int]:
    """Processes (by index) that made launch calls outside captures and ran nothing."""
    launching = host.api.of_kind(*LAUNCH_KINDS) & ~_while_capturing(host)
    called = set(np.unique(host.api.process[launching]).tolist())
    ran = set(np.unique(host.launches.process).tolist())
    return sorted(p for p in called - ran if 0 <= p < processes)
