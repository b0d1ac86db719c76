"""Frames that join the device side of a step to its host side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd

    from lanescope.attribution.attribute import Analysis


def steps_table(analysis: Analysis) -> pa.Table:
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
    order = {int(s): i for i, s in enumerate(host.segment)}
    rows = np.array([order[s] for s in table.column("segment").to_pylist()], dtype=np.int64)
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
    return table.append_column("period_ns", pa.array(_periods(analysis, table)))


def _periods(analysis: Analysis, table: pa.Table) -> list[int | None]:
    """Start to start on the device, where the host's cycle runs straight into the next step."""
    host = analysis.steps
    starts = set(host.start_ns.tolist())
    runs_on = {
        int(s): int(stop) in starts for s, stop in zip(host.segment, host.stop_ns, strict=True)
    }
    columns = [table.column(n).to_pylist() for n in ("process", "device", "segment", "start_ns")]
    rows = list(zip(*columns, strict=True))
    following: dict[tuple[int, int], int] = {}
    out: list[int | None] = [None] * len(rows)
    for i in range(len(rows) - 1, -1, -1):
        process, device, segment, start = rows[i]
        if runs_on[segment] and (process, device) in following:
            out[i] = following[process, device] - start
        following[process, device] = start
    return out


def steps_frame(analysis: Analysis) -> pd.DataFrame:
    """`steps_table` as a pandas frame."""
    frame: pd.DataFrame = steps_table(analysis).to_pandas()
    return frame
