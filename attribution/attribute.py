"""The main job, end to end: a path in, one typed result out. No step reaches back.

open_trace -> host side -> phases -> SQL modules -> document and frames
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from lanescope.attribution import engine, measure, rooms, tables
from lanescope.attribution.host import StepHost, step_host
from lanescope.attribution.ingest import Staged, open_trace
from lanescope.attribution.ingest.source import Kind
from lanescope.attribution.ingest.stats_csv import is_summary
from lanescope.attribution.phases.assigning import Phased, phase
from lanescope.attribution.rules import profile as profiles
from lanescope.attribution.rules.names import function_name
from lanescope.attribution.rules.profile import Profile
from lanescope.attribution.summary.attribution import attribute_summary
from lanescope.attribution.summary.reading import Given
from lanescope.attribution.tables import HostSide
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.documents.misses import ScoreRow
from lanescope.schemas.errors import (
    InternalError,
    NoDeviceActivity,
    UnusableInput,
    UsageError,
)

if TYPE_CHECKING:
    import pandas as pd

    from lanescope.attribution.copies.results import CopiesResult, Learned

#: The bucket of graphs traced as one block: time whose kernels the trace does not hold.
GRAPH_BLOCKS = "graph_blocks"
_BLOCK_NAME = -2

Say = Callable[[str], None]


def _quiet(_text: str) -> None:
    """Progress goes nowhere unless somebody asks for it."""


def _nothing(_analysis: Analysis) -> None:
    """Nobody waits for the kernels' places."""


@dataclass
class Analysis:
    """A trace with its attribution loaded in DuckDB: what results and views are read from.

    Tables: segments, kernel_segments, kernel_rows, facts, gains, phases_table, steps_table,
    step_buckets, durations, buckets_table, names_table, kernels_out (see `sql/`).
    """

    con: duckdb.DuckDBPyConnection
    staged: Staged
    profile: Profile
    host: HostSide
    phased: Phased
    measured: list[bool]
    window: str
    spill: Path = field(repr=False)
    #: known once the kernels are placed
    steps: StepHost = field(init=False, repr=False)
    #: `frames.steps_table`, once somebody has asked for it
    steps_out: pa.Table | None = field(default=None, repr=False)

    def close(self) -> None:
        """Free the connection, its spill folder, and a folder staged for this call alone."""
        self.con.close()
        rooms.remove(self.spill)
        self.staged.close()

    def __enter__(self) -> Analysis:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a small query, as dictionaries."""
        return engine.rows(self.con, query)

    def frame(self, table: str) -> pd.DataFrame:
        """A whole table as a pandas frame."""
        frame: pd.DataFrame = self.con.table(table).df()
        return frame


def analyse(
    path: str | Path | Staged,
    *,
    profile: str | None = None,
    window: str = "",
    use_cache: bool = True,
    say: Say = _quiet,
    placed: Callable[[Analysis], None] = _nothing,
) -> Analysis:
    """Stage a trace, unless it is, and run every SQL module over it. Close the result when done.

    placed: called when every kernel has its place, before the sums over them.

    Raises `UnusableInput` for what is no trace, `NoDeviceActivity` for a trace without GPU work,
    `UsageError` for a window or profile that does not fit, `InternalError` if conservation broke.
    """
    staged = path if isinstance(path, Staged) else open_trace(path, use_cache, say)
    with contextlib.ExitStack() as undo:
        undo.callback(staged.close)
        _require_work(staged)
        spill = engine.spill_folder(staged.folder)
        undo.callback(rooms.remove, spill)
        with ThreadPoolExecutor(1) as pool:
            read = pool.submit(tables.host_side, staged.folder, staged.info)
            con = undo.enter_context(engine.connect(spill))
            tables.attach(con, staged.folder)
            host = read.result()
        names = con.execute("SELECT name, short, demangled, mangled FROM names").fetchall()
        functions = {n: function_name(s, d, m) or f"#{n}" for n, s, d, m in names}
        chosen = profiles.load(profile) if profile else profiles.detect(set(functions.values()))
        say("finding phases and steps")
        phased = phase(staged, host, chosen)
        origin = engine.first(con, "SELECT min(start_ns) FROM kernels")
        flags, words = measure.measured(
            phased.assignment.segments, window, host.ranges, int(origin[0] or 0)
        )
        _register(con, staged, host, phased, flags, functions, chosen)
        result = Analysis(con, staged, chosen, host, phased, flags, words, spill)
        for module in PLACED:
            engine.run(con, module)
        placed(result)  # early: what others begin then takes longest
        result.steps = step_host(phased.assignment, host)
        # finding phases and steps is done: what only that read makes room
        result.host = replace(host, work={n: host.work[n] for n in ("kernels", "gpu_ns")})
        say("summing up kernels")
        for module in SUMS:
            engine.run(con, module)
        _check_conservation(result)
        undo.pop_all()
    return result


#: Modules that say where each kernel belongs, in the order in which they read one another.
PLACED = ("kernels/kernel_segments", "kernels/kernel_rows", "kernels/crowd")
#: Modules that sum up.
SUMS = (
    "kernels/facts",
    "kernels/gains",
    "phases/phases",
    "steps/steps",
    "buckets/step_buckets",
    "buckets/durations",
    "buckets/buckets",
    "buckets/names",
    "kernels/kernels_out",
    "kernels/conservation",
)


def _require_work(staged: Staged) -> None:
    """Kernels, or graphs traced as blocks, tell of steps; copies alone tell nothing."""
    rows = staged.info.rows
    if rows.get("kernels") or rows.get("graph_runs"):
        return
    missing = "no table" if "kernels" in staged.info.absent else "no rows in table"
    where = f"{missing} CUPTI_ACTIVITY_KIND_KERNEL: 0 kernels, {rows.get('api', 0):,} API calls"
    if staged.source.kind is Kind.STATS_CSV:
        where = "no kernel in the timeline"
    others = rows.get("memcpy", 0) + rows.get("memset", 0)
    what = f"{others:,} memory operations" if others else "no device activity captured"
    raise NoDeviceActivity(
        f"{staged.source.path}: {where}; {what}",
        "record the process that runs the model, while it serves, with"
        " nsys profile --trace=cuda,nvtx",
    )


def _register(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    host: HostSide,
    phased: Phased,
    flags: list[bool],
    functions: dict[int, str],
    profile: Profile,
) -> None:
    """Hand the assignment and the names to SQL."""
    segments = phased.assignment.segments
    unknown = len(staged.info.processes)
    con.register(
        "segments",
        pa.table(
            {
                "segment": pa.array(range(len(segments)), pa.int64()),
                "process": pa.array(
                    [-1 if s.process == unknown else s.process for s in segments], pa.int32()
                ),
                "phase": pa.array([s.phase for s in segments]),
                "part": pa.array([s.part for s in segments]),
                "range_name": pa.array([s.range_name for s in segments]),
                "evidence": pa.array([s.evidence for s in segments]),
                "start_ns": pa.array([s.start_ns for s in segments], pa.int64()),
                "end_ns": pa.array([s.end_ns for s in segments], pa.int64()),
                "step": pa.array([s.step for s in segments], pa.int64()),
                "request": pa.array([s.request for s in segments], pa.int64()),
                "warmup": pa.array([s.warmup for s in segments]),
                "measured": pa.array(flags),
            }
        ),
    )
    con.register(
        "assigned",
        pa.table(
            {
                "launch": host.launches.api,
                "segment": phased.assignment.segment,
                "layer": phased.assignment.layer,
            }
        ),
    )
    con.register(
        "outside_segments",
        pa.table(
            {
                "process": pa.array([*range(unknown), -1], pa.int32()),
                "segment": pa.array(range(unknown + 1), pa.int64()),
            }
        ),
    )
    con.register("node_layers", phased.node_layers)
    names = sorted(functions)
    labels = [functions[n] for n in names]
    con.register(
        "buckets_of_names",
        pa.table(
            {
                "name": pa.array([*names, _BLOCK_NAME], pa.int64()),
                "function": pa.array([*labels, "CUDA graph (one block)"]),
                "bucket": pa.array(
                    [*(profile.bucket_of(functions[n]) for n in names), GRAPH_BLOCKS]
                ),
            }
        ),
    )
    con.register(
        "process_ids",
        pa.table(
            {
                "process": pa.array([p["process"] for p in staged.info.processes], pa.int32()),
                "pid": pa.array([p["pid"] for p in staged.info.processes], pa.int64()),
            }
        ),
    )
    engine.set_variable(con, "blocks_present", staged.info.rows.get("graph_runs", 0) > 0)


def _check_conservation(result: Analysis) -> None:
    """No join changed the number of kernels or their time; buckets and idle make the wall."""
    found = result.rows("SELECT * FROM conservation")[0]
    before = (found["export_kernels"], found["export_ns"])
    after = (found["fact_kernels"], found["fact_ns"])
    if before != after:
        raise InternalError(f"conservation broken: {before} kernels and ns became {after}")
    if found["open_steps"]:
        raise InternalError(f"buckets and idle miss the wall in {found['open_steps']} steps")


class Attribution:
    """The result of `lanescope.attribute`: the document, and one pandas frame a table.

    Units stand in the column names; times are integer nanoseconds. A kernel summary has a document,
    `buckets` and `phases`; what needs a timeline raises `UnusableInput`.
    """

    def __init__(
        self,
        analysis: Analysis | None,
        document: AttributionDocument,
        copies: CopiesResult | None = None,
    ) -> None:
        self._analysis = analysis
        self.document = document
        self._copies = copies

    @property
    def steps(self) -> pd.DataFrame:
        """One row a (verification step, device)."""
        from lanescope.attribution.frames import steps_frame

        return steps_frame(self.analysis)

    @property
    def step_buckets(self) -> pd.DataFrame:
        """One row a (verification step, device, bucket)."""
        return self.analysis.frame("step_buckets")

    @property
    def buckets(self) -> pd.DataFrame:
        """One row a bucket over the measured steps."""
        import pandas as pd

        return pd.DataFrame([b.model_dump() for b in self.document.buckets])

    @property
    def phases(self) -> pd.DataFrame:
        """One row a (process, device, phase, part, range name)."""
        import pandas as pd

        return pd.DataFrame([p.model_dump() for p in self.document.phases])

    @property
    def kernels(self) -> pd.DataFrame:
        """One row a kernel execution. Millions of rows for a large trace."""
        return self.analysis.frame("kernels_out")

    @property
    def layer_steps(self) -> pd.DataFrame | None:
        """One row a layer-step: its misses with their interval. None without row copies."""
        return self._copies.layer_steps if self._copies else None

    def score(self, truth: str | Path) -> ScoreRow:
        """Score the misses against a sidecar of exact counts, see `copies.truth`.

        Raises `UnusableInput` when there is nothing to score or it does not line up.
        """
        from lanescope.attribution.copies import truth as sidecar

        copies, counts = self._copies, sidecar.load(Path(truth))
        if (
            copies is None
            or copies.misses is None
            or copies.layer_steps is None
            or copies.means is None
        ):
            raise UnusableInput(
                f"{truth}: the trace gives no misses to score", "see the abstentions"
            )
        return sidecar.score(copies.layer_steps, copies.means, copies.misses.per_layer_step, counts)

    @property
    def analysis(self) -> Analysis:
        """The tables behind the result, in DuckDB."""
        if self._analysis is None:
            raise UnusableInput(
                f"{self.document.trace.path}: a kernel summary has no timeline",
                "give the trace itself, or a cuda_gpu_trace CSV",
            )
        return self._analysis

    def close(self) -> None:
        """Free the tables; the document stays."""
        if self._analysis is not None:
            self._analysis.close()

    def __enter__(self) -> Attribution:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """How a notebook shows the result."""
        table = self.buckets.to_html(index=False, border=0) if self.document.buckets else ""
        steps = self.document.steps
        head = f"{steps.measured} measured steps" if steps else "no steps"
        each = f", {steps.wall_ms.mean:.3f} ms each" if steps and steps.wall_ms else ""
        return f"<p><b>{head}{each}</b></p>{table}"


def attribute(
    path: str | Path | Staged,
    *,
    profile: str | None = None,
    window: str = "",
    use_cache: bool = True,
    say: Say = _quiet,
    given: Given | None = None,
    api: str | Path | None = None,
    ahead: Callable[[Analysis], None] | None = None,
    meanwhile: Callable[[Analysis], None] | None = None,
) -> Attribution:
    """Attribute a trace: phases, verification steps, cost buckets.

    path: a SQLite export (plain, .xz, .zst, .gz), a folder of Parquet tables, an .nsys-rep, or a
    CSV of `nsys stats` (`cuda_gpu_trace`, `cuda_gpu_kern_sum`); or what `open_trace` made of one.
    profile: a bundled profile's name or a TOML file; chosen by the kernel names if None.
    window: which steps to measure, see `measure.measured`; all but warm-up if ''.
    given, api: for a kernel summary alone: known passes and layers, and a `cuda_api_sum` CSV.
    ahead: called as soon as every kernel has its place, to start on what needs no more.
    meanwhile: called while the row copies are worked out, to do what does not need them.

    Raises the errors of `analyse`.
    """
    from lanescope.attribution import ranks
    from lanescope.attribution.copies.results import finish, prepare
    from lanescope.attribution.results import document

    if not isinstance(path, Staged) and is_summary(Path(path)):
        if window:
            raise UsageError("--window: a kernel summary has no timeline", "leave it out")
        known, calls = given or Given(), Path(api) if api else None
        return Attribution(None, attribute_summary(Path(path), profile, known, calls))
    if given or api:
        raise UsageError(
            "--steps, --layers, --requests and --api are for a kernel summary",
            "leave them out: a timeline is counted, not divided",
        )
    learning: list[Future[Learned | None]] = []

    def learn(analysis: Analysis) -> None:
        say("reading the row copies")
        learning.append(pool.submit(prepare(analysis)))

    def learn_early(analysis: Analysis) -> None:
        if not engine.is_large(analysis.staged.info.rows.get("kernels", 0)):
            learn(analysis)

    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as undo:  # NumPy here, DuckDB there
        analysis = analyse(
            path, profile=profile, window=window, use_cache=use_cache, say=say, placed=learn_early
        )
        undo.callback(analysis.close)
        if ahead is not None:
            ahead(analysis)
        if not learning:
            engine.step_aside(analysis.con)
            learn(analysis)
        doc = document(analysis)
        ranks.add(analysis, doc)
        if meanwhile is not None:
            meanwhile(analysis)
        copies = finish(analysis, learning[0].result())
        doc.misses, doc.link, doc.model = copies.misses, copies.link, copies.model
        doc.warnings += copies.warnings
        doc.abstained += copies.abstained
        undo.pop_all()
    return Attribution(analysis, doc, copies)


def measured_array(analysis: Analysis) -> np.ndarray:
    """One flag a row of `analysis.steps`: whether the step is measured."""
    return np.array([analysis.measured[i] for i in analysis.steps.segment], dtype=bool)
