"""Several reports of one run, joined by the clock anchors that they recorded.

Every report is attributed as it is. An export says at which Unix time its clock began; the
difference of two such times is what its times are shifted by. Where there is none, or where the
reports cannot be of one run, nothing of one is held against another.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import duckdb
import pyarrow as pa

from lanescope._version import __version__
from lanescope.attribution import engine, ranks, rooms
from lanescope.attribution.attribute import Analysis, analyse
from lanescope.schemas.documents.attribution import Ranks
from lanescope.schemas.documents.ranks import JoinedReport, RanksDocument
from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.findings import Abstained, Abstention, RankAbstained
from lanescope.schemas.units import duration

Say = Callable[[str], None]

#: How well the recorded start of a session agrees with the machine's clock: six sessions of Nsight
#: Systems were held against the program's own readings of it, and agreed as far as those can tell.
ANCHOR_NS = 25_000
#: Linux slews a clock by no more (500 ppm): so far may it move between the starts of two sessions.
SLEW = 500e-6

_PARTS = ("list", "spans", "calls", "buckets")


@dataclass
class _Read:
    """What is kept of a report: its line in the document, and what tells whose it is."""

    line: JoinedReport
    uuids: set[str]
    places: set[tuple[int, str]]  # (process id, GPU UUID)


def join(
    paths: Sequence[Path],
    *,
    profile: str | None = None,
    window: str = "",
    clock_error_ns: int | None = None,
    use_cache: bool = True,
    say: Say = lambda _text: None,
) -> RanksDocument:
    """The ranks of `paths` held against each other.

    clock_error_ns: by how much the clocks of two machines may differ, where the user knows.
    Raises the errors of `analyse`, and `UnusableInput` for a report without measured steps.
    """
    with rooms.room(Path(tempfile.gettempdir()), "ranks") as folder:
        reads = []
        for number, path in enumerate(paths):
            say(f"report {number + 1} of {len(paths)}: {path.name}")
            with analyse(path, profile=profile, window=window, use_cache=use_cache, say=say) as a:
                reads.append(_read(a, number, folder))
        _place(reads)
        say("holding the ranks against each other")
        spill = folder / "spill"
        spill.mkdir()
        with engine.connect(spill) as con:
            return _document(con, reads, folder, clock_error_ns)


def _read(analysis: Analysis, number: int, folder: Path) -> _Read:
    """Keep a report's tables of ranks as Parquet."""
    source, info = analysis.staged.source, analysis.staged.info
    for module in ranks.TABLES:
        engine.run(analysis.con, module)
    span = analysis.rows(
        "SELECT min(start_ns) AS a, max(end_ns) AS b, count(DISTINCT rank) AS n FROM rank_spans"
    )[0]
    if not span["n"]:
        raise UnusableInput(
            f"{source.path}: no measured verification steps", "see lanescope attribute"
        )
    for part in _PARTS:
        target = folder / part / f"report={number}"
        target.mkdir(parents=True)
        analysis.con.table(f"rank_{part}").write_parquet(str(target / "rows.parquet"))
    by_gpu = {g["gpu"]: str(g.get("uuid") or "").strip("-0 ") for g in info.gpus}
    return _Read(
        JoinedReport(
            report=number,
            path=str(source.path),
            sha256=info.sha256,
            profile=analysis.profile.name,
            machine=number,
            zero_unix_ns=info.session_start_unix_ns,
            offset_ns=None,
            ranks=span["n"],
            start_ns=span["a"],
            end_ns=span["b"],
        ),
        {uuid for uuid in by_gpu.values() if uuid},
        {
            (r["process"], by_gpu[r["device"]])
            for r in analysis.rows("SELECT process, device FROM rank_list")
            if by_gpu.get(r["device"])
        },
    )


def _place(reads: list[_Read]) -> None:
    """Which reports are of one machine, and where each clock stands on the first one's."""
    for a, b in combinations(reads, 2):
        if a.uuids & b.uuids:
            old, new = max(a.line.machine, b.line.machine), min(a.line.machine, b.line.machine)
            for read in reads:
                if read.line.machine == old:
                    read.line.machine = new
    zero = reads[0].line.zero_unix_ns
    for read in reads:
        own = read.line.zero_unix_ns
        read.line.offset_ns = own - zero if own is not None and zero is not None else None


def _document(
    con: duckdb.DuckDBPyConnection, reads: list[_Read], folder: Path, told: int | None
) -> RanksDocument:
    lines = [r.line for r in reads]
    for part in _PARTS:
        con.read_parquet(f"{folder / part}/*/*.parquet", hive_partitioning=True).create_view(
            f"all_{part}"
        )
    con.register(
        "report_offsets",
        pa.table(
            {
                "report": pa.array([x.report for x in lines], pa.int64()),
                "offset_ns": pa.array([x.offset_ns or 0 for x in lines], pa.int64()),
            }
        ),
    )
    for part in _PARTS:
        engine.run(con, f"joined/rank_{part}")
    found = ranks.listed(con)
    error, basis = _clock(lines, told)
    refused = _refused(reads, error)
    withheld = refused or _held(con, found, error, basis)
    return RanksDocument(
        lanescope_version=__version__,
        reports=lines,
        joined=not refused,
        clock_error_ns=None if refused else error,
        clock_basis="" if refused else basis,
        ranks=found,
        abstained=withheld,
    )


def _clock(lines: list[JoinedReport], told: int | None) -> tuple[int | None, str]:
    """By how much two reports' clocks may differ, and why so; None where nobody knows."""
    zeros = [x.zero_unix_ns for x in lines if x.zero_unix_ns is not None]
    if len(lines) == 1:
        return 0, "one report"
    if told is not None:
        return told, "as given"
    if len({x.machine for x in lines}) > 1:
        return None, "the reports name no GPU in common: their machines' clocks may differ"
    if len(set(zeros)) == 1:
        return 0, "one session"
    apart = max(zeros, default=0) - min(zeros, default=0)
    return 2 * ANCHOR_NS + int(SLEW * apart), (
        f"one machine, sessions begun {duration(apart)} apart: twice "
        f"{duration(ANCHOR_NS)}, and what a clock may be slewed meanwhile (500 ppm)"
    )


def _refused(reads: list[_Read], error: int | None) -> list[Abstention]:
    """Why the reports are not held against each other; empty where nothing speaks against it."""
    lines = [r.line for r in reads]
    out = [
        RankAbstained.CLOCK_ANCHOR.because(f"{x.path} does not say when its clock began")
        for x in lines
        if x.zero_unix_ns is None and len(lines) > 1
    ]
    for a, b in combinations(reads, 2):
        if why := _not_one_run(a, b, error or 0, anchored=not out):
            out.append(RankAbstained.ONE_RUN.because(why))
    return out


def _not_one_run(a: _Read, b: _Read, error: int, anchored: bool) -> str:
    one, two = a.line, b.line
    if one.sha256 == two.sha256:
        return f"report {two.report} has the content of report {one.report}"
    for process, _ in sorted(a.places & b.places):
        return f"process {process} on one GPU is in report {one.report} and in report {two.report}"
    if not anchored:
        return ""
    spans = [(x.start_ns + (x.offset_ns or 0), x.end_ns + (x.offset_ns or 0)) for x in (one, two)]
    gap = max(s for s, _ in spans) - min(e for _, e in spans)
    if gap > error:
        return f"the steps of report {one.report} and report {two.report} lie {duration(gap)} apart"
    return ""


def _held(
    con: duckdb.DuckDBPyConnection, found: Ranks, error: int | None, basis: str
) -> list[Abstention]:
    """Hold the ranks against each other, unless a step lies beyond its namesake."""
    if found.count < 2:
        return [Abstained.RANK_SKEW.because("there is one rank", "give the other ranks' reports")]
    if error is not None and (why := _other_steps(con, error)):
        return [
            Abstained.RANK_SKEW.because(why),
            Abstained.COLLECTIVES.because("steps do not match across ranks"),
        ]
    withheld = ranks.hold(con, found, error)
    if error is None:
        withheld.append(RankAbstained.CLOCK_ERROR.because(f"no skew, no wait: {basis}"))
    return withheld


def _other_steps(con: duckdb.DuckDBPyConnection, error: int) -> str:
    """Whether the same index names different steps: they lie further apart than a step is long."""
    rows = engine.rows(
        con,
        "SELECT step, any_value(start_skew_ns) AS skew, max(wall_ns) AS wall FROM rank_steps"
        " GROUP BY step",
    )
    skew = statistics.median_low([r["skew"] for r in rows])
    wall = statistics.median_low([r["wall"] for r in rows])
    if skew - error <= wall:
        return ""
    return (
        f"steps of equal index begin {duration(skew)} apart, yet one takes {duration(wall)}: "
        "they are not the same steps"
    )
