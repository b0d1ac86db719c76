"""Ranks of one trace: steps and collectives matched across processes and devices.

A rank is a process on a physical device that has measured steps. Nothing runs for one rank.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lanescope.attribution import engine
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


def add(analysis: Analysis, doc: AttributionDocument) -> None:
    """Put the section `ranks` into the document, what it withholds, and the split of the bucket."""
    doc.ranks, withheld = read(analysis)
    doc.abstained += withheld
    if doc.ranks is None or not doc.ranks.collectives:
        return
    rows = sum(r.steps for r in doc.ranks.ranks)
    for bucket in doc.buckets:
        if bucket.bucket == COMMUNICATION:
            wait = sum(c.wait_ns for c in doc.ranks.collectives)
            bucket.wait_ms_per_step = wait / rows / 1e6
            bucket.transfer_ms_per_step = (bucket.sum_ns - wait) / rows / 1e6


def read(analysis: Analysis) -> tuple[Ranks | None, list[Abstention]]:
    """The `ranks` section, None for one rank, and what it withholds."""
    count = analysis.rows(
        "SELECT count(DISTINCT (process, device)) AS n FROM steps_table WHERE measured"
    )[0]["n"]
    if count < 2:
        return None, []
    engine.run(analysis.con, "ranks/rank_steps")
    rows = analysis.rows("SELECT * FROM rank_steps ORDER BY step, process, device")
    walls: dict[tuple[int, int], list[int]] = {}
    for r in rows:
        walls.setdefault((r["process"], r["device"]), []).append(r["wall_ns"])
    section = Ranks(
        count=count,
        ranks=[
            RankRow(process=p, device=d, steps=len(w), wall_ms=ms_spread(w))
            for (p, d), w in sorted(walls.items())
        ],
    )
    if why := _unmatched(rows, count):
        return section, [
            Abstained.RANK_SKEW.because(why),
            Abstained.COLLECTIVES.because("steps do not match across ranks"),
        ]
    _steps(section, rows)
    withheld = _collectives(analysis, section)
    return section, [withheld] if withheld else []


def lags(analysis: Analysis) -> list[RankLag]:
    """How far every rank is behind the first one, by step; empty where steps do not match."""
    if "rank_steps" not in {r["name"] for r in analysis.rows("SHOW TABLES")}:
        return []
    ranks = analysis.rows("SELECT count(DISTINCT (process, device)) AS n FROM rank_steps")[0]["n"]
    if _unmatched(analysis.rows("SELECT DISTINCT step, ranks FROM rank_steps"), ranks):
        return []
    engine.set_variable(
        analysis.con, "most_lag_points", max(50, MOST_POINTS // min(ranks, MOST_LAGS))
    )
    engine.run(analysis.con, "ranks/rank_lags")
    found: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for row in analysis.rows("SELECT * FROM rank_lags"):
        found[row["process"], row["device"]].append(row)
    return [
        RankLag(
            process=process,
            device=device,
            steps_per_bin=rows[0]["steps_per_bin"],
            step=[r["step"] for r in rows],
            start_ns=[r["start_ns"] for r in rows],
            end_ns=[r["end_ns"] for r in rows],
        )
        for (process, device), rows in list(found.items())[:MOST_LAGS]
    ]


def _unmatched(rows: list[dict[str, Any]], count: int) -> str:
    """Why the steps cannot be matched; '' where every rank has every step index once."""
    for r in rows:
        if r["ranks"] != count:
            return f"step {r['step']} is measured in {r['ranks']} rows, yet there are {count} ranks"
    return ""


def _steps(section: Ranks, rows: list[dict[str, Any]]) -> None:
    """Skew and slowest rank of every matched step."""
    found: dict[int, RankStep] = {}
    for r in rows:
        step = found.setdefault(
            r["step"],
            RankStep(
                step=r["step"], start_skew_ns=r["start_skew_ns"], end_skew_ns=r["end_skew_ns"]
            ),
        )
        if r["slowest"]:
            step.slowest_process, step.slowest_device = r["process"], r["device"]
    section.steps = list(found.values())
    section.start_skew_ns = int_spread([s.start_skew_ns for s in section.steps])
    section.end_skew_ns = int_spread([s.end_skew_ns for s in section.steps])
    for rank in section.ranks:
        mine = (rank.process, rank.device)
        rank.slowest = sum((s.slowest_process, s.slowest_device) == mine for s in section.steps)


def _collectives(analysis: Analysis, section: Ranks) -> Abstention | None:
    """Wait and transfer of collectives, where every one has its match on every rank."""
    engine.run(analysis.con, "ranks/rank_collectives")
    if not analysis.rows("SELECT count(*) AS n FROM rank_collectives")[0]["n"]:
        return Abstained.COLLECTIVES.because("no collective kernel in the measured steps")
    odd = analysis.rows(
        "SELECT step, number, ranks, functions FROM rank_collectives"
        " WHERE functions <> 1 OR ranks <> (SELECT max(ranks) FROM rank_steps)"
        " ORDER BY step, number LIMIT 1"
    )
    if odd:
        o = odd[0]
        said = (
            f"has {o['functions']} different functions"
            if o["functions"] > 1
            else f"is on {o['ranks']} of {section.count} ranks"
        )
        return Abstained.COLLECTIVES.because(f"collective {o['number']} of step {o['step']} {said}")
    section.collectives = [
        RankCollective(**r)
        for r in analysis.rows(
            "SELECT function AS name, count(DISTINCT (step, number)) AS count,"
            " sum(wait_ns)::BIGINT AS wait_ns, sum(transfer_ns)::BIGINT AS transfer_ns,"
            " count(*) FILTER (early) AS ended_early FROM rank_collectives"
            " GROUP BY function ORDER BY sum(end_ns - start_ns) DESC, name"
        )
    ]
    totals = {
        (r["process"], r["device"]): r
        for r in analysis.rows(
            "SELECT process, device, sum(wait_ns)::BIGINT AS wait_ns,"
            " sum(transfer_ns)::BIGINT AS transfer_ns FROM rank_collectives"
            " GROUP BY process, device"
        )
    }
    for rank in section.ranks:
        mine = totals[rank.process, rank.device]
        rank.wait_ns, rank.transfer_ns = mine["wait_ns"], mine["transfer_ns"]
        rank.wait_ms_per_step = mine["wait_ns"] / rank.steps / 1e6
        rank.transfer_ms_per_step = mine["transfer_ns"] / rank.steps / 1e6
    return None
