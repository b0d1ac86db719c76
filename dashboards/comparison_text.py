"""A comparison in the terminal: what differs first, then what changed, by how much, how surely."""

from __future__ import annotations

from rich.console import Console

from lanescope.dashboards.terminal import Column, sentence, table
from lanescope.schemas.documents.comparison import (
    ComparisonDocument,
    MetricDelta,
    PairDocument,
)
from lanescope.schemas.units import significant

LANES = (
    Column("lane", numeric=False),
    Column("steps"),
    Column("requests"),
    Column("wall ms"),
    Column("busy ms"),
    Column("GPU sum ms"),
    Column("tokens/step"),
    Column("GPU", numeric=False),
)
DELTAS = (
    Column("per step", numeric=False),
    Column("before"),
    Column("after"),
    Column("sign", numeric=False, drop_order=1),
    Column("change"),
    Column("95 %"),
    Column("certainty", numeric=False),
    Column("halves"),
)


def _ms(value: float | None) -> str:
    return "-" if value is None else significant(value)


def _small(value: float, sign: str = "+") -> str:
    """A difference with enough decimals to be seen, and no more."""
    return f"{value:{sign}.{3 if abs(value) >= 0.01 else 5}f}"


def _delta(d: MetricDelta) -> list[str]:
    floor = "-"
    if d.noise is not None:
        floor = "±" + _small(max(abs(d.noise.incumbent_ms), abs(d.noise.candidate_ms)), "")
    return [
        d.metric,
        _ms(d.incumbent_ms),
        _ms(d.candidate_ms),
        d.sign,
        _small(d.delta_ms),
        "±" + _small((d.high_ms - d.low_ms) / 2, ""),
        d.certainty,
        floor,
    ]


def show(doc: ComparisonDocument, con: Console) -> None:
    """The whole comparison."""
    rows = [
        [
            lane.name,
            str(lane.steps),
            "-" if lane.requests is None else str(lane.requests),
            _ms(lane.wall_ms),
            _ms(lane.busy_ms),
            _ms(lane.sum_ms),
            "-" if lane.accepted_per_step is None else f"{lane.accepted_per_step:.3f}",
            lane.gpu or "-",
        ]
        for lane in doc.lanes
    ]
    table("Lanes", LANES, rows, con)
    for differs in doc.differs:
        note = f" ({differs.note})" if differs.note else ""
        values = " | ".join(differs.values)
        sentence(con, f"differs: {differs.what}: {values}: {differs.effect}{note}")
    for pair in doc.pairs:
        _pair(pair, con)
    _axis(doc, con)
    for finding in doc.warnings:
        sentence(con, f"! {finding.message}. {finding.advice}")
    for gap in doc.abstained:
        sentence(con, f"? {gap.what}: {gap.why}. {gap.remedy}")
    for pair in doc.pairs:
        sentence(con, pair.headline)


def _pair(pair: PairDocument, con: Console) -> None:
    con.print()
    title = f"{pair.candidate} against {pair.incumbent}"
    for refusal in (*pair.refused, *pair.withheld):
        sentence(con, f"withheld: {refusal.what}: {refusal.why}. {refusal.remedy}")
    if pair.refused:
        return
    how = "step by step" if pair.paired else "two samples of steps"
    table(f"{title}, ms a step, {how}", DELTAS, [_delta(d) for d in pair.deltas], con)
    sentence(
        con,
        "halves: each lane's own steps, one half against the other: what no change looks like",
    )
    wall = pair.deltas[0]
    sentence(
        con,
        f"median step: {_ms(wall.median_incumbent_ms)} before, {_ms(wall.median_candidate_ms)} "
        f"after, {_small(wall.median_delta_ms)} "
        f"[{_small(wall.median_low_ms)}, {_small(wall.median_high_ms)}]",
    )
    if pair.waterfall is not None:
        _waterfall(pair, con)
    if pair.per_token:
        token_columns = (
            Column("per accepted token", numeric=False),
            Column("before ms"),
            Column("after ms"),
            Column("change ms"),
            Column("95 %"),
        )
        rows = [
            [
                t.metric,
                _ms(t.incumbent_ms),
                _ms(t.candidate_ms),
                f"{t.delta_ms:+.3f}",
                f"[{t.low_ms:+.3f}, {t.high_ms:+.3f}]",
            ]
            for t in pair.per_token
        ]
        table(f"{title}, per accepted token (acceptance as given)", token_columns, rows, con)
    if pair.counts:
        count_columns = (
            Column("as each attribution states it", numeric=False),
            Column("before"),
            Column("after"),
            Column("change"),
        )
        rows = [
            [
                f"{c.what}, {c.unit}" if c.unit else c.what,
                _ms(c.incumbent),
                _ms(c.candidate),
                "-" if c.delta is None else f"{c.delta:+.4g}",
            ]
            for c in pair.counts
        ]
        table(f"{title}, counts and rates", count_columns, rows, con)
    if pair.kernels:
        kernel_columns = (
            Column("kernel", numeric=False),
            Column("", numeric=False),
            Column("before ms"),
            Column("after ms"),
            Column("change ms"),
        )
        rows = [
            [
                k.name,
                k.change,
                f"{k.incumbent_ms:.4f}",
                f"{k.candidate_ms:.4f}",
                f"{k.delta_ms:+.4f}",
            ]
            for k in pair.kernels
        ]
        table(f"{title}, kernels that changed most, a step", kernel_columns, rows, con)


def _waterfall(pair: PairDocument, con: Console) -> None:
    """The bars in ns, so that anyone can add them up."""
    fall = pair.waterfall
    if fall is None:
        return
    columns = (Column("from step to step (exclusive time)", numeric=False), Column("ns"))
    rows = [[f"a step of {pair.incumbent}", f"{fall.from_ns:,}"]]
    rows += [[bar.bucket, f"{bar.delta_ns:+,}"] for bar in fall.bars if bar.delta_ns]
    rows.append([f"a step of {pair.candidate}", f"{fall.to_ns:,}"])
    table("", columns, rows, con)


def _axis(doc: ComparisonDocument, con: Console) -> None:
    if doc.trend is not None:
        columns = (
            Column(doc.trend.axis, numeric=True),
            Column("lane", numeric=False),
            Column("wall ms"),
            Column("misses/layer-step"),
        )
        points = sorted(doc.trend.points, key=lambda p: p.x)
        rows = [[f"{p.x:g}", p.lane, _ms(p.wall_ms), _ms(p.misses)] for p in points]
        table(f"Over {doc.trend.axis}", columns, rows, con)
        sentence(
            con,
            f"the step {doc.trend.direction} with {doc.trend.axis}: "
            f"{doc.trend.wall_slope_ms:+.4g} ms a unit (least squares)",
        )
    if doc.model is not None:
        found = doc.model
        sentence(
            con,
            f"step_ms = {found.base_ms:.3f} + {found.ms_per_miss:.3f} x misses per layer-step "
            f"(R2 {found.r2:.3f}, {found.n} lanes): {found.verdict}",
        )
