"""The rows of a kernel summary, typed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from lanescope.attribution.ingest import stats_csv
from lanescope.attribution.ingest.stats_csv import Table
from lanescope.attribution.rules.names import base_name
from lanescope.schemas.errors import NoDeviceActivity, UnusableInput

#: Between the name and the grid of a row of a report by grid.
_GRID = " grid "
_MEMORY = ("[cuda mem", "[cuda unified")


@dataclass(frozen=True)
class Row:
    """One kernel of the summary. Times are ns; medians and spreads as far as the CSV gives them."""

    name: str
    function: str
    instances: int
    total_ns: int
    med_ns: float | None = None
    min_ns: int | None = None
    max_ns: int | None = None

    @property
    def mean_ns(self) -> float:
        """Mean duration [ns]."""
        return self.total_ns / self.instances


def counts_by_name(rows: list[Row]) -> list[int]:
    """Instances by name, whatever the grid: what the report without grids would say."""
    out: Counter[str] = Counter()
    for row in rows:
        out[row.name.partition(_GRID)[0]] += row.instances
    return list(out.values())


@dataclass(frozen=True)
class Call:
    """One CUDA API function of an API summary. host_ns: time inside it [ns]."""

    name: str
    calls: int
    host_ns: int


@dataclass
class Summary:
    """What the CSV holds: kernels, API calls where given, and what was wrong with it."""

    rows: list[Row]
    calls: list[Call] = field(default_factory=list)
    broken_rows: int = 0
    broken_calls: int = 0
    repeats: int = 0
    disagreeing: list[str] = field(default_factory=list)
    rounded: bool = False


def summary_of(tables: list[Table], path: Path) -> Summary:
    """The kernels of the first kernel summary in a file, and the API calls if it has them too.

    Raises `UnusableInput` where there is no kernel summary, `NoDeviceActivity` where it is empty.
    """
    kernels = [t for t in tables if t.kind == stats_csv.KERNEL_SUMMARY]
    if not kernels:
        raise UnusableInput(
            f"{path}: holds no kernel summary ({_shown(tables)})",
            "write it with nsys stats --report cuda_gpu_kern_sum --format csv",
        )
    # the report by grid splits what the plain one sums up: the same kernels again
    out = _kernels(kernels[0])
    out.repeats = len(kernels) - 1
    if not out.rows:
        raise NoDeviceActivity(
            f"{path}: the kernel summary has no kernels"
            + (f"; {out.broken_rows:,} rows cannot be read" if out.broken_rows else ""),
            "record the process that runs the model with nsys profile --trace=cuda",
        )
    for table in tables:
        if table.kind == stats_csv.API_SUMMARY and not out.calls:
            out.calls, out.broken_calls = _calls(table)
    return out


def calls_of(path: Path) -> tuple[list[Call], int]:
    """The API calls of a `cuda_api_sum` CSV, and how many rows could not be read."""
    for table in stats_csv.read(path):
        if table.kind == stats_csv.API_SUMMARY:
            return _calls(table)
    raise UnusableInput(
        f"{path}: holds no API summary", "write it with nsys stats --report cuda_api_sum"
    )


def _shown(tables: list[Table]) -> str:
    return "; ".join(", ".join(t.headings[:3]) + ", ..." for t in tables[:3])


def _kernels(table: Table) -> Summary:
    out = Summary([], broken_rows=table.broken)
    kind, grid = table.column("category"), table.column("grid")
    for cells in table.rows:
        name = cells[_at(table, "name")].strip()
        if kind is not None and cells[kind].strip() not in ("CUDA_KERNEL", "KERNEL", ""):
            continue
        if name.lower().startswith(_MEMORY):
            continue
        count = stats_csv.number(cells[_at(table, "instances")])
        total = _ns(table, cells, "total")
        if count is None or count != int(count) or count <= 0 or total is None or total < 0:
            out.broken_rows += 1
            continue
        if grid is not None:
            name = f"{name}{_GRID}{' '.join(cells[grid].split())}"
        out.rows.append(_row(table, cells, name, int(count), round(total)))
        out.rounded |= total != int(total)
        if not _agrees(table, cells, int(count), total):
            out.disagreeing.append(name)
    # milliseconds with decimals: more digits than these were there once
    out.rounded |= table.scale("total") > 1
    return out


def _row(table: Table, cells: list[str], name: str, count: int, total: int) -> Row:
    med, low, high = (_ns(table, cells, c) for c in ("med", "min", "max"))
    return Row(
        name=name,
        function=base_name(name.partition(_GRID)[0]),
        instances=count,
        total_ns=total,
        med_ns=float(med) if med is not None else None,
        min_ns=round(low) if low is not None else None,
        max_ns=round(high) if high is not None else None,
    )


def _agrees(table: Table, cells: list[str], count: int, total: Decimal) -> bool:
    """Whether the average times the count is the total, within the digits that are printed."""
    average = _ns(table, cells, "avg")
    if average is None:
        return True
    at = table.column("avg")
    assert at is not None
    shown = cells[at].partition(".")[2].strip(' "')
    digit = Decimal(table.scale("avg")) / (10 ** len(shown))
    slack = digit * count + Decimal(table.scale("total"))
    return bool(abs(average * count - total) <= slack)


def _calls(table: Table) -> tuple[list[Call], int]:
    out, broken = [], table.broken
    for cells in table.rows:
        count = stats_csv.number(cells[_at(table, "calls")])
        total = _ns(table, cells, "total")
        if count is None or total is None or count < 0:
            broken += 1
            continue
        out.append(Call(cells[_at(table, "name")].strip(), int(count), round(total)))
    return out, broken


def _at(table: Table, column: str) -> int:
    at = table.column(column)
    assert at is not None  # the kind of a table promises its columns
    return at


def _ns(table: Table, cells: list[str], column: str) -> Decimal | None:
    at = table.column(column)
    if at is None:
        return None
    value = stats_csv.number(cells[at])
    return None if value is None else value * table.scale(column)
