"""Comparability comes first: what differs between two lanes, and what that makes meaningless."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from lanescope.attribution.lanes.lane import Key, Lane
from lanescope.schemas.documents.comparison import Differs
from lanescope.schemas.findings import Abstention

#: options that change what tracing itself costs a step
COSTLY = {
    "collect_cpu_trace": "operating-system calls were traced",
    "collect_gpu_memory_usage": "device memory was tracked",
    "collect_thread_state_trace": "thread states were traced",
    "collect_uvm_cpu_page_faults": "page faults were traced",
    "rate_hz": "the CPU was sampled",
    "show_backtrace": "backtraces were taken",
    "cuda_skip_some_api_calls": "other API calls were traced",
}
SAMPLING_OFF = {"", "0", "false"}


@dataclass
class Verdict:
    """Whether two lanes can be held against each other, and over which steps."""

    incumbent: Lane
    candidate: Lane
    same_capture: bool = False
    paired: bool = False
    by_request: bool = True
    differs: list[Differs] = field(default_factory=list)
    refused: list[Abstention] = field(default_factory=list)
    withheld: list[Abstention] = field(default_factory=list)

    def refuse(self, why: str, remedy: str) -> None:
        """No delta of these lanes means anything."""
        self.refused.append(Abstention(what="the comparison", why=why, remedy=remedy))

    def withhold(self, what: str, why: str, remedy: str) -> None:
        """One part means nothing; the rest stands."""
        self.withheld.append(Abstention(what=what, why=why, remedy=remedy))

    @property
    def buckets(self) -> bool:
        """Whether buckets may be compared."""
        return not self.refused and all(a.what != "buckets" for a in self.withheld)


def graph_trace(lane: Lane) -> Literal["node", "graph", "none"]:
    """node, graph or none: what the capture holds of CUDA graphs, by its rows and its options."""
    coverage = lane.document.coverage
    if coverage.graph_blocks:
        return "graph"
    if coverage.graph_kernels:
        return "node"
    return "none"


def gpu(lane: Lane) -> str:
    """The GPU model(s) of a lane; '' where the capture does not say."""
    return ", ".join(sorted({g.name for g in lane.document.trace.gpus if g.name}))


def held_against(incumbent: Lane, candidate: Lane) -> Verdict:
    """Check two lanes, and cut both to what they have in common where that makes them equal."""
    verdict = Verdict(incumbent, candidate)
    for lane in (incumbent, candidate):
        if not lane.steps:
            verdict.refuse(
                f"{lane.name} has no measured verification step",
                "record a window that holds decode steps, with ranges on them",
            )
    verdict.same_capture = _same(incumbent, candidate)
    _capture(verdict)
    _windows(verdict)
    _options(verdict)
    _rules(verdict)
    _facts(verdict)
    if not verdict.refused:
        _requests(verdict)
    return verdict


def _same(a: Lane, b: Lane) -> bool:
    """By content: the same steps at the same times, whatever the files are called or packed as."""
    if a.document.profile_sha256 != b.document.profile_sha256 or a.steps != b.steps or not a.steps:
        return False
    pairs = ((a.start_ns, b.start_ns), (a.wall, b.wall), (a.total, b.total), (a.busy, b.busy))
    return all(np.array_equal(x, y) for x, y in pairs) and a.names == b.names


def _note(
    verdict: Verdict, what: str, values: tuple[str, str], effect: str, note: str = ""
) -> None:
    verdict.differs.append(
        Differs.model_validate(
            {"what": what, "values": list(values), "effect": effect, "note": note}
        )
    )


def _capture(verdict: Verdict) -> None:
    a, b = verdict.incumbent, verdict.candidate
    models = gpu(a), gpu(b)
    if all(models) and models[0] != models[1]:
        _note(verdict, "GPU model", models, "refused")
        verdict.refuse(
            f"different GPUs: {models[0]} and {models[1]}", "measure both lanes on one GPU model"
        )
    elif not all(models):
        _note(verdict, "GPU model", models, "listed", "a capture does not say its GPU")
    levels = graph_trace(a), graph_trace(b)
    if levels[0] != levels[1] and a.steps and b.steps:
        graphs = "graph" in levels
        _note(verdict, "graph trace", levels, "refused" if graphs else "listed")
        if graphs:  # node level costs every replayed kernel, and the other side has no kernels
            verdict.refuse(
                f"captured at different levels of CUDA graphs: {levels[0]} and {levels[1]}",
                "record both with --cuda-graph-trace=node",
            )
    devices = [lane.document.steps.devices if lane.document.steps else 0 for lane in (a, b)]
    if devices[0] != devices[1] and all(devices):
        _note(verdict, "devices", (str(devices[0]), str(devices[1])), "refused")
        verdict.refuse(f"{devices[0]} and {devices[1]} devices", "compare lanes of one layout")
    bases = [lane.document.steps.basis if lane.document.steps else "-" for lane in (a, b)]
    if bases[0] != bases[1]:
        _note(
            verdict,
            "how steps were found",
            (bases[0], bases[1]),
            "normalised",
            "one side lacks the ranges: steps are held against each other as one sequence",
        )
    versions = a.document.trace.nsys_version, b.document.trace.nsys_version
    if versions[0] != versions[1]:
        _note(verdict, "Nsight Systems", versions, "listed", "another tracer may cost another time")
    for lane in (a, b):
        missing = next((x for x in lane.document.abstained if x.what == "buckets"), None)
        if missing is not None and not verdict.refused and verdict.buckets:
            verdict.withhold("buckets", f"{lane.name}: {missing.why}", missing.remedy)


def _windows(verdict: Verdict) -> None:
    sides = [lane.document.steps for lane in (verdict.incumbent, verdict.candidate)]
    if sides[0] is None or sides[1] is None:
        return
    whole = [s.window.startswith("all steps") for s in sides if s is not None]
    if whole[0] != whole[1]:
        words = sides[0].window, sides[1].window
        _note(verdict, "measured window", words, "refused")
        verdict.refuse(
            f"measured windows of different kind: {words[0]}; {words[1]}",
            "attribute both with the same --window",
        )


def _options(verdict: Verdict) -> None:
    one, two = (x.document.trace.options for x in (verdict.incumbent, verdict.candidate))
    if not one or not two:
        if one or two:
            said = "said" if one else "not said", "said" if two else "not said"
            _note(verdict, "trace options", said, "listed", "could not be compared")
        return
    for option in sorted(set(one) | set(two)):
        values = one.get(option, "not said"), two.get(option, "not said")
        if values[0] == values[1] or option == "graph_trace":
            continue
        costly = option in COSTLY and "not said" not in values
        _note(verdict, f"option {option}", values, "refused" if costly else "listed")
        if costly:
            verdict.refuse(
                f"traced with different options: {COSTLY[option]} on one side only "
                f"({option}: {values[0]}, {values[1]})",
                "record both with the same options",
            )


def _rules(verdict: Verdict) -> None:
    a, b = (x.document for x in (verdict.incumbent, verdict.candidate))
    if a.profile_sha256 != b.profile_sha256:
        _note(verdict, "bucket rules", (a.profile, b.profile), "withheld")
        if verdict.buckets:
            verdict.withhold(
                "buckets",
                f"attributed by different rules: {a.profile} and {b.profile}",
                "attribute both with the same --profile",
            )


def _facts(verdict: Verdict) -> None:
    a, b = verdict.incumbent.facts, verdict.candidate.facts
    if not a or not b:
        return
    odd = [k for k in {**a, **b} if a.get(k) != b.get(k)]
    for key in odd:
        _note(verdict, f"lane: {key}", (str(a.get(key)), str(b.get(key))), "listed")
    if len(odd) > 1:
        _note(
            verdict,
            "axes",
            (f"{len(odd)} differences", ", ".join(odd)),
            "listed",
            "a difference cannot be told apart between several axes",
        )


def _requests(verdict: Verdict) -> None:
    """Cut both lanes to their common requests; pair where their shapes agree."""
    a, b = verdict.incumbent, verdict.candidate
    if not (a.requests_known and b.requests_known):
        verdict.by_request = False
    else:
        both = set(a.keys) & set(b.keys)
        if both and set(a.keys) != set(b.keys):
            counts = str(len(set(a.keys))), str(len(set(b.keys)))
            _note(
                verdict,
                "requests",
                counts,
                "normalised",
                f"compared over the {len(both)} that both lanes have",
            )
            verdict.incumbent = a.take(np.array([k in both for k in a.keys]))
            verdict.candidate = b.take(np.array([k in both for k in b.keys]))
    a, b = verdict.incumbent, verdict.candidate
    shapes = lengths(a, verdict.by_request), lengths(b, verdict.by_request)
    verdict.paired = list(shapes[0].items()) == list(shapes[1].items())
    if a.steps != b.steps:
        _note(
            verdict,
            "measured steps",
            (str(a.steps), str(b.steps)),
            "normalised",
            "everything is per step",
        )


def lengths(lane: Lane, by_request: bool) -> dict[Key, int]:
    """Steps of each request (or of each process and device) in the lane's order."""
    out: dict[Key, int] = {}
    for process, device, request in lane.keys:
        key = (process, device, request if by_request else -1)
        out[key] = out.get(key, 0) + 1
    return out
