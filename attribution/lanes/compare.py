"""`compare`: lanes in, one typed document out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from lanescope._version import __version__
from lanescope.attribution.lanes import deltas
from lanescope.attribution.lanes.comparable import Verdict, gpu, graph_trace, held_against
from lanescope.attribution.lanes.intervals import SEED
from lanescope.attribution.lanes.lane import Lane, load_lane
from lanescope.attribution.lanes.trend import model, trend
from lanescope.schemas.documents.comparison import (
    ComparisonDocument,
    LaneSide,
    MetricDelta,
    PairDocument,
    Trend,
)
from lanescope.schemas.errors import UsageError
from lanescope.schemas.findings import Abstention, Finding, LaneWarning


def compare(
    incumbent: str | Path,
    *candidates: str | Path,
    profile: str | None = None,
    window: str = "",
    accepted: Mapping[str, float] | None = None,
    axis: tuple[str, Sequence[float]] | None = None,
    use_cache: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> ComparisonDocument:
    """Hold each candidate against the incumbent: traces, attribution folders or windows.

    accepted: lane name -> tokens that one of its steps yields, where the lanes do not say.
    axis: the axis' name and each lane's place on it, where the lanes do not say.

    Raises UsageError for fewer than two lanes or names that fit none, and what loading raises.
    """
    if not candidates:
        raise UsageError("a comparison needs two lanes", "name INCUMBENT and CANDIDATE")
    lanes = [
        load_lane(Path(p), profile=profile, window=window, use_cache=use_cache, say=say)
        for p in (incumbent, *candidates)
    ]
    _distinct(lanes)
    _accept(lanes, accepted or {})
    say("comparing")
    return assemble(lanes, axis)


def _distinct(lanes: Sequence[Lane]) -> None:
    """Two lanes of one file name get numbers."""
    for lane in lanes:
        same = [other for other in lanes if other.name == lane.name]
        if len(same) > 1:
            for number, other in enumerate(same, 1):
                other.name = f"{other.name}#{number}"


def _accept(lanes: Sequence[Lane], accepted: Mapping[str, float]) -> None:
    for name, tokens in accepted.items():
        lane = next((x for x in lanes if x.name == name), None)
        if lane is None or tokens <= 0:
            known = ", ".join(x.name for x in lanes)
            raise UsageError(f"accepted tokens {name}={tokens:g}", f"lanes: {known}")
        lane.accepted, lane.accepted_basis = tokens, "given"


def assemble(
    lanes: Sequence[Lane], axis: tuple[str, Sequence[float]] | None = None
) -> ComparisonDocument:
    """The document of lanes that are loaded."""
    if axis is not None and len(axis[1]) != len(lanes):
        raise UsageError(f"{len(axis[1])} places on the axis for {len(lanes)} lanes", "one a lane")
    verdicts = [held_against(lanes[0], lane) for lane in lanes[1:]]
    pairs = [_pair(v) for v in verdicts]
    abstained = [] if all(lane.facts for lane in lanes) else [_no_lane_files(lanes)]
    comparable = [lanes[0], *[v.candidate for v in verdicts if not v.refused]]
    found_trend: Trend | None = None
    found_model = None
    if len(lanes) > 2 and len(comparable) == len(lanes):
        name, places = axis or (None, None)
        along = trend(lanes, name, places, all(v.buckets for v in verdicts))
        fitted = model(lanes)
        if isinstance(along, Abstention):
            abstained.append(along)
        else:
            found_trend = along
        if isinstance(fitted, Abstention):
            abstained.append(fitted)
        else:
            found_model = fitted
    elif len(lanes) > 2:
        abstained.append(
            Abstention(
                what="trend",
                why="not all lanes can be held against each other",
                remedy="leave out the lanes that were refused",
            )
        )
    return ComparisonDocument(
        schema="lanescope.comparison/1",
        lanes=[_side(lane) for lane in lanes],
        lanescope_version=__version__,
        differs=[d for v in verdicts for d in v.differs],
        pairs=pairs,
        trend=found_trend,
        model=found_model,
        warnings=_warnings(verdicts, pairs),
        abstained=abstained,
        seed=SEED,
        resamples=min(deltas.resamples_for(lanes[0].steps + x.steps) for x in lanes[1:]),
    )


def _no_lane_files(lanes: Sequence[Lane]) -> Abstention:
    without = ", ".join(lane.name for lane in lanes if not lane.facts)
    return Abstention(
        what="one-axis difference",
        why=f"no lane file is known of {without}",
        remedy="compare windows of `lanescope capture`, or put NAME.lane.toml beside the trace",
    )


_SHARES = np.arange(0, 101, 5) / 100


def _side(lane: Lane) -> LaneSide:
    doc = lane.document
    n = lane.steps
    return LaneSide(
        name=lane.name,
        path=str(lane.path),
        kind=lane.kind,
        trace_sha256=doc.trace.sha256,
        gpu=gpu(lane),
        graph_trace=graph_trace(lane),
        basis=doc.steps.basis if doc.steps else "",
        window=doc.steps.window if doc.steps else "",
        nsys_version=doc.trace.nsys_version,
        profile=doc.profile,
        steps=n,
        requests=len(set(lane.keys)) if n and lane.requests_known else None,
        wall_ms=int(lane.wall.sum()) / n / 1e6 if n else None,
        busy_ms=int(lane.busy.sum()) / n / 1e6 if n else None,
        sum_ms=int(lane.total.sum()) / n / 1e6 if n else None,
        wall_quantiles_ms=[float(q) / 1e6 for q in np.quantile(lane.wall, _SHARES)] if n else [],
        accepted_per_step=lane.accepted,
        accepted_basis=lane.accepted_basis,
        facts=lane.facts,
    )


def _pair(verdict: Verdict) -> PairDocument:
    a, b = verdict.incumbent, verdict.candidate
    why = "; ".join(r.why for r in verdict.refused)
    pair = PairDocument(
        incumbent=a.name,
        candidate=b.name,
        same_capture=verdict.same_capture,
        paired=verdict.paired,
        refused=verdict.refused,
        withheld=verdict.withheld,
        headline=f"{b.name} and {a.name} are not compared: {why}",
        deltas=[],
        per_token=[],
        waterfall=None,
        counts=[],
        kernels=[],
    )
    if verdict.refused:
        return pair
    pair.deltas = deltas.metric_deltas(verdict)
    pair.headline = _headline(verdict, pair.deltas)
    pair.counts = deltas.counts(verdict)
    if a.accepted and b.accepted:
        pair.per_token = deltas.token_deltas(verdict, (a.accepted, b.accepted))
    if verdict.buckets:
        pair.waterfall = deltas.waterfall(a, b)
        pair.kernels = deltas.kernel_changes(a, b)
    return pair


def _headline(verdict: Verdict, found: list[MetricDelta]) -> str:
    a, b = verdict.incumbent.name, verdict.candidate.name
    if verdict.same_capture:
        return f"{b} and {a} are the same capture: every difference is exactly zero"
    wall = next(d for d in found if d.metric == "wall")
    size = f"{wall.delta_ms:+.3f} ms/step [{wall.low_ms:+.3f}, {wall.high_ms:+.3f}]"
    if wall.certainty == "identical":
        return f"a step of {b} takes exactly as long as one of {a}{_moved(found)}"
    if wall.certainty != "certain":
        return f"no certain difference of the step between {a} and {b}: {size}{_moved(found)}"
    share = f", {wall.delta_pct:+.2f} %" if wall.delta_pct is not None else ""
    word = "longer" if wall.sign == "+" else "shorter"
    return f"a step of {b} is {word} than one of {a}: {size}{share}{_payer(wall, found)}"


def _moved(found: list[MetricDelta]) -> str:
    """The buckets that changed for certain although the step as a whole may not have."""
    sure = [d for d in found if d.metric not in deltas.WHOLE and d.certainty == "certain"]
    sure.sort(key=lambda d: -abs(d.delta_ms))
    said = ", ".join(f"{d.metric} {d.delta_ms:+.4f}" for d in sure[:3])
    return f"; buckets that certainly changed, ms/step: {said}" if said else ""


def _payer(wall: MetricDelta, found: list[MetricDelta]) -> str:
    """The bucket that moved most in the wall's direction, if that is certain."""
    buckets = [d for d in found if d.metric not in deltas.WHOLE and d.certainty == "certain"]
    same = [d for d in buckets if d.sign == wall.sign]
    if not same:
        return ""
    most = max(same, key=lambda d: abs(d.delta_ms))
    return f"; most of it in {most.metric} ({most.delta_ms:+.3f})"


def _warnings(verdicts: Sequence[Verdict], pairs: Sequence[PairDocument]) -> list[Finding]:
    out = []
    if any(not p.refused and not p.same_capture for p in pairs):
        out.append(
            LaneWarning.ONE_CAPTURE.finding(
                "each lane is one capture: the intervals are over its steps, and what another "
                "launch moves is not in them"
            )
        )
    for verdict in verdicts:
        sides = (verdict.incumbent, verdict.candidate)
        for lane in sides:
            if not verdict.refused and lane.steps < 30:
                out.append(
                    LaneWarning.FEW_STEPS.finding(
                        f"{lane.name}: intervals from {lane.steps} steps are rough"
                    )
                )
        if not verdict.by_request and not verdict.refused:
            out.append(
                LaneWarning.REQUESTS_UNKNOWN.finding(
                    f"{sides[0].name} and {sides[1].name} are compared as two sequences of steps"
                )
            )
        if not verdict.same_capture and not verdict.refused and not all(x.accepted for x in sides):
            facts = [lane.facts.get("k") for lane in sides]
            if facts[0] != facts[1] or (facts[0] is None and verdict.candidate.facts):
                out.append(
                    LaneWarning.STEPS_YIELD_DIFFERENT.finding(
                        f"{sides[0].name} verifies K={facts[0]}, {sides[1].name} K={facts[1]}, and "
                        "acceptance is not known"
                    )
                )
    unique = {(f.code, f.message): f for f in out}
    return list(unique.values())
