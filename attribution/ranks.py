"""Ranks: steps and collectives matched across processes and devices.

A rank is a process on a physical device that has measured steps. Nothing runs for one rank. What
is read here comes from three tables (`rank_list`, `rank_spans`, `rank_calls`), so that the ranks of
one report and those of several joined ones are treated alike.
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

#: What makes the three tables of one report.
TABLES = ("ranks/rank_list", "ranks/rank_spans", "ranks/rank_calls")


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
    """The ranks of `con`'s three tables held against each other, and what is withheld."""
    engine.run(con, "ranks/rank_steps")
    who = engine.rows(con, "SELECT * FROM rank_list ORDER BY rank")
    rows = engine.rows(con, "SELECT * FROM rank_steps")
    walls: list[list[int]] = [[] for _ in who]
    for r in rows:
        walls[r["rank"]].append(r["wall_ns"])
    found = Ranks(
        count=len(who),
        ranks=[
            RankRow(process=r["process"], device=r["device"], steps=len(w), wall_ms=ms_spread(w))
            for r, w in zip(who, walls, strict=True)
        ],
    )
    if why := _unmatched(rows, len(who)):
        return found, [
            Abstained.RANK_SKEW.because(why),
            Abstained.COLLECTIVES.because("steps do not match across ranks"),
        ]
    _steps(found, rows)
    if why := collectives.match(con, [name(r) for r in who]):
        return found, [Abstained.COLLECTIVES.because(why)]
    _collectives(con, found)
    return found, []


def name(rank: dict[str, Any]) -> str:
    """What to call a row of `rank_list` in a sentence."""
    return f"process {rank['process']} on GPU {rank['device']}"


def _unmatched(rows: list[dict[str, Any]], count: int) -> str:
    """Why the steps cannot be matched; '' where every rank has every step index once."""
    for r in rows:
        if r["ranks"] != count:
            return f"step {r['step']} is measured in {r['ranks']} rows, yet there are {count} ranks"
    return ""


def _steps(found: Ranks, rows: list[dict[str, Any]]) -> None:
    """Skew and slowest rank of every matched step."""
    steps: dict[int, RankStep] = {}
    slowest = [0] * found.count
    for r in rows:
        step = steps.setdefault(
            r["step"],
            RankStep(
                step=r["step"], start_skew_ns=r["start_skew_ns"], end_skew_ns=r["end_skew_ns"]
            ),
        )
        if r["slowest"]:
            rank = found.ranks[r["rank"]]
            step.slowest_process, step.slowest_device = rank.process, rank.device
            slowest[r["rank"]] += 1
    found.steps = list(steps.values())
    found.start_skew_ns = int_spread([s.start_skew_ns for s in found.steps])
    found.end_skew_ns = int_spread([s.end_skew_ns for s in found.steps])
    for rank, times in zip(found.ranks, slowest, strict=True):
        rank.slowest = times


def _collectives(con: duckdb.DuckDBPyConnection, found: Ranks) -> None:
    """Wait and transfer, by function and by rank."""
    found.collectives = [
        RankCollective(**r)
        for r in engine.rows(
            con,
            "SELECT function AS name, count(DISTINCT (step, lane, number)) AS count,"
            " sum(wait_ns)::BIGINT AS wait_ns, sum(transfer_ns)::BIGINT AS transfer_ns,"
            " count(*) FILTER (early) AS ended_early FROM rank_collectives"
            " GROUP BY function ORDER BY sum(end_ns - start_ns) DESC, name",
        )
    ]
    totals = engine.rows(
        con,
        "SELECT rank, sum(wait_ns)::BIGINT AS wait_ns, sum(transfer_ns)::BIGINT AS transfer_ns"
        " FROM rank_collectives GROUP BY rank ORDER BY rank",
    )
    for rank, mine in zip(found.ranks, totals, strict=True):
        rank.wait_ns, rank.transfer_ns = mine["wait_ns"], mine["transfer_ns"]
        rank.wait_ms_per_step = mine["wait_ns"] / rank.steps / 1e6
        rank.transfer_ms_per_step = mine["transfer_ns"] / rank.steps / 1e6


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
