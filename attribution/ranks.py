"""Ranks of one trace: steps and collectives matched across processes and devices.

A rank is a process on a physical device that has measured steps. Nothing runs for one rank.
"""

from __future__ import annotations

from typing import Any

from lanescope.attribution import engine
from lanescope.attribution.attribute import Analysis
from lanescope.attribution.results import int_spread, ms_spread
from lanescope.schemas.documents.attribution import RankCollective, RankRow, Ranks, RankStep
from lanescope.schemas.findings import Abstained, Abstention


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
    return None
