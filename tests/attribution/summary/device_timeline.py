"""A `cuda_gpu_trace` CSV of a SQLite export, written as `nsys stats` writes it."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path

HEADINGS = (
    "Start (ns)", "Duration (ns)", "CorrId", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ",
    "Reg/Trd", "StcSMem (MB)", "DymSMem (MB)", "Bytes (MB)", "Throughput (MB/s)", "SrcMemKd",
    "DstMemKd", "Device", "Ctx", "GreenCtx", "Strm", "Name",
)  # fmt: skip

_ROWS = """
SELECT k.start, k.end - k.start, k.correlationId, gridX, gridY, gridZ, blockX, blockY, blockZ,
    registersPerThread, '0.000', '0.000', '', '', '', '', d.name || ' (' || k.deviceId || ')',
    k.contextId, '', k.streamId, s.value
FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds AS s ON s.id = k.demangledName
LEFT JOIN TARGET_INFO_GPU AS d ON d.id = k.deviceId
UNION ALL
SELECT m.start, m.end - m.start, m.correlationId, '', '', '', '', '', '', '', '', '',
    printf('%.3f', m.bytes / 1e6), '', '', '', d.name || ' (' || m.deviceId || ')',
    m.contextId, '', m.streamId,
    CASE m.copyKind WHEN 1 THEN '[CUDA memcpy Host-to-Device]'
        WHEN 2 THEN '[CUDA memcpy Device-to-Host]' ELSE '[CUDA memcpy Device-to-Device]' END
FROM CUPTI_ACTIVITY_KIND_MEMCPY AS m LEFT JOIN TARGET_INFO_GPU AS d ON d.id = m.deviceId
UNION ALL
SELECT m.start, m.end - m.start, m.correlationId, '', '', '', '', '', '', '', '', '',
    printf('%.3f', m.bytes / 1e6), '', '', '', d.name || ' (' || m.deviceId || ')',
    m.contextId, '', m.streamId, '[CUDA memset]'
FROM CUPTI_ACTIVITY_KIND_MEMSET AS m LEFT JOIN TARGET_INFO_GPU AS d ON d.id = m.deviceId
ORDER BY 1
"""


def write(export: Path, target: Path) -> Path:
    """Write the timeline of an export to `target`."""
    con = sqlite3.connect(f"file:{export}?mode=ro", uri=True)
    with target.open("w", encoding="utf-8", newline="") as fh:
        out = csv.writer(fh, lineterminator="\n")
        out.writerow(HEADINGS)
        out.writerows(con.execute(_ROWS))
    con.close()
    return target
