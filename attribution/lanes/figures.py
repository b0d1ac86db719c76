"""Figures of attributions, for bars on buckets and on the step."""

from __future__ import annotations

from pathlib import Path

from lanescope.attribution.lanes import deltas
from lanescope.attribution.lanes.bars import Evidence, Figure
from lanescope.attribution.lanes.comparable import held_against
from lanescope.attribution.lanes.lane import DOCUMENT, Lane, load_lane
from lanescope.schemas.documents.speed import SourceFile
from lanescope.schemas.findings import LaneWarning


def figures_of(
    evidence: Evidence, base: str | None, candidate: str, profile: str | None = None
) -> None:
    """Put the figures of one lane, or of two that are held against each other, into `evidence`.

    wall_ms, busy_ms, sum_ms, idle_ms and bucket:NAME, in ms a verification step. Lanes that cannot
    be compared keep their own figures and lose the differences; the reasons go to `refused`.
    """
    new = load_lane(Path(candidate), profile=profile)
    old = load_lane(Path(base), profile=profile) if base is not None else None
    evidence.files = [*evidence.files, *[_source(lane) for lane in (old, new) if lane is not None]]
    if old is None:
        evidence.figures = {_name(m): Figure(None, v) for m, v in _means(new).items()}
        return
    verdict = held_against(old, new)
    evidence.same = evidence.same or verdict.same_capture
    evidence.refused = [*verdict.refused, *verdict.withheld]
    if verdict.refused:
        return
    evidence.figures = {
        _name(d.metric): Figure(d.incumbent_ms, d.candidate_ms, d.delta_ms, d.low_ms, d.high_ms)
        for d in deltas.metric_deltas(verdict)
    }
    evidence.findings = [
        LaneWarning.ONE_CAPTURE.finding("each lane is one capture: relaunches are not covered")
    ]


def _name(metric: str) -> str:
    return f"{metric}_ms" if metric in deltas.WHOLE else f"bucket:{metric}"


def _means(lane: Lane) -> dict[str, float]:
    if not lane.steps:
        return {}
    columns = {"wall": lane.wall, "busy": lane.busy, "sum": lane.total, "idle": lane.idle}
    columns |= lane.bucket_sum if not _no_buckets(lane) else {}
    return {name: int(values.sum()) / lane.steps / 1e6 for name, values in columns.items()}


def _no_buckets(lane: Lane) -> bool:
    return any(a.what == "buckets" for a in lane.document.abstained)


def _source(lane: Lane) -> SourceFile:
    file = lane.path
    if lane.kind == "attribution":
        file = lane.path / DOCUMENT
    elif lane.kind == "window":
        file = lane.path / "attribution" / DOCUMENT
    return SourceFile(
        path=str(lane.path),
        sha256=lane.document.trace.sha256,
        modified_ns=file.stat().st_mtime_ns,
    )
