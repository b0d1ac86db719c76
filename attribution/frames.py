"""Frames that join the device side of a step to its host side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lanescope.attribution.ingest.ids import Ints

if TYPE_CHECKING:
    import pandas as pd

    from lanescope.attribution.attribute import Analysis


def steps_table(analysis: Analysis) -> pa.Table:
    """The table of steps, see `_steps_table`; made once an analysis."""
    if analysis.steps_out is None:
        analysis.steps_out = _steps_table(analysis)
    return analysis.steps_out


def _steps_table(analysis: Analysis) -> pa.Table:
    """One row a (verification step, device): columns of steps.sql, process as OS pid, and

    period_ns     first kernel start to that of the next step on the device; NULL before a prefill
    host_wait_ns  host time in blocking waits within the step's cycle; launch_ns in launch calls
    graph_launches, eager_launches   API calls within the step's cycle
    """
    table = analysis.con.sql(
        "SELECT s.*, p.pid FROM steps_table AS s JOIN process_ids AS p USING (process)"
        " ORDER BY s.process, s.step, s.device"
    ).to_arrow_table()
    host = analysis.steps
    rows = host.rows_of(table.column("segment").to_numpy())
    table = table.set_column(table.column_names.index("process"), "process", table.column("pid"))
    table = table.drop_columns(["pid"])
    extra = {
        "host_wait_ns": host.wait_ns,
        "launch_ns": host.launch_ns,
        "graph_launches": host.graph_launches,
        "eager_launches": host.kernel_launches,
    }
    for name, values in extra.items():
        table = table.append_column(name, pa.array(values[rows]))
    period, known = _periods(analysis, table, rows)
    return table.append_column("period_ns", pa.array(period, mask=~known))


def _periods(analysis: Analysis, table: pa.Table, rows: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Start to start on the device, and where the host's cycle runs straight into the next step.

    rows: where each row of `table` (in order of process and step) lies in `analysis.steps`.
    """
    host = analysis.steps
    runs_on = np.isin(host.stop_ns, host.start_ns)[rows]
    process, device, start = (table.column(n).to_numpy() for n in ("process", "device", "start_ns"))
    period, known = np.zeros(len(start), dtype=np.int64), np.zeros(len(start), dtype=bool)
    places = np.lexsort((np.arange(len(start)), device, process))
    here, following = places[:-1], places[1:]
    same = (process[here] == process[following]) & (device[here] == device[following])
    period[here] = start[following] - start[here]
    known[here] = same & runs_on[here]
    return period, known


def steps_frame(analysis: Analysis) -> pd.DataFrame:
    """`steps_table` as a pandas frame."""
    frame: pd.DataFrame = steps_table(analysis).to_pandas()
    return frame
