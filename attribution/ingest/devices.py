"""Which physical GPU a row ran on.

A process numbers its devices from 0 (and CUDA_VISIBLE_DEVICES renumbers them), so two processes may
both call theirs 0. The physical index comes from the export's own table of CUDA devices by process;
older exports have none, and there the number in the row has to serve.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lanescope.attribution.ingest import ids


@dataclass
class DeviceMap:
    """(process key, CUDA device number) -> physical GPU index."""

    by_process: dict[tuple[int, int], int] = field(default_factory=dict)
    gpus: list[dict[str, Any]] = field(default_factory=list)
    known: bool = False

    def physical(self, process_key: int, cuda_device: int) -> int:
        """The physical GPU; the CUDA number itself where the export does not tell."""
        return self.by_process.get((ids.pid(process_key), cuda_device), cuda_device)


def device_map(gpus: pa.Table | None, cuda_devices: pa.Table | None) -> DeviceMap:
    """Build the map from the tables `gpus` and `cuda_devices`, either of which may be missing."""
    out = DeviceMap()
    if gpus is not None:
        out.gpus = [row for row in gpus.to_pylist() if _is_cuda(row)]
    if cuda_devices is None or cuda_devices.num_rows == 0:
        return out
    out.known = True
    for row in cuda_devices.to_pylist():
        if row["pid"] is not None and row["cuda_device"] is not None and row["gpu"] is not None:
            out.by_process[(int(row["pid"]), int(row["cuda_device"]))] = int(row["gpu"])
    return out


def _is_cuda(row: dict[str, Any]) -> bool:
    """Adapters of other makers are listed too, with CUDA device 0 by default."""
    name = (row.get("name") or "").lower()
    return not any(maker in name for maker in ("intel", "microsoft", "amd ", "radeon"))
