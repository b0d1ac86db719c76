"""One lane of a comparison: a trace, an attribution folder, or a captured window.

Whatever it came from, a lane is its document, its measured steps, and what each bucket took in each
of them. Nothing of the trace stays open.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from lanescope.attribution import engine
from lanescope.attribution.attribute import attribute
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.errors import UnusableInput

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]
Fact = float | int | str | bool | None
Key = tuple[int, int, int]

DOCUMENT = "attribution.json"
STEPS = "steps.parquet"
STEP_BUCKETS = "step_buckets.parquet"
KERNELS = "kernels.parquet"


@dataclass
class Names:
    """bucket and name -> launches and summed ns over the measured steps."""

    launches: dict[tuple[str, str], int] = field(default_factory=dict)
    sum_ns: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass
class Lane:
    """A lane loaded. Arrays have one entry a measured (step, device), in the lane's own order."""

    name: str
    path: Path
    kind: Literal["trace", "attribution", "window"]
    document: AttributionDocument
    keys: list[Key]  # (process number, device, request) of each step
    start_ns: Ints
    wall: Ints
    busy: Ints
    total: Ints  # summed kernel time
    idle: Ints
    bucket_sum: dict[str, Ints]
    bucket_exclusive: dict[str, Ints]
    bucket_launches: dict[str, int]
    names: Names
    all_steps: int  # steps that launches and names are over
    facts: dict[str, Fact] = field(default_factory=dict)
    accepted: float | None = None
    accepted_basis: str = ""

    @property
    def steps(self) -> int:
        """How many measured (step, device) rows there are."""
        return len(self.wall)

    @property
    def requests_known(self) -> bool:
        """Whether every step belongs to a request."""
        return all(request >= 0 for _, _, request in self.keys)

    def take(self, rows: NDArray[np.bool_]) -> Lane:
        """The same lane, over some of its steps. Launches and names are left as they were."""
        return Lane(
            name=self.name,
            path=self.path,
            kind=self.kind,
            document=self.document,
            keys=[k for k, keep in zip(self.keys, rows, strict=True) if keep],
            start_ns=self.start_ns[rows],
            wall=self.wall[rows],
            busy=self.busy[rows],
            total=self.total[rows],
            idle=self.idle[rows],
            bucket_sum={b: v[rows] for b, v in self.bucket_sum.items()},
            bucket_exclusive={b: v[rows] for b, v in self.bucket_exclusive.items()},
            bucket_launches=self.bucket_launches,
            names=self.names,
            all_steps=self.all_steps,
            facts=self.facts,
            accepted=self.accepted,
            accepted_basis=self.accepted_basis,
        )


def load_lane(
    path: Path,
    *,
    profile: str | None = None,
    window: str = "",
    use_cache: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> Lane:
    """Load a lane. Raises UnusableInput for a folder that is none, and what `attribute` raises."""
    if path.name == DOCUMENT and path.is_file():
        path = path.parent
    if path.is_dir():
        for folder, kind in ((path, "attribution"), (path / "attribution", "window")):
            if (folder / DOCUMENT).is_file():
                lane = _from_folder(path, folder, "window" if kind == "window" else "attribution")
                _add_facts(lane)
                return lane
        if not any(path.glob("*.parquet")):
            raise UnusableInput(
                f"{path}: no {DOCUMENT} in this folder",
                "a lane is a trace, an attribution folder or a window's folder",
            )
    say(f"attributing {path.name}")
    with attribute(path, profile=profile, window=window, use_cache=use_cache, say=say) as result:
        names = Names()
        for row in result.analysis.rows("SELECT bucket, name, launches, sum_ns FROM names_table"):
            _add_name(names, row)
        lane = _build(
            path,
            "trace",
            result.document,
            result.steps,
            result.analysis.frame("step_buckets"),
            names,
        )
    _add_facts(lane)
    return lane


def _from_folder(path: Path, folder: Path, kind: Literal["attribution", "window"]) -> Lane:
    import pandas as pd

    try:
        text = (folder / DOCUMENT).read_text(encoding="utf-8")
        document = AttributionDocument.model_validate_json(text)
        steps = pd.read_parquet(folder / STEPS)
        buckets = pd.read_parquet(folder / STEP_BUCKETS)
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UnusableInput(
            f"{folder / DOCUMENT}: {where}: {first['msg']}", "attribute the trace again"
        ) from exc
    except (OSError, ValueError) as exc:
        raise UnusableInput(f"{folder}: incomplete: {exc}", "attribute the trace again") from exc
    return _build(path, kind, document, steps, buckets, _names_of(folder, steps))


def _names_of(folder: Path, steps: pd.DataFrame) -> Names:
    """Kernel names over the measured steps, from the folder's kernels."""
    names = Names()
    file = folder / KERNELS
    if not file.is_file() or steps.empty:
        return names
    con = duckdb.connect()
    try:
        con.read_parquet(str(file)).create_view("kernels_file")
        con.register("measured_steps", steps.loc[steps["measured"], ["process", "step", "device"]])
        cursor = con.execute(engine.sql("lanes/kernel_names"))
        for bucket, name, launches, sum_ns in cursor.fetchall():
            _add_name(
                names, {"bucket": bucket, "name": name, "launches": launches, "sum_ns": sum_ns}
            )
    except duckdb.Error as exc:
        reason = str(exc).splitlines()[0]
        raise UnusableInput(f"{file}: {reason}", "attribute the trace again") from exc
    finally:
        con.close()
    return names


def _add_name(names: Names, row: dict[str, Any]) -> None:
    key = (str(row["bucket"]), str(row["name"]))
    names.launches[key] = names.launches.get(key, 0) + int(row["launches"])
    names.sum_ns[key] = names.sum_ns.get(key, 0) + int(row["sum_ns"])


def _build(
    path: Path,
    kind: Literal["trace", "attribution", "window"],
    document: AttributionDocument,
    steps: pd.DataFrame,
    buckets: pd.DataFrame,
    names: Names,
) -> Lane:
    measured = steps[steps["measured"]].sort_values(["process", "device", "step"])
    processes = {p: i for i, p in enumerate(measured["process"].drop_duplicates())}
    request = measured["request"].fillna(-1).astype("int64")
    keys = [
        (processes[p], int(d), int(r))
        for p, d, r in zip(measured["process"], measured["device"], request, strict=True)
    ]
    # steps are joined to their buckets by segment and device, which name a (step, device) in both
    place = {
        (int(s), int(d)): i
        for i, (s, d) in enumerate(zip(measured["segment"], measured["device"], strict=True))
    }
    chosen = buckets[buckets["measured"]]
    rows = np.array(
        [place[s, d] for s, d in zip(chosen["segment"], chosen["device"], strict=True)], dtype=int
    )
    sums, exclusives, launches = {}, {}, {}
    for bucket in sorted(chosen["bucket"].unique()):
        mine = (chosen["bucket"] == bucket).to_numpy()
        sums[bucket] = _spread(rows[mine], chosen["sum_ns"][mine], len(measured))
        exclusives[bucket] = _spread(rows[mine], chosen["exclusive_ns"][mine], len(measured))
        launches[bucket] = int(chosen["launches"][mine].sum())
    return Lane(
        name=lane_name(path),
        path=path,
        kind=kind,
        document=document,
        keys=keys,
        start_ns=measured["start_ns"].to_numpy(np.int64),
        wall=measured["wall_ns"].to_numpy(np.int64),
        busy=measured["gpu_busy_ns"].to_numpy(np.int64),
        total=measured["gpu_sum_ns"].to_numpy(np.int64),
        idle=measured["idle_ns"].to_numpy(np.int64),
        bucket_sum=sums,
        bucket_exclusive=exclusives,
        bucket_launches=launches,
        names=names,
        all_steps=len(measured),
    )


def _spread(rows: NDArray[np.int_], values: pd.Series[Any], length: int) -> Ints:
    out = np.zeros(length, dtype=np.int64)
    np.add.at(out, rows, values.to_numpy(np.int64))
    return out


def lane_name(path: Path) -> str:
    """A short name of a lane: the file's, without what compression and export added."""
    name = path.name or path.resolve().name
    for suffix in (".xz", ".zst", ".gz", ".sqlite", ".nsys-rep", ".lanescope", ".csv"):
        name = name.removesuffix(suffix)
    return name or str(path)


def _add_facts(lane: Lane) -> None:
    """What a lane file or a sidecar says of the engine, and the tokens that a step yields.

    Beside a trace NAME.sqlite...: `NAME.lane.toml` (its table `engine`) or the lab's own record
    `NAME.truth.json` (its `args`). In a window's folder: `lane.toml`, and the profiled probe's
    counters.
    """
    base = lane.path if lane.path.is_dir() else lane.path.parent
    for file in (base / f"{lane.name}.lane.toml", base / "lane.toml", base / "candidate.toml"):
        if file.is_file():
            try:
                table = tomllib.loads(file.read_text(encoding="utf-8")).get("engine", {})
            except (OSError, ValueError) as exc:
                raise UnusableInput(f"{file}: {exc}", "correct the lane file") from exc
            lane.facts |= {k: v for k, v in table.items() if not isinstance(v, dict | list)}
            break
    truth = base / f"{lane.name}.truth.json"
    if lane.kind == "trace" and truth.is_file() and not lane.facts:
        lane.facts |= {k: v for k, v in _json(truth).get("args", {}).items() if _plain(v)}
    probe = lane.path / "probe-profiled.json"
    if lane.kind == "window" and probe.is_file():
        length = (_json(probe).get("acceptance") or {}).get("mean_length")
        if length:
            lane.accepted, lane.accepted_basis = float(length), "the server's counters"


def _plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _json(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise UnusableInput(f"{file}: {exc}", "repair or remove the file") from exc
    return data if isinstance(data, dict) else {}
