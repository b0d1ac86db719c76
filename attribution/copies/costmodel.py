"""Within one window: what a step costs per miss, and what would follow if misses changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lanescope.attribution.copies import regression
from lanescope.attribution.copies.aggregate import Reading
from lanescope.attribution.copies.mixture import Floats
from lanescope.attribution.copies.regression import Line
from lanescope.schemas.documents.misses import Interval, Link
from lanescope.schemas.documents.model import CostModel, Fit, WhatIf
from lanescope.schemas.findings import CopyAbstained

if TYPE_CHECKING:
    from lanescope.attribution.copies.estimate import Group
    from lanescope.attribution.copies.results import CopiesResult

#: fewer steps than this make no fit
FEWEST = 10


def attach(
    out: CopiesResult, found: list[Group], reads: list[Reading], steps: pd.DataFrame
) -> None:
    """Fit step time against misses per layer-step; the result, or its absence, goes into `out`."""
    if out.misses is not None and out.misses.identifiability.verdict == "not":
        out.abstained.append(CopyAbstained.MODEL.because("the misses of a step cannot be told"))
        return
    points = _points(found, reads, steps)
    if len(points) < FEWEST:
        out.abstained.append(
            CopyAbstained.MODEL.because(
                f"only {len(points)} measured steps have misses and a duration"
            )
        )
        return
    x = points["misses"].to_numpy()
    wall = regression.fit(x, points["wall_ms"].to_numpy())
    gpu = regression.fit(x, points["gpu_ms"].to_numpy())
    if wall is None or gpu is None or np.ptp(x) == 0:
        out.abstained.append(
            CopyAbstained.MODEL.because("all steps have the same number of misses")
        )
        return
    group = max(found, key=lambda g: len(g.steps.ns))
    row_bytes = sum(group.facts.row_bytes) if group.facts.row_bytes else None
    layers = group.steps.structure.layers
    line = as_fit(wall)
    real = max(0.0, 1 - float(points["variance"].mean()) / max(float(np.var(x)), 1e-12))
    out.model = CostModel(
        base_ms=line.base_ms,
        ms_per_miss=line.ms_per_miss,
        r2=line.r2,
        n=line.n,
        rmse_ms=line.rmse_ms,
        of="wall of the step on the GPU: first kernel start to last kernel end",
        gpu=as_fit(gpu),
        slope_GBps=slope_rate(layers, row_bytes, line.ms_per_miss.estimate),
        counted_tensors=[t.tensor for t in out.misses.tensors] if row_bytes and out.misses else [],
        residual_steps=_far(points, wall),
        misses_range=[float(x.min()), float(x.max())],
        attenuation=real,
        what_if=what_if(wall, x, out.link),
    )


def slope_rate(layers: int, row_bytes: int | None, ms_per_miss: float | None) -> float | None:
    """Decimal GB/s of a slope: one more miss in every layer moves layers x bytes."""
    if not row_bytes or not ms_per_miss or ms_per_miss <= 0:
        return None
    return layers * row_bytes / (ms_per_miss * 1e6)


def as_fit(line: Line) -> Fit:
    """The document's form of a line."""
    slope, low, high = line.slope()
    return Fit(
        base_ms=float(line.beta[0]),
        ms_per_miss=Interval(estimate=slope, low=low, high=high),
        r2=line.r2,
        rmse_ms=line.rmse,
        n=len(line.residual),
    )


def _points(found: list[Group], reads: list[Reading], steps: pd.DataFrame) -> pd.DataFrame:
    """One row a measured step: process, device, step, misses, variance, wall_ms, gpu_ms."""
    parts = []
    for group, read in zip(found, reads, strict=True):
        keys, pick = group.steps.frame[["process", "device", "step"]], group.steps.frame["measured"]
        frame = keys.assign(misses=read.mean, variance=read.variance)[pick]
        means = frame.groupby(["process", "device", "step"], as_index=False).agg(
            misses=("misses", "mean"), variance=("variance", "mean"), layers=("misses", "size")
        )
        means = means[means["layers"] == group.steps.structure.layers]
        means["variance"] /= means["layers"]
        parts.append(means)
    joined = pd.concat(parts).merge(
        steps[["process", "device", "step", "wall_ns", "gpu_sum_ns"]],
        on=["process", "device", "step"],
        validate="one_to_one",
    )
    joined["wall_ms"], joined["gpu_ms"] = joined["wall_ns"] / 1e6, joined["gpu_sum_ns"] / 1e6
    return joined.reset_index(drop=True)


def _far(points: pd.DataFrame, line: Line) -> list[int]:
    far = np.abs(line.residual) > regression.FAR * max(line.scale, 1e-9)
    return [int(s) for s in points["step"].to_numpy()[far]]


def what_if(line: Line, x: Floats, link: Link | None) -> list[WhatIf]:
    """What a step would take if the misses were others. Each line names what it assumes."""
    mean = float(x.mean())
    rows = [
        WhatIf(
            case="as measured",
            assumption=f"{mean:.2f} misses per layer-step",
            ms=_interval(line.at(np.array([mean]))),
        )
    ]
    for case, factor in (("every miss free", 0.0), ("half the misses", 0.5)):
        at = factor * mean
        beyond = "" if x.min() <= at <= x.max() else "; outside the measured range of misses"
        rows.append(
            WhatIf(
                case=case,
                assumption=f"the line holds down to {at:.2f} misses per layer-step{beyond}",
                ms=_interval(line.at(np.array([at]))),
            )
        )
    if link is not None:
        now = line.at(np.array([mean]))
        hidden = tuple(v - link.byte_ms_per_step for v in now)
        rows.append(
            WhatIf(
                case="copies hidden behind compute",
                assumption="all byte time overlaps other kernels; launches and latency stay",
                ms=_interval((hidden[0], hidden[1], hidden[2])),
            )
        )
        rows.append(_least(link))
    return rows


def _least(link: Link) -> WhatIf:
    """Lower bound of the copy time from bytes over the link's peak."""
    case = "least time of these bytes"
    if not link.bytes_per_step or not link.reference_GBps:
        return WhatIf(
            case=case,
            assumption="bytes over the link's peak",
            ms=None,
            withheld="needs row_bytes and a reference rate",
        )
    ms = link.bytes_per_step / link.reference_GBps / 1e6
    return WhatIf(
        case=case,
        assumption=f"{link.bytes_per_step / 1e6:,.1f} MB a step at {link.reference_GBps:.1f} GB/s",
        ms=Interval(estimate=ms, low=ms, high=ms),
    )


def _interval(values: tuple[float, float, float]) -> Interval:
    return Interval(estimate=values[0], low=values[1], high=values[2])
