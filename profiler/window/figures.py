"""Figures of the probes: per phase, and the profiler's slowdown between them with its interval."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np

from lanescope.profiler.adapters import metrics, probe
from lanescope.profiler.window.folder import Folder

RESAMPLES = 2000


def write_rows(folder: Folder, phase: str, rows: list[probe.Request]) -> None:
    """Two files of JSON lines: one row a request, one row a chunk."""
    folder.write_rows(f"probe-{phase}.requests.jsonl", [r.row() for r in rows])
    folder.write_rows(
        f"probe-{phase}.chunks.jsonl",
        [
            {"request": number, "chunk": at, "t_ns": t, "completion_tokens": tokens}
            for number, request in enumerate(rows)
            for at, (t, tokens) in enumerate(request.chunk_rows)
        ],
    )


def read_rows(folder: Folder, phase: str) -> list[probe.Request]:
    """The request rows of a probe as written, for a window that another runner finishes."""
    path = folder.path / f"probe-{phase}.requests.jsonl"
    if not path.exists():
        return []
    return [probe.Request(**json.loads(line)) for line in path.read_text().splitlines()]


def probe_figures(rows: list[probe.Request], bracket: metrics.Bracket) -> dict[str, Any]:
    """Medians over requests for each concurrency, acceptance, contamination."""
    sent = probe.sent(rows)
    return {
        "requests": len(rows),
        "failed": sum(1 for r in rows if r.error),
        "wall_s": _wall_s(rows),
        "sent": sent,
        "by_concurrency": [_of_concurrency(c, rows) for c in sorted({r.concurrency for r in rows})],
        "acceptance": metrics.acceptance(bracket),
        "contamination": metrics.contamination(bracket, sent),
        "not_reported": probe.not_reported(rows),
    }


def _wall_s(rows: list[probe.Request]) -> float | None:
    ends = [r.began_ns + r.wall_ns for r in rows if r.wall_ns is not None]
    if not ends:
        return None
    return float((max(ends) - min(r.began_ns for r in rows)) / 1e9)


def _of_concurrency(concurrency: int, rows: list[probe.Request]) -> dict[str, Any]:
    mine = [r for r in rows if r.concurrency == concurrency and not r.error]
    wall = _wall_s(mine)
    tokens = sum(r.completion_tokens or 0 for r in mine)
    return {
        "concurrency": concurrency,
        "requests": len(mine),
        "completion_tokens": tokens,
        "aggregate_tokens_per_s": tokens / wall if wall else None,
        "decode_tokens_per_s": _median([r.decode_tokens_per_s for r in mine]),
        "ttft_ms": _median([None if r.ttft_ns is None else r.ttft_ns / 1e6 for r in mine]),
        "chunk_gap_ms": _median(
            [None if r.gap_p50_ns is None else r.gap_p50_ns / 1e6 for r in mine]
        ),
        "gap_per_token_ms": _median(
            [None if r.gap_per_token_ns is None else r.gap_per_token_ns / 1e6 for r in mine]
        ),
    }


def _median(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.median(known)) if known else None


def slowdown(control: list[probe.Request], profiled: list[probe.Request]) -> dict[str, Any]:
    """1 - median profiled / median control decode rate over prompts, in per cent.

    The interval is a 95 % bootstrap over prompts, each drawn with both of its rates. Medians, since
    a client that is held up for a moment sees a burst: a rate without meaning.
    """
    rates = [_rates(rows) for rows in (control, profiled)]
    shared = sorted(set(rates[0]) & set(rates[1]))
    if not shared:
        return {"percent": None, "why": "no prompt has a decode rate in both probes"}
    both = np.array([[side[p] for p in shared] for side in rates])
    found: dict[str, Any] = {
        "percent": float(100 * (1 - np.median(both[1]) / np.median(both[0]))),
        "formula": "1 - median(profiled tok/s) / median(control tok/s), over prompts",
        "prompts": len(shared),
        "interval": None,
    }
    if len(shared) < 3:
        return found | {"why": "an interval needs three prompts or more"}
    picks = np.random.default_rng(0).integers(0, len(shared), (RESAMPLES, len(shared)))
    drawn = np.median(both[:, picks], axis=2)
    low, high = np.percentile(100 * (1 - drawn[1] / drawn[0]), [2.5, 97.5])
    return found | {"interval": [float(low), float(high)]}


def _rates(rows: list[probe.Request]) -> dict[tuple[str, int], float]:
    """Median decode rate by prompt and concurrency."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in rows:
        if row.decode_tokens_per_s is not None and not row.error:
            found[(row.prompt_id, row.concurrency)].append(row.decode_tokens_per_s)
    return {key: float(np.median(values)) for key, values in found.items()}
