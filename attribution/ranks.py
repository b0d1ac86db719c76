"""Ranks: steps and collectives matched across processes and devices.

A rank is a process on a physical device that has measured steps. Nothing runs for one rank. What
is read here comes from the tables that `TABLES` makes, so that the ranks of one report and those of
several joined ones are treated alike.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import duckdb

from lanescope.attribution import collectives, engine
from lanescope.attribution.attribute import Analysis
from lanescope.attribution.results import int_spread, ms_spread
from lanescope.schemas.documents.attribution import (
    AttributionDocument,
    RankBucket,
    RankCollective,
    RankRow,
    Ranks,
    RankStep,
)
from lanescope.schemas.documents.closeup import RankLag
from lanescope.schemas.findings import Abstained, Abstention

#: Points of all lines of a figure, and lines.
MOST_POINTS = 2400
MOST_LAGS = 16

#: The bucket whose kernels are collectives.
COMMUNICATION = "communication"

#: What makes the tables of one report.
TABLES = ("ranks/rank_list", "ranks/rank_spans", "ranks/rank_calls", "ranks/rank_buckets")


def add(analysis: Analysis, doc: AttributionDocument) -> None:
    """Put the section `ranks` into the document, what it withholds, and the split of the bucket."""
    engine.run(analysis.con, TABLES[0])
    if engine.first(analysis.con, "SELECT count(*) FROM rank_list")[0] < 2:
        return
    for module in TABLES[1:]:
        engine.run(analysis.con, module)
    doc.ranks, withheld = section(analysis.con)
    doc.abstained += withheld
    if not doc.ranks.collectives:
        return
    rows = sum(r.steps for r in doc.ranks.ranks)
    for bucket in doc.buckets:
        if bucket.bucket == COMMUNICATION:
            wait = sum(c.wait_ns for c in doc.ranks.collectives)
            bucket.wait_ms_per_step = wait / rows / 1e6
            bucket.transfer_ms_per_step = (bucket.sum_ns - wait) / rows / 1e6


def section(con: duckdb.DuckDBPyConnection) -> tuple[Ranks, list[Abstention]]:
    """The ranks of `con`'s tables held against each other, and what is withheld."""
    found = listed(con)
    return found, hold(con, found)


def listed(con: duckdb.DuckDBPyConnection) -> Ranks:
    """Every rank by itself: steps and their wall."""
    engine.run(con, "ranks/rank_steps")
    who = engine.rows(con, "SELECT * FROM rank_list ORDER BY rank")
    walls: list[list[int]] = [[] for _ in who]
    for r in engine.rows(con, "SELECT rank, wall_ns FROM rank_steps"):
        walls[r["rank"]].append(r["wall_ns"])
    buckets: dict[int, list[RankBucket]] = defaultdict(list)
    for r in engine.rows(
        con, "SELECT * FROM rank_buckets ORDER BY bucket = 'idle', exclusive_ns DESC, bucket"
    ):
        per_step = r["exclusive_ns"] / len(walls[r["rank"]]) / 1e6
        buckets[r.pop("rank")].append(RankBucket(**r, exclusive_ms_per_step=per_step))
    return Ranks(
        count=len(who),
        ranks=[
            RankRow(
                report=r.get("report"),
                process=r["process"],
                device=r["device"],
                steps=len(w),
                wall_ms=ms_spread(w),
                buckets=buckets[r["rank"]],
            )
            for r, w in zip(who, walls, strict=True)
        ],
    )


def hold(
    con: duckdb.DuckDBPyConnection, found: Ranks, clock_error_ns: int | None = 0
) -> list[Abstention]:
    """Hold the ranks of `listed` against each other; what is withheld.

    clock_error_ns: by how much the clocks of two ranks may differ beyond those of one report; None
    where that is not known: steps are matched then, but no time of one is held against another.
    """
    rows = engine.rows(con, "SELECT * FROM rank_steps")
    if why := _unmatched(rows, found.count):
        return [
            Abstained.RANK_SKEW.because(why),
            Abstained.COLLECTIVES.because("steps do not match across ranks"),
        ]
    _steps(found, rows, clock_error_ns)
    if clock_error_ns is None:
        return []
    who = engine.rows(con, "SELECT * FROM rank_list ORDER BY rank")
    if why := collectives.match(con, [name(r) for r in who], clock_error_ns):
        return [Abstained.COLLECTIVES.because(why)]
    _collectives(con, found, clock_error_ns)
    return []


def name(rank: dict[str, Any]) -> str:
    """What to call a row of `rank_list` in a sentence."""
    of = f" of report {rank['report']}" if rank.get("report") is not None else ""
    return f"process {rank['process']} on GPU {rank['device']}{of}"


def _unmatched(rows: list[dict[str, Any]], count: int) -> str:
    """Why the steps cannot be matched; '' where every rank has every step index once."""
    for r in rows:
        if r["ranks"] != count:
            return f"step {r['step']} is measured in {r['ranks']} rows, yet there are {count} ranks"
    return ""


def _steps(found: Ranks, rows: list[dict[str, Any]], clock_error_ns: int | None) -> None:
    """Skew and slowest rank of every matched step."""
    steps: dict[int, RankStep] = {}
    slowest = [0] * found.count
    for r in rows:
        step = steps.setdefault(r["step"], _step(r, clock_error_ns))
        if r["slowest"]:
            rank = found.ranks[r["rank"]]
            step.slowest_report = rank.report
            step.slowest_process, step.slowest_device = rank.process, rank.device
            slowest[r["rank"]] += 1
    found.steps = list(steps.values())
    for rank, times in zip(found.ranks, slowest, strict=True):
        rank.slowest = times
    if clock_error_ns is not None:
        per_step = list({r["step"]: r for r in rows}.values())
        found.start_skew_ns = int_spread([r["start_skew_ns"] for r in per_step])
        found.end_skew_ns = int_spread([r["end_skew_ns"] for r in per_step])
        found.start_skew_p50_bounds_ns = _bounds(found.start_skew_ns.p50 or 0, clock_error_ns)
        found.end_skew_p50_bounds_ns = _bounds(found.end_skew_ns.p50 or 0, clock_error_ns)


def _step(row: dict[str, Any], clock_error_ns: int | None) -> RankStep:
    if clock_error_ns is None:
        return RankStep(step=row["step"], start_skew_ns=None, end_skew_ns=None)
    start, end = row["start_skew_ns"], row["end_skew_ns"]
    return RankStep(
        step=row["step"],
        start_skew_ns=start,
        end_skew_ns=end,
        start_skew_bounds_ns=_bounds(start, clock_error_ns),
        end_skew_bounds_ns=_bounds(end, clock_error_ns),
    )


def _bounds(skew: int, clock_error_ns: int) -> tuple[int, int] | None:
    """What a skew can be; None where no clock errs."""
    return (max(0, skew - clock_error_ns), skew + clock_error_ns) if clock_error_ns else None


_SUMS = (
    "sum(wait_ns)::BIGINT AS wait_ns, sum(transfer_ns)::BIGINT AS transfer_ns,"
    " sum(least_wait_ns)::BIGINT AS least, sum(most_wait_ns)::BIGINT AS most"
)


def _collectives(con: duckdb.DuckDBPyConnection, found: Ranks, clock_error_ns: int) -> None:
    """Wait and transfer, by function and by rank."""
    for r in engine.rows(
        con,
        "SELECT function AS name, count(DISTINCT (step, lane, number)) AS count,"
        f" {_SUMS}, count(*) FILTER (early) AS early FROM rank_collectives"
        " GROUP BY function ORDER BY sum(end_ns - start_ns) DESC, name",
    ):
        found.collectives.append(
            RankCollective(
                name=r["name"],
                count=r["count"],
                wait_ns=r["wait_ns"],
                transfer_ns=r["transfer_ns"],
                ended_early=r["early"],
                wait_bounds_ns=(r["least"], r["most"]) if clock_error_ns else None,
            )
        )
    totals = engine.rows(
        con, f"SELECT rank, {_SUMS} FROM rank_collectives GROUP BY rank ORDER BY rank"
    )
    for rank, mine in zip(found.ranks, totals, strict=True):
        rank.wait_ns, rank.transfer_ns = mine["wait_ns"], mine["transfer_ns"]
        rank.wait_ms_per_step = mine["wait_ns"] / rank.steps / 1e6
        rank.transfer_ms_per_step = mine["transfer_ns"] / rank.steps / 1e6
        if clock_error_ns:
            least, most = rank.wait_bounds_ns = (mine["least"], mine["most"])
            whole, per = mine["wait_ns"] + mine["transfer_ns"], rank.steps * 1e6
            rank.wait_bounds_ms_per_step = (least / per, most / per)
            rank.transfer_bounds_ms_per_step = ((whole - most) / per, (whole - least) / per)


def lags(analysis: Analysis) -> list[RankLag]:
    """How far every rank is behind the first one, by step; empty where steps do not match."""
    con = analysis.con
    if "rank_steps" not in {r["name"] for r in engine.rows(con, "SHOW TABLES")}:
        return []
    who = engine.rows(con, "SELECT * FROM rank_list ORDER BY rank")
    if _unmatched(engine.rows(con, "SELECT DISTINCT step, ranks FROM rank_steps"), len(who)):
        return []
    engine.set_variable(con, "most_lag_points", max(50, MOST_POINTS // min(len(who), MOST_LAGS)))
    engine.run(con, "ranks/rank_lags")
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in engine.rows(con, "SELECT * FROM rank_lags"):
        found[row["rank"]].append(row)
    return [
        RankLag(
            process=who[rank]["process"],
            device=who[rank]["device"],
            steps_per_bin=rows[0]["steps_per_bin"],
            step=[r["step"] for r in rows],
            start_ns=[r["start_ns"] for r in rows],
            end_ns=[r["end_ns"] for r in rows],
        )
        for rank, rows in list(found.items())[:MOST_LAGS]
    ]
