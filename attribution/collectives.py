"""Collectives matched across ranks, or the reason why they are not: never guessed.

An export names no communicator. What tells one collective from another is the stream it ran on: a
stream runs its kernels in order, so the collectives of one stream keep theirs on every rank. Which
stream of one rank belongs to which of another is told by what they carry (the same functions at the
same places of the same steps) and by time: no rank can end an all-reduce before the last one has
begun it. Where neither tells, the order of start does if the kernels of a rank never overlap: two
such collectives in another order on another rank would each have to end before the other begins.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from lanescope.attribution import engine
from lanescope.attribution.ingest.stage import CLOCK_SLACK_NS

Edges = set[tuple[int, int]]

#: Two devices of one report may disagree by so much: each is aligned to the host's clock.
DEVICES_NS = 2 * CLOCK_SLACK_NS


def match(con: duckdb.DuckDBPyConnection, names: list[str], clock_error_ns: int = 0) -> str:
    """Make `rank_collectives` from `rank_calls`; the reason where that cannot be done, else ''.

    names: what to call each rank in a reason. clock_error_ns: by how much clocks of ranks may err
    beyond those of one report.
    """
    engine.set_variable(con, "clock_error_ns", clock_error_ns + DEVICES_NS)
    engine.run(con, "ranks/rank_order")
    found, why = _lanes(con, names)
    if why:
        return why
    con.register(
        "rank_lanes",
        pa.table(
            {
                "rank": pa.array([r for r, _, _ in found], pa.int64()),
                "stream": pa.array([s for _, s, _ in found], pa.int64()),
                "lane": pa.array([n for _, _, n in found], pa.int64()),
            }
        ),
    )
    engine.set_variable(con, "clock_error_ns", clock_error_ns)
    engine.run(con, "ranks/rank_collectives")
    return _contradiction(con, names, clock_error_ns + DEVICES_NS)


def _lanes(
    con: duckdb.DuckDBPyConnection, names: list[str]
) -> tuple[list[tuple[int, int, int]], str]:
    """(rank, stream, lane) of every stream with collectives; or why they have none."""
    streams: dict[int, list[int]] = {rank: [] for rank in range(len(names))}
    for row in engine.rows(con, "SELECT DISTINCT rank, stream FROM rank_order ORDER BY ALL"):
        streams[row["rank"]].append(row["stream"])
    if not any(streams.values()):
        return [], "no collective kernel in the measured steps"
    for rank, own in streams.items():
        if len(own) != len(streams[0]):
            return [], (
                f"{names[rank]} has collectives on {len(own)} streams, {names[0]} on "
                f"{len(streams[0])}"
            )
    if len(streams[0]) == 1:
        return [(rank, own[0], 0) for rank, own in streams.items()], ""
    engine.run(con, "ranks/rank_pairs")
    pairs = engine.rows(con, "SELECT * FROM rank_pairs")
    in_order = engine.first(
        con, "SELECT coalesce(bool_and(every_rank AND NOT crowded), true) FROM rank_order"
    )[0]
    out = [(0, stream, lane) for lane, stream in enumerate(streams[0])]
    for rank in range(1, len(names)):
        mine = [p for p in pairs if p["rank"] == rank]
        mapping, why = _mapping(streams[0], streams[rank], mine, in_order)
        if why:
            return [], f"{names[rank]} against {names[0]}: {why}"
        out += [(rank, mapping[stream], lane) for lane, stream in enumerate(streams[0])]
    return out, ""


def _mapping(
    first: list[int], own: list[int], pairs: list[dict[str, Any]], in_order: bool
) -> tuple[dict[int, int], str]:
    """Stream of rank 0 -> stream of another rank, where one answer alone fits; or why not."""
    edges = {(p["first_stream"], p["stream"]) for p in pairs}
    for stream in first:
        if not any(a == stream for a, _ in edges):
            return {}, f"no stream carries the same collectives as stream {stream}"
    mapping = _only(edges)
    if mapping is None and in_order:
        mapping = _only({(p["first_stream"], p["stream"]) for p in pairs if p["in_time"]})
    if mapping is None or len(mapping) < len(first):
        tied = ", ".join(str(s) for s in first if sum(a == s for a, _ in edges) > 1)
        return {}, f"nothing tells collectives of streams {tied or first} apart, nor their order"
    if set(first) == set(own) and any(a != b for a, b in mapping.items()):
        return {}, "collectives on streams of equal number do not fit one another"
    return mapping, ""


def _only(edges: Edges) -> dict[int, int] | None:
    """The only way to pair both sides, None if there are several or none.

    Where there is one way alone, some node always has a single edge left: follow those.
    """
    out: dict[int, int] = {}
    left = set(edges)
    while left:
        forced = next(
            (
                (a, b)
                for a, b in sorted(left)
                if sum(x == a for x, _ in left) == 1 or sum(y == b for _, y in left) == 1
            ),
            None,
        )
        if forced is None:
            return None
        out[forced[0]] = forced[1]
        left = {(a, b) for a, b in left if a != forced[0] and b != forced[1]}
    return out


def _contradiction(con: duckdb.DuckDBPyConnection, names: list[str], slack_ns: int) -> str:
    """What shows that matched kernels are not one collective; '' where nothing does."""
    odd = engine.rows(
        con,
        "SELECT step, number, ranks, function_a, function_b FROM rank_collectives"
        f" WHERE function_a <> function_b OR ranks <> {len(names)}"
        " ORDER BY step, lane, number LIMIT 1",
    )
    if odd:
        o = odd[0]
        said = (
            f"is on {o['ranks']} of {len(names)} ranks"
            if o["ranks"] != len(names)
            else f"is {o['function_a']} on one rank and {o['function_b']} on another"
        )
        return f"collective {o['number']} of step {o['step']} {said}"
    # Of two ranks, one may send and be done. Of more, a kernel that is over before another has
    # begun belongs to some of them only.
    apart = engine.rows(
        con,
        "SELECT rank, step, number, function, apart_ns FROM rank_collectives"
        f" WHERE apart_ns > {int(slack_ns)} AND (every_rank OR ranks > 2)"
        " ORDER BY apart_ns DESC, step, number LIMIT 1",
    )
    if apart:
        a = apart[0]
        return (
            f"{a['function']} {a['number']} of step {a['step']} ends on {names[a['rank']]} "
            f"{a['apart_ns']:,} ns before the last rank begins it: it is not one of all ranks"
        )
    return ""
