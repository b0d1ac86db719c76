"""GPU state by NVML: one look, or a sampler in a process of its own writing Parquet.

A field that a GPU cannot give is null with the reason; it is never 0.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HZ = 4.0

try:
    import pynvml
except ImportError:  # pragma: no cover - a dependency of the product
    pynvml = None


def _fields() -> dict[str, Callable[[Any], Any]]:
    """Column -> how it is read. Units are in the names."""
    n = pynvml
    return {
        "sm_clock_mhz": lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM),
        "power_mw": n.nvmlDeviceGetPowerUsage,
        "temperature_c": lambda h: n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU),
        "gpu_util_percent": lambda h: n.nvmlDeviceGetUtilizationRates(h).gpu,
        "memory_used_bytes": lambda h: n.nvmlDeviceGetMemoryInfo(h).used,
        "throttle_reasons": n.nvmlDeviceGetCurrentClocksThrottleReasons,
        "pcie_tx_kb_per_s": lambda h: n.nvmlDeviceGetPcieThroughput(h, n.NVML_PCIE_UTIL_TX_BYTES),
        "pcie_rx_kb_per_s": lambda h: n.nvmlDeviceGetPcieThroughput(h, n.NVML_PCIE_UTIL_RX_BYTES),
    }


COLUMNS = (
    "sm_clock_mhz",
    "memory_clock_mhz",
    "power_mw",
    "temperature_c",
    "gpu_util_percent",
    "memory_used_bytes",
    "throttle_reasons",
    "pcie_tx_kb_per_s",
    "pcie_rx_kb_per_s",
)


def _open() -> tuple[list[tuple[str, Any]], str]:
    """(uuid, handle) of each GPU, or why there are none."""
    if pynvml is None:
        return [], "nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [(_word(pynvml.nvmlDeviceGetUUID(h)), h) for h in handles], ""
    except pynvml.NVMLError as exc:
        return [], f"NVML: {exc}"


def _word(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _read(handle: Any) -> dict[str, tuple[Any, str]]:
    """Column -> (value, ''), or (None, reason)."""
    found: dict[str, tuple[Any, str]] = {}
    for name, read in _fields().items():
        try:
            found[name] = (int(read(handle)), "")
        except pynvml.NVMLError as exc:
            found[name] = (None, str(exc))
    return found


def snapshot() -> dict[str, Any]:
    """Driver and GPUs now; `why` says why there is nothing."""
    devices, why = _open()
    if not devices:
        return {"driver": None, "devices": [], "why": why or "no GPU"}
    rows = []
    for uuid, handle in devices:
        fields = {
            name: {"value": value, "why": reason} for name, (value, reason) in _read(handle).items()
        }
        rows.append({"uuid": uuid, "name": _word(pynvml.nvmlDeviceGetName(handle)), **fields})
    driver = _word(pynvml.nvmlSystemGetDriverVersion())
    return {"driver": driver, "devices": rows, "why": ""}


def compute_pids(uuids: list[str]) -> tuple[set[int], str]:
    """The processes that compute on these GPUs (all where none is named), or why not known."""
    devices, why = _open()
    if not devices:
        return set(), why or "no GPU"
    found: set[int] = set()
    for uuid, handle in devices:
        if uuids and uuid not in uuids:
            continue
        try:
            found |= {p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        except pynvml.NVMLError as exc:
            return set(), str(exc)
    return found, ""


def sample(uuids: list[str], target: Path, hz: float) -> None:
    """Sample until standard input closes, then write the file; one row a GPU and sample.

    Columns: `unix_ns`, `uuid`, `cost_ns` (what reading took), the fields of `COLUMNS`.
    """
    devices, why = _open()
    chosen = [(u, h) for u, h in devices if not uuids or u in uuids]
    rows: list[dict[str, Any]] = []
    reasons: dict[str, str] = {} if chosen else dict.fromkeys(COLUMNS, why or "no such GPU")
    closed = _closing()
    while not closed(1 / hz):
        for uuid, handle in chosen:
            began = time.monotonic_ns()
            fields = _read(handle)
            cost = time.monotonic_ns() - began
            reasons.update({n: r for n, (v, r) in fields.items() if v is None})
            values = {name: value for name, (value, _) in fields.items()}
            rows.append({"unix_ns": time.time_ns(), "uuid": uuid, "cost_ns": cost, **values})
    _write(rows, reasons, target)


def _closing() -> Callable[[float], bool]:
    """Waits a while; true once the parent closed our input or died."""
    import select

    def closed(seconds: float) -> bool:
        return bool(select.select([sys.stdin], [], [], seconds)[0]) and not sys.stdin.read(1)

    return closed


def _write(rows: list[dict[str, Any]], reasons: dict[str, str], target: Path) -> None:
    import pyarrow as pa  # slow to import: not before the first sample
    import pyarrow.parquet as pq

    types = {"unix_ns": pa.int64(), "uuid": pa.string(), "cost_ns": pa.int64()}
    types |= dict.fromkeys(COLUMNS, pa.int64())
    note = {f"null:{name}": why for name, why in reasons.items()}
    schema = pa.schema(list(types.items()), metadata=note)
    partial = target.with_name(target.name + ".partial")
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), partial)
    partial.rename(target)


class Sampler:
    """The sampler as a context; its summary is there afterwards."""

    def __init__(self, uuids: list[str], target: Path) -> None:
        self.uuids, self.target = uuids, target
        self._child: subprocess.Popen[bytes] | None = None
        self._why = ""

    def __enter__(self) -> Sampler:
        devices, self._why = _open()
        if not devices:
            return self
        words = [sys.executable, "-m", "lanescope.profiler.adapters.nvml", str(self.target)]
        self._child = subprocess.Popen(
            [*words, *self.uuids],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(self, *exc: object) -> None:
        if self._child is None:
            return
        if self._child.stdin:
            self._child.stdin.close()
        try:
            self._child.wait(20)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(5)

    def summary(self) -> dict[str, Any]:
        """Mean, min and max of each field over the probe; null with the reason where none."""
        if self._child is None:
            return {"samples": 0, "why": self._why or "no GPU"}
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(self.target)
        except (OSError, pa.ArrowInvalid):
            return {"why": "the sampler wrote no file"}
        notes = {
            k.decode()[5:]: v.decode()
            for k, v in (table.schema.metadata or {}).items()
            if k.startswith(b"null:")
        }
        found: dict[str, Any] = {"samples": table.num_rows}
        for name in (*COLUMNS, "cost_ns"):
            values = [v for v in table.column(name).to_pylist() if v is not None]
            if values:
                mean = sum(values) / len(values)
                found[name] = {"mean": mean, "min": min(values), "max": max(values)}
            else:
                found[name] = {"mean": None, "why": notes.get(name, "no sample was taken")}
        return found


if __name__ == "__main__":
    sample(sys.argv[2:], Path(sys.argv[1]), HZ)
