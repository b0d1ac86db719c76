"""Concurrent streams: per-stream walls, the straggler, and two aggregate rates, both named.

tokens / wall of the slowest stream understates an engine at low concurrency, since streams are
admitted one after another; the steady-state rate looks at the span in which all of them decode.
"""

from __future__ import annotations

from lanescope.attribution.lanes.probes import SpeedLane
from lanescope.schemas.documents.speed import Concurrency, SpeedRow


def concurrency_of(lane: SpeedLane) -> list[Concurrency]:
    """One entry a concurrency above one (and repetition) of a lane's rows."""
    groups: dict[tuple[int, int], list[SpeedRow]] = {}
    for row in lane.rows:
        if row.concurrency > 1 and not row.warmup:
            groups.setdefault((row.concurrency, row.repetition), []).append(row)
    out = []
    for (concurrency, _), rows in sorted(groups.items()):
        slowest = max(rows, key=_end)
        start = min(r.start_s or 0.0 for r in rows)
        wall = _end(slowest) - start
        out.append(
            Concurrency(
                lane=lane.name,
                concurrency=concurrency,
                streams=len(rows),
                walls_s=[r.wall_s for r in rows],
                straggler=slowest.prompt,
                straggler_wall_s=slowest.wall_s,
                aggregate_tok_s=sum(r.tokens for r in rows) / wall,
                steady_tok_s=_steady(lane, rows),
            )
        )
    return out


def _end(row: SpeedRow) -> float:
    return (row.start_s or 0.0) + row.wall_s


def _steady(lane: SpeedLane, rows: list[SpeedRow]) -> float | None:
    """The sum of the streams' decode rates, if there is a time at which all of them decode."""
    if any(r.ttft_s is None for r in rows):
        return None
    first = max((r.start_s or 0.0) + (r.ttft_s or 0.0) for r in rows)
    last = min(_end(r) for r in rows)
    rates = [lane.rate(r) for r in rows]
    if first >= last or None in rates:
        return None
    return sum(r for r in rates if r)
