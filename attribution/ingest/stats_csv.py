"""CSV text of `nsys stats`: which reports a file holds, and their cells.

A file may hold several reports one after another (what `nsys stats --format csv` prints), with
titles, progress lines and blank lines between them, a byte-order mark, CRLF ends, commas, tabs or
semicolons. Headings have been spelled in several ways over the years (`Time(%)`, `Duration(nsec)`,
`Average`) and carry the unit that `--timeunit` asked for; cells may have thousands separators.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path

from lanescope.attribution.ingest import source
from lanescope.schemas.errors import UnusableInput

_HEADING = re.compile(r"^(?P<word>.*?)\s*(?:\((?P<unit>[^()]*)\))?\s*$")
_TIME_UNITS = {
    **dict.fromkeys(("", "ns", "nsec", "nanoseconds"), 1),
    **dict.fromkeys(("us", "usec", "µs", "μs", "microseconds"), 1_000),
    **dict.fromkeys(("ms", "msec", "milliseconds"), 1_000_000),
    **dict.fromkeys(("s", "sec", "seconds"), 1_000_000_000),
}
#: heading word, lower case, without blanks -> our name
_WORDS = {
    "time": "share",
    "totaltime": "total",
    "instances": "instances",
    "numcalls": "calls",
    "calls": "calls",
    "avg": "avg",
    "average": "avg",
    "med": "med",
    "median": "med",
    "min": "min",
    "minimum": "min",
    "max": "max",
    "maximum": "max",
    "stddev": "stddev",
    "name": "name",
    "operation": "name",
    "kernelname": "name",
    "category": "category",
    "gridxyz": "grid",
    "blockxyz": "block",
    "start": "start",
    "duration": "duration",
    "corrid": "corr",
    "correlationid": "corr",
    "grdx": "grid_x",
    "grdy": "grid_y",
    "grdz": "grid_z",
    "bytes": "bytes",
    "size": "bytes",
    "throughput": "throughput",
    "thru": "throughput",
    "device": "device",
    "ctx": "context",
    "strm": "stream",
}
_TIMES = ("total", "avg", "med", "min", "max", "stddev", "start", "duration")

KERNEL_SUMMARY, TIMELINE, API_SUMMARY = "cuda_gpu_kern_sum", "cuda_gpu_trace", "cuda_api_sum"
_FIRST = ("time", "start", "name", "total", "instances", "category", "duration")
_FIRST_BYTES = tuple(w.encode() for w in _FIRST)
#: Between tables `nsys stats` prints lines like these.
_BETWEEN = ("Processing [", "Generating ", "SKIPPED:", "NOTICE:", "WARNING:", "ERROR:", "** ", "#")
_BETWEEN_BYTES = tuple(w.strip().lower().encode() for w in _BETWEEN)


@dataclass
class Table:
    """One report of a file: its kind ('' for one we do not read), headings and raw rows."""

    kind: str
    title: str
    headings: list[str]
    names: list[str]
    units: dict[str, str]
    delimiter: str = ","
    rows: list[list[str]] = field(default_factory=list)
    broken: int = 0  # rows with another number of cells than headings

    def column(self, name: str) -> int | None:
        """The position of one of our columns, None where the report lacks it."""
        return self.names.index(name) if name in self.names else None

    def scale(self, name: str) -> int:
        """Nanoseconds in one unit of a time column."""
        return _TIME_UNITS[self.units.get(name, "").strip().lower()]


def is_summary(path: Path) -> bool:
    """Whether a path is a CSV without a timeline. Raises `UnusableInput` for what is no input."""
    if source.recognise(path).kind is not source.Kind.STATS_CSV:
        return False
    return TIMELINE not in kinds(path)


def looks_like(line: str) -> bool:
    """Whether a line is the heading of a report of `nsys stats`."""
    return _heading(line.lstrip("\ufeff").rstrip("\r\n")) is not None


def kinds(path: Path) -> list[str]:
    """The kinds of the reports in a file, in order; reads headings alone."""
    out = []
    for raw in io.BytesIO(_utf8(path)):
        if raw.lstrip(b'\xef\xbb\xbf "')[:12].lower().startswith(_FIRST_BYTES):
            found = _heading(raw.decode("utf-8-sig", "replace").rstrip("\r\n"))
            if found is not None:
                out.append(_table(found[1], "", path).kind)
    return out


def timeline(path: Path) -> tuple[Table, bytes]:
    """The heading of the first timeline in a file, and the bytes of its rows, in UTF-8.

    Raises `UnusableInput` where there is none.
    """
    data = _utf8(path)
    found: Table | None = None
    begin = end = at = 0
    for line in io.BytesIO(data):
        at += len(line)
        first = line[:16].lstrip(b'\xef\xbb\xbf "').lower()
        if first.startswith(_FIRST_BYTES):
            heading = _heading(line.decode("utf-8-sig", "replace").rstrip("\r\n"))
            if heading is not None and found is not None:
                break
            if heading is not None:
                table = _table(heading[1], "", path)
                if table.kind == TIMELINE:
                    table.delimiter = heading[0]
                    found, begin = table, at
        elif found is not None and (not first.strip() or first.startswith(_BETWEEN_BYTES)):
            break
        end = at
    if found is None:
        raise UnusableInput(f"{path}: no timeline in it", _REMEDY)
    return found, data[begin:end] if end > begin else b""


def read(path: Path) -> list[Table]:
    """All reports of a file, in order.

    Raises `UnusableInput` where a heading names a unit that is no time, or no report is found.
    """
    lines = _decoded(source.content(path)).splitlines()
    tables: list[Table] = []
    title, delimiter = "", ","
    body: list[str] = []
    current: Table | None = None
    for line in [*lines, ""]:
        found = _heading(line)
        ends = not line.strip(" ,;\t") or line.lstrip().startswith(_BETWEEN)
        if current is not None and (ends or found) and _quotes_close(body):
            _fill(current, body, delimiter)
            current, body = None, []
        if found is not None and current is None:
            delimiter, headings = found
            current = _table(headings, title, path)
            tables.append(current)
            title = ""
        elif current is not None:
            body.append(line)
        elif line.strip():
            title = line.strip(" *")
    if current is not None:
        _fill(current, body, delimiter)
    if not tables:
        raise UnusableInput(f"{path}: no report of nsys stats in it", _REMEDY)
    return tables


_REMEDY = "write it with nsys stats --report cuda_gpu_kern_sum --format csv"


def _utf8(path: Path) -> bytes:
    data = source.content(path)
    return _decoded(data).encode() if data[:2] in (b"\xff\xfe", b"\xfe\xff") else data


def _decoded(data: bytes) -> str:
    """UTF-8 with or without a mark, or UTF-16 with one (a redirect in PowerShell)."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def _quotes_close(body: list[str]) -> bool:
    """A name may hold a line break; inside quotes nothing ends a table."""
    return not body or sum(line.count('"') for line in body[-50:]) % 2 == 0


def _heading(line: str) -> tuple[str, list[str]] | None:
    """The delimiter and cells of a heading line; None for any other line."""
    start = line.lstrip(' "\ufeff')[:12].lower()
    if not start.startswith(_FIRST):
        return None
    for delimiter in (",", "\t", ";"):
        cells = [c.strip() for c in next(csv.reader([line], delimiter=delimiter), [])]
        names = [_name(c)[0] for c in cells]
        if "name" in names and ("instances" in names or "start" in names or "calls" in names):
            return delimiter, cells
    return None


def _name(heading: str) -> tuple[str, str]:
    """Our name and the unit of a heading; the heading itself where we have no name for it."""
    match = _HEADING.match(heading)
    assert match is not None  # the pattern takes anything
    word = re.sub(r"[\s_]+", "", match["word"]).lower()
    return _WORDS.get(word, word), match["unit"] or ""


def _table(headings: list[str], title: str, path: Path) -> Table:
    pairs = [_name(h) for h in headings]
    names = [n for n, _ in pairs]
    units = dict(pairs)
    for name in _TIMES:
        unit = units.get(name, "").strip().lower()
        if unit not in _TIME_UNITS:
            raise UnusableInput(
                f"{path}: column {headings[names.index(name)]!r} has no unit of time", _REMEDY
            )
    kind = ""
    if {"start", "duration", "name"} <= set(names):
        kind = TIMELINE
    elif {"total", "calls", "name"} <= set(names):
        kind = API_SUMMARY
    elif {"total", "instances", "name"} <= set(names) and "nvtxrange" not in names:
        kind = KERNEL_SUMMARY
    return Table(kind, title, headings, names, units)


def _fill(table: Table, body: list[str], delimiter: str) -> None:
    text = io.StringIO("\n".join(body))
    for cells in csv.reader(text, delimiter=delimiter):
        if not cells:
            continue
        if len(cells) > len(table.names):  # a name that was never quoted: it is the last column
            last = delimiter.join(cells[len(table.names) - 1 :])
            cells = [*cells[: len(table.names) - 1], last]
        if len(cells) < len(table.names):
            table.broken += 1
            continue
        table.rows.append(cells)


def number(cell: str) -> Decimal | None:
    """A cell's number, with or without thousands separators; None where it holds none."""
    text = cell.strip().strip('"').replace(",", "").replace("_", "").replace("\u202f", "")
    text = text.replace("\u00a0", "").replace(" ", "").removesuffix("%")
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None
