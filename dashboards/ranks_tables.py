"""Tables of ranks: who was slow, who waited, how far apart they were."""

from __future__ import annotations

from lanescope.dashboards.figures.look import bucket_colours
from lanescope.dashboards.tables import Col, Table, Value
from lanescope.schemas.documents.attribution import IntSpread, Ranks

#: In the order of `tables`.
IDS = ("ranks", "rank_buckets", "rank_skew", "collectives", "rank_steps")


def tables(found: Ranks | None) -> list[Table]:
    """All tables of ranks; none for a trace with one."""
    if found is None:
        return []
    return [ranks(found), buckets(found), skew(found), collectives(found), steps(found)]


def ranks(found: Ranks) -> Table:
    """One row a rank."""
    cols = (
        Col("process", "process", 0),
        Col("device", "gpu", 0),
        Col("steps", "steps", 0),
        Col("wall_ms_mean", "ms/step", 3),
        Col("wall_ms_p50", "p50", 3),
        Col("wall_ms_p95", "p95", 3),
        Col("wall_ms_min", "min", 3),
        Col("wall_ms_max", "max", 3),
        Col("slowest", "slowest", 0, hint="steps in which its wall is the longest, alone"),
        Col("wait_ms_per_step", "wait ms", 3, hint="in collectives, until the last rank's start"),
        Col("transfer_ms_per_step", "transfer ms", 3, hint="the rest of its time in collectives"),
    )
    rows: list[list[Value]] = [
        [
            r.process, r.device, r.steps,
            r.wall_ms.mean, r.wall_ms.p50, r.wall_ms.p95, r.wall_ms.min, r.wall_ms.max,
            r.slowest, r.wait_ms_per_step, r.transfer_ms_per_step,
        ]
        for r in found.ranks
    ]  # fmt: skip
    note = "Wall of a rank's own steps. Wait and transfer are summed kernel time in collectives."
    return Table("ranks", "Ranks", cols, rows, note)


def buckets(found: Ranks) -> Table:
    """One row a bucket, then idle and the wall; a column a rank."""
    several = len({r.report for r in found.ranks}) > 1
    cols = [Col("bucket", "bucket")]
    shares: list[dict[str, float]] = []
    for r in found.ranks:
        of = f"r{r.report} " if several else ""
        key = f"{of}p{r.process} gpu{r.device}"
        cols.append(Col(f"{key.replace(' ', '_')}_ms_per_step", key, 3))
        shares.append({b.bucket: b.exclusive_ms_per_step for b in r.buckets})
    names = dict.fromkeys(n for share in shares for n in share if n != "idle")
    rows: list[list[Value]] = [[n, *(share.get(n, 0.0) for share in shares)] for n in names]
    rows.append(["idle", *(share.get("idle", 0.0) for share in shares)])
    rows.append(["wall", *(r.wall_ms.mean for r in found.ranks)])
    return Table(
        "rank_buckets",
        "A step of each rank",
        cols,
        rows,
        "Exclusive ms per step: a column adds up to the rank's wall.",
        foot=2,
        swatches=bucket_colours(names),
    )


def skew(found: Ranks) -> Table:
    """One row a kind of skew over the matched steps."""
    cols = (
        Col("what", "latest less earliest"),
        Col("mean_ns", "mean ms", 6, scale=1e6),
        Col("p50_ns", "p50", 6, scale=1e6),
        Col("p95_ns", "p95", 6, scale=1e6),
        Col("min_ns", "min", 6, scale=1e6),
        Col("max_ns", "max", 6, scale=1e6),
    )
    pairs: list[tuple[str, IntSpread | None]] = [
        ("first kernel start", found.start_skew_ns),
        ("last kernel end", found.end_skew_ns),
    ]
    rows: list[list[Value]] = [
        [what, s.mean, s.p50, s.p95, s.min, s.max] for what, s in pairs if s is not None
    ]
    return Table("rank_skew", "Skew of a step across ranks", cols, rows)


def collectives(found: Ranks) -> Table:
    """One row a collective function."""
    cols = (
        Col("name", "collective"),
        Col("count", "count", 0, hint="each counted once over its ranks"),
        Col("wait_ns", "wait ms", 3, scale=1e6, hint="sum over all ranks and steps"),
        Col("transfer_ns", "transfer ms", 3, scale=1e6, hint="sum over all ranks and steps"),
        Col("ended_early", "ended early", 0, hint="kernels over before the last rank began"),
    )
    rows: list[list[Value]] = [[getattr(c, k.key) for k in cols] for c in found.collectives]
    note = "Sums over all ranks: waiting for the last one to begin, and the rest."
    return Table("collectives", "Collectives", cols, rows, note)


def steps(found: Ranks) -> Table:
    """One row a matched step."""
    cols = (
        Col("step", "step", 0),
        Col("start_skew_ns", "start skew ms", 6, scale=1e6),
        Col("end_skew_ns", "end skew ms", 6, scale=1e6),
        Col("slowest_process", "slowest process", 0),
        Col("slowest_device", "slowest gpu", 0),
    )
    rows: list[list[Value]] = [[getattr(s, c.key) for c in cols] for s in found.steps]
    note = "The slowest rank has the longest wall; none where two are equally long."
    return Table("rank_steps", "Steps across ranks", cols, rows, note)
