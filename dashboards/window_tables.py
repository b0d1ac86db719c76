"""Tables of a captured window."""

from __future__ import annotations

from datetime import UTC, datetime

from lanescope.dashboards.tables import Col, Table
from lanescope.schemas.documents.windowrecord import ProbeRecord, WindowRecord


def states(record: WindowRecord) -> Table:
    """One row a state with a receipt."""
    cols = (
        Col("number", "#", 0),
        Col("state", "state"),
        Col("status", "status"),
        Col("began", "began (UTC)"),
        Col("seconds", "s", 3),
        Col("error", "error"),
    )
    rows = [[r.number, r.state, r.status, _clock(r.began), r.seconds, r.error or None] for r in
            record.receipts]  # fmt: skip
    return Table("states", "States", cols, rows, "As the receipts say.")


def _clock(began: str) -> str:
    """The time of day of a receipt's time."""
    return began.partition("T")[2].removesuffix("Z") or began


def probes(found: list[ProbeRecord]) -> Table:
    """One row a probe and concurrency: medians over its requests."""
    cols = (
        Col("probe", "probe"),
        Col("concurrency", "at a time", 0),
        Col("requests", "requests", 0),
        Col("completion_tokens", "tokens", 0),
        Col("ttft_ms", "TTFT ms", 2, hint="time to first token, median over requests"),
        Col("chunk_gap_ms", "chunk gap ms", 3, hint="median over requests of each one's median"),
        Col("gap_per_token_ms", "gap per token ms", 3),
        Col("decode_tokens_per_s", "tokens/s", 1, hint="decode rate of a request, median"),
        Col("aggregate_tokens_per_s", "tokens/s, all", 1),
    )
    rows = [[p.phase, *(by.get(c.key) for c in cols[1:])] for p in found for by in p.by_concurrency]
    return Table("probes", "Probes by concurrency", cols, rows)


def marks(found: list[ProbeRecord]) -> Table:
    """One row a probe: whether others used the server meanwhile."""
    cols = (
        Col("probe", "probe"),
        Col("verdict", "verdict"),
        Col("reasons", "reasons"),
        Col("unknown", "could not be told"),
        Col("not_reported", "not reported by the server"),
    )
    rows = [
        [
            p.phase,
            p.contamination.verdict,
            "; ".join(p.contamination.reasons) or None,
            "; ".join(p.contamination.unknown) or None,
            "; ".join(p.not_reported) or None,
        ]
        for p in found
        if p.contamination
    ]
    return Table("marks", "Other clients", cols, rows)


def requests(found: list[ProbeRecord]) -> Table:
    """One row a request of a probe."""
    cols = (
        Col("phase", "probe"),
        Col("prompt_id", "prompt"),
        Col("concurrency", "at a time", 0),
        Col("repetition", "repetition", 0),
        Col("prompt_tokens", "prompt tokens", 0),
        Col("completion_tokens", "tokens", 0),
        Col("ttft_ns", "TTFT ms", 2, 1e6),
        Col("wall_ns", "wall ms", 2, 1e6),
        Col("decode_tokens_per_s", "tokens/s", 1),
        Col("gap_p50_ns", "gap p50 ms", 3, 1e6),
        Col("gap_p95_ns", "gap p95 ms", 3, 1e6),
        Col("tokens_by", "tokens from"),
        Col("error", "error"),
    )
    rows = [
        [p.phase, *(getattr(r, c.key) for c in cols[1:-1]), r.error or None]
        for p in found
        for r in p.requests
    ]
    return Table("requests", "Requests", cols, rows)


def gpu(record: WindowRecord) -> Table:
    """One row a GPU and sample, as NVML gave it."""
    keys = list(dict.fromkeys(k for s in record.gpu for k in s.columns))
    cols = [Col("phase", "probe"), Col("uuid", "GPU"), Col("at", "at (UTC)")]
    cols += [Col(k, k.replace("_", " "), 0) for k in keys]
    rows = [
        [s.phase, s.uuid, _time(t), *(s.columns[k][i] if k in s.columns else None for k in keys)]
        for s in record.gpu
        for i, t in enumerate(s.unix_ns)
    ]
    return Table("gpu", "NVML samples", cols, rows, "A value that the GPU did not give is blank.")


def _time(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns / 1e9, UTC):%H:%M:%S.%f}"[:-3]


def files(record: WindowRecord) -> Table:
    """One row a file that the manifest binds."""
    cols = (Col("path", "file"), Col("bytes", "bytes", 0), Col("sha256", "SHA-256"))
    rows = [[f["path"], f["bytes"], f["sha256"]] for f in record.files]
    return Table("files", "Files", cols, rows, "As the manifest binds them.")


def unreadable(record: WindowRecord) -> Table:
    """One row a file that is missing, cut off or of another version."""
    cols = (Col("file", "file"), Col("why", "why"))
    return Table("unreadable", "Not readable", cols, [list(u) for u in record.unreadable])
