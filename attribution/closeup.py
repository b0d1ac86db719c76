"""The steps in order, a few of them close up, and the odd ones: what pages show, computed here."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd

from lanescope.attribution import engine, ranks
from lanescope.attribution.attribute import Analysis
from lanescope.attribution.ingest.ids import Ints
from lanescope.attribution.tracks import depths
from lanescope.schemas.documents.closeup import (
    Closeup,
    CopyHistogram,
    MissHeat,
    OddName,
    OddStep,
    PartChange,
    StepCloseup,
    StepPart,
    StepRow,
    StepSeries,
    Track,
)

#: Points of a series, entries of a close-up, odd steps with their kernels: what a page can hold.
MOST_POINTS = 1200
MOST_SERIES = 16
MOST_ENTRIES = 5000
MOST_CALLS = 1500
MOST_BINS = 120
MOST_LAYERS = 200
MOST_HEATS = 4
MOST_ODD = 12
MOST_ODD_NAMES = 10

ODD_RULE = "wall above the median by more than 3 robust standard deviations and by more than 5 %"

_MODULES = ("step_classes", "picks", "odd_steps")


class Drawing:
    """What a page shows beside the document, as far as it needs no row copies; all of it bounded.

    Read on construction, so that it can be done while the row copies are worked out.
    """

    def __init__(self, analysis: Analysis) -> None:
        """Read what DuckDB holds; from then on it is not touched."""
        con = analysis.con
        for module in _MODULES:
            engine.run(con, f"closeup/{module}")
        lanes = engine.first(con, "SELECT count(DISTINCT (process, device)) FROM step_classes")[0]
        points = MOST_POINTS // max(1, min(lanes, MOST_SERIES))
        engine.set_variable(con, "most_points", max(50, points))
        engine.set_variable(con, "most_odd", MOST_ODD)
        engine.run(con, "closeup/series")
        self._series = analysis.rows("SELECT * FROM series")
        self._odd_count = engine.first(con, "SELECT count(*) FROM odd_steps")[0]
        parts = _parts(analysis)
        picks = analysis.rows("SELECT * FROM picks")
        self._closeups = [_step_closeup(analysis, row, parts) for row in picks]
        self._odd = _odd(analysis, parts, self._closeups)
        self._lags = ranks.lags(analysis)

    def closeup(self, layer_steps: pd.DataFrame | None) -> Closeup:
        """Everything. layer_steps: `Attribution.layer_steps`, where the trace has row copies."""
        return Closeup(
            series=_series(self._series, layer_steps),
            histogram=_histogram(layer_steps) if layer_steps is not None else None,
            heat=_heat(layer_steps) if layer_steps is not None else [],
            closeups=self._closeups,
            odd=self._odd,
            odd_rule=ODD_RULE,
            lags=self._lags,
            odd_count=self._odd_count,
        )


def _series(found: list[dict[str, Any]], layer_steps: pd.DataFrame | None) -> list[StepSeries]:
    missed = _missed_by_step(layer_steps) if layer_steps is not None else {}
    grouped: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        grouped[row["pid"], row["device"]].append(row)
    return [
        StepSeries(
            process=pid,
            device=device,
            steps_per_bin=rows[0]["steps_per_bin"],
            step=[r["step"] for r in rows],
            count=[r["steps"] for r in rows],
            step_class=[r["step_class"] for r in rows],
            wall_ns=[r["wall_ns"] for r in rows],
            busy_ns=[r["busy_ns"] for r in rows],
            longest_ns=[r["longest_ns"] for r in rows],
            misses=_binned(missed.get((pid, device)), rows),
        )
        for (pid, device), rows in list(grouped.items())[:MOST_SERIES]
    ]


def _missed_by_step(layer_steps: Any) -> dict[tuple[int, int], Any]:
    """Mean missed rows of a layer-step by step, for each (process, device)."""
    mean = layer_steps.groupby(["process", "device", "step"]).misses.mean()
    return {
        (int(process), int(device)): part.droplevel([0, 1])
        for (process, device), part in mean.groupby(level=[0, 1])
    }


def _binned(missed: Any, rows: list[dict[str, Any]]) -> list[float] | None:
    """The mean of a series by step, which is sorted, over the steps of each row."""
    if missed is None:
        return None
    begins = np.searchsorted(missed.index.to_numpy(), [row["step"] for row in rows])
    parts = np.split(missed.to_numpy(), begins)[1:]
    return [round(float(part.mean()), 4) if len(part) else 0.0 for part in parts]


def _histogram(layer_steps: Any) -> CopyHistogram | None:
    """Of the tensor whose copies take longest: its levels lie furthest apart."""
    measured = layer_steps[layer_steps.measured]
    columns = [c for c in layer_steps.columns if c.startswith("copy_ns_")]
    if not columns or measured.empty:
        return None
    column = max(columns, key=lambda c: (float(measured[c].sum()), c))
    longest = int(measured[column].max())
    width = max(1, longest // (2 * MOST_BINS) + 1)
    count = np.bincount(measured[column].to_numpy(dtype=np.int64) // width)
    return CopyHistogram(
        tensor=column.removeprefix("copy_ns_"), width_us=width / 1e3, count=count.tolist()
    )


def _heat(layer_steps: Any) -> list[MissHeat]:
    out = []
    for (process, device), part in layer_steps.groupby(["process", "device"]):
        steps = np.unique(part.step.to_numpy())
        per_bin = -(-len(steps) // MOST_BINS)
        place = np.searchsorted(steps, part.step.to_numpy()) // per_bin
        mean = part.groupby(["layer", place]).misses.mean().unstack()
        mean = mean.iloc[:MOST_LAYERS]
        values = [[None if v != v else round(float(v), 3) for v in row] for row in mean.to_numpy()]
        out.append(
            MissHeat(
                process=int(process),
                device=int(device),
                layers=[int(v) for v in mean.index],
                steps_per_bin=per_bin,
                step=[int(steps[int(c) * per_bin]) for c in mean.columns],
                mean=values,
            )
        )
    return out[:MOST_HEATS]


#: Buckets of a step on a device, by (segment, device), longest first.
Parts = dict[tuple[int, int], list[StepPart]]


def _parts(analysis: Analysis) -> Parts:
    """The buckets of the steps that are shown."""
    engine.run(analysis.con, "closeup/shown_steps")
    found = analysis.con.execute(
        "SELECT segment, device, bucket, exclusive_ns, sum_ns, launches"
        " FROM step_buckets JOIN shown_steps USING (segment, device)"
        " ORDER BY exclusive_ns DESC, bucket"
    ).fetchall()
    parts: Parts = defaultdict(list)
    for segment, device, bucket, exclusive, total, launches in found:
        parts[segment, device].append(
            StepPart(bucket=bucket, exclusive_ns=exclusive, sum_ns=total, launches=launches)
        )
    return parts


def _step_row(row: dict[str, Any], parts: Parts) -> StepRow:
    return StepRow(
        process=row["pid"],
        device=row["device"],
        step=row["step"],
        step_class=row["step_class"],
        wall_ns=row["wall_ns"],
        busy_ns=row["gpu_busy_ns"],
        idle_ns=row["idle_ns"],
        kernels=row["kernels"],
        parts=parts[row["segment"], row["device"]],
    )


def _spent(step: StepRow) -> dict[str, int]:
    return {p.bucket: p.exclusive_ns for p in step.parts} | {"idle": step.idle_ns}


def _odd(analysis: Analysis, parts: Parts, closeups: list[StepCloseup]) -> list[OddStep]:
    """The oddest steps against the median one, with the kernels that made them so."""
    rows = analysis.rows(
        "SELECT * FROM odd_steps WHERE oddness <= getvariable('most_odd') ORDER BY oddness"
    )
    if not rows:
        return []
    engine.set_variable(analysis.con, "most_names", MOST_ODD_NAMES)
    engine.run(analysis.con, "closeup/odd_names")
    names: dict[tuple[int, int], list[OddName]] = defaultdict(list)
    for name in analysis.rows("SELECT * EXCLUDE (distance) FROM odd_names ORDER BY distance"):
        names[name.pop("segment"), name.pop("device")].append(OddName(**name))
    usual = _spent(closeups[0].step)
    out = []
    for row in rows:
        step = _step_row(row, parts)
        mine = _spent(step)
        changes = [
            PartChange(bucket=b, change_ns=mine.get(b, 0) - usual.get(b, 0))
            for b in {*mine, *usual}
        ]
        out.append(
            OddStep(
                **step.model_dump(),
                changes=sorted(changes, key=lambda c: (-abs(c.change_ns), c.bucket)),
                above_median_ns=row["above_median_ns"],
                names=names[row["segment"], row["device"]],
            )
        )
    return out


class _Picture:
    """Collects the entries of a close-up; knows its tracks, names and groups by number."""

    def __init__(self, origin_ns: int, from_ns: int, to_ns: int) -> None:
        self.origin, self.low, self.high = origin_ns, from_ns, to_ns
        self.tracks: list[Track] = []
        self.names: dict[str, int] = {}
        self.groups: dict[str, int] = {}
        self.columns: dict[str, list[Any]] = defaultdict(list)

    def add(
        self, kind: Any, label: str, start: Ints, end: Ints, rows: list[tuple[str, str, bool, int]]
    ) -> None:
        """Entries of one stream or thread in order of start; `rows`: name, group, own, merged."""
        start = np.maximum(start, self.low)
        end = np.maximum(np.minimum(end, self.high), start)
        depth = depths(start, end)
        base = len(self.tracks)
        for d in range(int(depth.max(initial=-1)) + 1):
            self.tracks.append(Track(kind=kind, label=label, depth=d))
        for i, (name, group, own, merged) in enumerate(rows):
            self.columns["track"].append(base + int(depth[i]))
            self.columns["name"].append(self.names.setdefault(name, len(self.names)))
            self.columns["group"].append(self.groups.setdefault(group, len(self.groups)))
            self.columns["start_ns"].append(int(start[i]) - self.origin)
            self.columns["duration_ns"].append(int(end[i] - start[i]))
            self.columns["own"].append(own)
            self.columns["merged"].append(merged)


def _step_closeup(analysis: Analysis, row: dict[str, Any], parts: Parts) -> StepCloseup:
    """The device from a little before the step's first launch to a little after its last kernel."""
    wall = max(1, row["wall_ns"])
    low = max(min(row["host_start_ns"], row["start_ns"]), row["start_ns"] - wall // 2)
    low, high = low - wall // 50, row["end_ns"] + wall // 10
    picture = _Picture(row["start_ns"], low, high)
    left_out = _add_ranges(analysis, row, picture)
    left_out += _add_calls(analysis, row, picture)
    _add_device(analysis, row, picture)
    return StepCloseup(
        pick=row["pick"],
        step=_step_row(row, parts),
        origin_ns=row["start_ns"],
        from_ns=low - row["start_ns"],
        to_ns=high - row["start_ns"],
        tracks=picture.tracks,
        names=list(picture.names),
        groups=list(picture.groups),
        left_out=left_out,
        **{
            k: picture.columns[k]
            for k in ("track", "name", "group", "start_ns", "duration_ns", "own", "merged")
        },
    )


def _add_device(analysis: Analysis, row: dict[str, Any], picture: _Picture) -> None:
    values = {
        "device": row["device"],
        "segment": row["segment"],
        "from_ns": picture.low,
        "to_ns": picture.high,
        "cell_ns": 0,
    }
    query = engine.sql("closeup/step_kernels")
    found = analysis.con.execute(query, values).fetchall()
    if len(found) > MOST_ENTRIES:
        streams = len({(r[0], r[1]) for r in found})
        cells = max(100, MOST_ENTRIES // (2 * streams))
        values["cell_ns"] = (picture.high - picture.low) // cells + 1
        found = analysis.con.execute(query, values).fetchall()
    copies = analysis.staged.info.enums.get("copy_kind", {})
    grouped: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for entry in found:
        grouped[entry[0], entry[1]].append(entry)
    for (kind, stream), entries in grouped.items():
        rows = []
        for _kind, _stream, _start, _end, name, bucket, other, merged in entries:
            if kind == "copy":
                number = name.removeprefix("copy ")
                rows.append((copies.get(number, name), "copy", False, merged))
            else:
                rows.append((name, bucket if not other else other.strip(), not other, merged))
        picture.add(
            "stream" if kind == "kernel" else "copies",
            f"stream {stream}",
            np.array([e[2] for e in entries], dtype=np.int64),
            np.array([e[3] for e in entries], dtype=np.int64),
            rows,
        )


def _longest(start: Ints, end: Ints, rows: Ints, most: int) -> tuple[Ints, int]:
    """`rows` without the shortest beyond `most`, still in order; and how many were left out."""
    if len(rows) <= most:
        return rows, 0
    order = np.lexsort((rows, -(end[rows] - start[rows])))
    return np.sort(rows[order[:most]]), len(rows) - most


def _add_calls(analysis: Analysis, row: dict[str, Any], picture: _Picture) -> int:
    """API calls of the step's process within the picture; waits on tracks of their own."""
    api = analysis.host.api
    inside = (
        (api.process == row["process"]) & (api.end_ns > picture.low) & (api.start_ns < picture.high)
    )
    kept, left_out = _longest(api.start_ns, api.end_ns, np.flatnonzero(inside), MOST_CALLS)
    waits = api.of_kind("wait", "blocking copy")
    for kind, mask in (("wait", waits), ("api", ~waits)):
        rows = kept[mask[kept]]
        if len(rows):
            picture.add(
                kind,
                "host waits" if kind == "wait" else "API calls",
                api.start_ns[rows],
                api.end_ns[rows],
                [(api.names[api.name[r]], api.kinds[api.kind[r]], True, 1) for r in rows],
            )
    return left_out


def _add_ranges(analysis: Analysis, row: dict[str, Any], picture: _Picture) -> int:
    """NVTX ranges of the step's process within the picture, nested."""
    ranges = analysis.host.ranges
    if not len(ranges):
        return 0
    inside = (
        (ranges.process == row["process"])
        & (ranges.end_ns > picture.low)
        & (ranges.start_ns < picture.high)
    )
    rows, left_out = _longest(
        ranges.start_ns, ranges.end_ns, np.flatnonzero(inside), MOST_CALLS // 3
    )
    rows = rows[np.lexsort((-ranges.end_ns[rows], ranges.start_ns[rows]))]
    for n, thread in enumerate(np.unique(ranges.thread[rows])):
        mine = rows[ranges.thread[rows] == thread]
        label = "ranges" if n == 0 else f"ranges, thread {n + 1}"
        picture.add(
            "range",
            label,
            ranges.start_ns[mine],
            ranges.end_ns[mine],
            [(ranges.names[ranges.name[r]], "range", True, 1) for r in mine],
        )
    return left_out
