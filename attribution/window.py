"""Reads the folder of a captured window, also one whose runner was killed half-way.

Nothing here raises for a file that is missing or cut off: the record says what could not be read.
Only a folder that is no window's at all is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from lanescope.schemas.documents.receipt import Manifest, Outcome, Receipt
from lanescope.schemas.documents.windowrecord import (
    Contamination,
    Gaps,
    GpuSeries,
    ProbeRecord,
    ProbeRequest,
    Slowdown,
    Span,
    WindowRecord,
)
from lanescope.schemas.errors import UnusableInput

PHASES = ("control", "profiled")
_RESTORE = ("incumbent_restored", "failsafe_disarmed")
_OFFLINE = ("export", "attribution", "catalogued")
#: stretches over several states: name, the state whose end opens it, the one whose end closes it
_WHOLE = (
    ("failsafe armed", "failsafe_armed", "failsafe_disarmed"),
    ("incumbent away", "incumbent_stopped", "incumbent_restored"),
)
_GAP_BINS = 60
#: what a page can hold; more are in the files
MOST_ROWS = 2_000
MOST_SAMPLES = 2_000
T = TypeVar("T")


def unix_ns(text: str) -> int:
    """A receipt's time (UTC, ISO 8601) as Unix nanoseconds. Raises ValueError where it is none."""
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"{text}: no time zone")
    # whole microseconds: no float holds a nanosecond of this century
    return round(when.timestamp() * 1e6) * 1_000


def read_window(folder: Path, outcome: str = "") -> WindowRecord:
    """The record of a window's folder. Raises `UnusableInput` where it is no such folder.

    outcome: of a window that is just being closed and has no manifest yet.
    """
    if not (folder / "receipts").is_dir() and not (folder / "manifest.json").is_file():
        raise UnusableInput(
            f"{folder}: no receipts and no manifest.json", "name the folder of a window"
        )
    reader = _Reader(folder)
    manifest = reader.document("manifest.json", Manifest.model_validate_json, missing_is_fine=True)
    receipts = reader.receipts()
    first = receipts[0] if receipts else None
    outcome = manifest.outcome if manifest else outcome
    return WindowRecord(
        folder=folder.name,
        window=manifest.window if manifest else first.window if first else "",
        run=manifest.run if manifest else first.run if first else folder.name,
        outcome=outcome,
        meaning=next((o.meaning for o in Outcome if o.word == outcome), ""),
        from_ns=unix_ns(first.began) if first else None,
        receipts=receipts,
        spans=_spans(receipts, closed=bool(outcome)),
        probes=[p for p in map(reader.probe, PHASES) if p is not None],
        gpu=[s for phase in PHASES for s in reader.gpu(phase)],
        slowdown=_slowdown(receipts),
        facts=_facts(receipts),
        unreadable=reader.unreadable,
        files=[f.model_dump() for f in manifest.files] if manifest else [],
    )


class _Reader:
    """Reads files of one folder and keeps what could not be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unreadable: list[tuple[str, str]] = []

    def document(
        self, name: str, parse: Callable[[bytes], T], missing_is_fine: bool = False
    ) -> T | None:
        """A parsed file, or None with a line on why."""
        try:
            return parse((self.folder / name).read_bytes())
        except FileNotFoundError:
            if not missing_is_fine:
                self.unreadable.append((name, "missing"))
        except OSError as exc:
            self.unreadable.append((name, exc.strerror or "cannot be read"))
        except (ValueError, RecursionError):  # cut off, altered, or of another version
            self.unreadable.append((name, "damaged, or of another version"))
        return None

    def receipts(self) -> list[Receipt]:
        """The receipts that can be read, in order."""
        names = sorted(p.name for p in (self.folder / "receipts").glob("*.json"))
        found = [self.document(f"receipts/{n}", _receipt) for n in names]
        return sorted((r for r in found if r is not None), key=lambda r: r.number)

    def probe(self, phase: str) -> ProbeRecord | None:
        """A probe's rows and figures; None where neither was written."""
        name = f"probe-{phase}.json"
        figures = self.document(name, _dictionary, missing_is_fine=True) or {}
        rows = self.document(
            f"probe-{phase}.requests.jsonl", _lines(ProbeRequest.model_validate_json), True
        )
        gaps = self.document(f"probe-{phase}.chunks.jsonl", _gaps, missing_is_fine=True)
        if not figures and not rows:
            return None
        said = figures.get("contamination")
        try:
            marks = Contamination(**_only(said, Contamination)) if said else None
            by = [_numbers(row) for row in figures.get("by_concurrency") or []]
            silent = [str(x) for x in figures.get("not_reported") or []]
        except (ValueError, TypeError, AttributeError):
            self.unreadable.append((name, "damaged, or of another version"))
            marks, by, silent = None, [], []
        return ProbeRecord(
            phase=phase,
            requests=(rows or [])[:MOST_ROWS],
            by_concurrency=by,
            contamination=marks,
            gaps=gaps,
            not_reported=silent,
        )

    def gpu(self, phase: str) -> list[GpuSeries]:
        """NVML samples of a probe by GPU."""
        return self.document(f"gpu-{phase}.parquet", lambda b: _gpu(b, phase), True) or []


def _receipt(data: bytes) -> Receipt:
    found = Receipt.model_validate_json(data)
    unix_ns(found.began), unix_ns(found.ended)
    return found


def _dictionary(data: bytes) -> dict[str, Any]:
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _only(found: Any, model: Any) -> dict[str, Any]:
    return {k: v for k, v in found.items() if k in model.model_fields}


def _numbers(row: dict[str, Any]) -> dict[str, float | None]:
    return {str(k): None if v is None else float(v) for k, v in row.items()}


def _lines(parse: Callable[[str], T]) -> Callable[[bytes], list[T]]:
    """A parser of JSON lines."""

    def read(data: bytes) -> list[T]:
        return [parse(line) for line in data.decode("utf-8").splitlines() if line.strip()]

    return read


def _gaps(data: bytes) -> Gaps | None:
    """Times between the chunks of each request, in bins; the last bin holds what lies beyond."""
    last: dict[int, int] = {}
    gaps: list[int] = []
    for row in _lines(json.loads)(data):
        request, now = int(row["request"]), int(row["t_ns"])
        if request in last:
            gaps.append(now - last[request])
        last[request] = now
    if not gaps:
        return None
    gaps.sort()
    usual = gaps[min(len(gaps) - 1, int(0.99 * len(gaps)))]
    width = _round_width(max(1, -(-usual // _GAP_BINS)))
    count = [0] * (_GAP_BINS + 1)
    for gap in gaps:
        count[min(max(gap, 0) // width, _GAP_BINS)] += 1
    return Gaps(width_ms=width / 1e6, count=count)


def _round_width(least: int) -> int:
    """The next of 1, 2, 5, 10, 20, ...: probes of like speed get like bins."""
    ten: int = 10 ** (len(str(least)) - 1)
    return next(m * ten for m in (1, 2, 5, 10) if m * ten >= least)


def _gpu(data: bytes, phase: str) -> list[GpuSeries]:
    import pyarrow as pa  # slow to import: a list of windows needs no samples
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(pa.BufferReader(data))
        rows = table.to_pylist()
        uuids = list(dict.fromkeys(row["uuid"] for row in rows))
    except (pa.ArrowException, KeyError) as exc:
        raise ValueError(str(exc)) from exc
    out = []
    names = [f.name for f in table.schema if pa.types.is_integer(f.type) and f.name != "unix_ns"]
    for uuid in uuids:
        mine = [r for r in rows if r["uuid"] == uuid and r.get("unix_ns") is not None]
        mine = mine[:: -(-len(mine) // MOST_SAMPLES) or 1]
        out.append(
            GpuSeries(
                phase=phase,
                uuid=str(uuid),
                unix_ns=[r["unix_ns"] for r in mine],
                columns={n: [r[n] for r in mine] for n in names},
            )
        )
    return out


def _spans(receipts: list[Receipt], closed: bool) -> list[Span]:
    """States in order, then the stretches over several of them."""
    out = []
    for r in receipts:
        part = "restore" if r.state in _RESTORE else "offline" if r.state in _OFFLINE else ""
        out.append(
            Span(
                name=r.state,
                part=part or "experiment",
                ok=r.status == "ok",
                from_ns=unix_ns(r.began),
                to_ns=unix_ns(r.ended),
                note=r.error,
            )
        )
    by_name = {r.state: r for r in receipts}
    for name, opens, closes in _WHOLE:
        first, last = by_name.get(opens), by_name.get(closes)
        if first is None:
            continue
        ended = last is not None and last.status == "ok"
        if opens == "failsafe_armed" and first.status != "ok":
            continue
        out.append(
            Span(
                name=name,
                part="whole",
                ok=ended or not closed,
                from_ns=unix_ns(first.ended if opens == "failsafe_armed" else first.began),
                to_ns=unix_ns(last.ended) if last is not None and ended else None,
                note="" if ended else "no receipt says that it ended",
            )
        )
    return out


def _slowdown(receipts: list[Receipt]) -> Slowdown | None:
    found = next((r.facts.get("slowdown") for r in receipts if r.state == "attribution"), None)
    if not isinstance(found, dict):
        return None
    try:
        low, high = found.get("interval") or (None, None)
        return Slowdown(
            percent=found.get("percent"), low=low, high=high, why=str(found.get("why") or "")
        )
    except (TypeError, ValueError):  # a receipt of another version
        return None


def _facts(receipts: list[Receipt]) -> dict[str, str]:
    """What the window's card says, from the receipts that are there."""
    by = {r.state: r.facts for r in receipts}

    def at(state: str, *path: str) -> Any:
        value: Any = by.get(state)
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    devices = at("preflight", "gpu", "devices")
    known = devices if isinstance(devices, list) else []
    names = [str(d.get("name")) for d in known if isinstance(d, dict)]
    tracer = at("candidate_launched", "tracer")
    fired = at("failsafe_disarmed", "fired")
    kernels = at("export", "kernels")
    attribution = at("attribution", "attribution")
    wall = attribution.get("wall_ms") if isinstance(attribution, dict) else None
    found = {
        "Began": receipts[0].began if receipts else "",
        "GPU": ", ".join(sorted(set(names))),
        "nsys": at("candidate_launched", "nsys"),
        "Tracer": ", ".join(map(str, tracer)) if isinstance(tracer, list) else "",
        "Failsafe": at("failsafe_armed", "kind"),
        "Fired": None if fired is None else "yes" if fired else "no",
        "Restored": " by ".join(
            str(x)
            for x in (at("incumbent_restored", "status"), at("incumbent_restored", "by"))
            if x
        ),
        "Kernels": f"{kernels:,}" if isinstance(kernels, int) else "",
        "Steps": str(attribution.get("steps")) if isinstance(attribution, dict) else "",
        "Wall": f"{wall:.3f} ms a step" if isinstance(wall, float) else "",
        "Plan": str(at("preflight", "plan_sha256") or "")[:16],
    }
    return {k: str(v) for k, v in found.items() if v not in (None, "")}
