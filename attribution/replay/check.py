"""What a routing trace holds, counted; and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lanescope.attribution.replay.files import raw_columns, read_trace
from lanescope.attribution.replay.trace import RoutingTrace
from lanescope.schemas.documents.replay import TraceCheck
from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.findings import Finding, ReplayWarning


def check(
    path: Path, columns: Mapping[str, str], n_experts: int | None = None, axes: str = "tlk"
) -> TraceCheck:
    """Counts of `path`; where it is not a whole trace, what is missing or doubled."""
    try:
        trace = read_trace(path, columns, n_experts, axes)
    except UnusableInput as exc:
        counts = {} if path.suffix in (".npy", ".npz") else _row_counts(path, columns)
        return TraceCheck(
            schema="lanescope.replay-check/1",
            file=path.name,
            usable=False,
            fault=str(exc),
            counts=counts,
        )
    counts, warnings = _counts(trace)
    return TraceCheck(
        schema="lanescope.replay-check/1",
        file=path.name,
        usable=True,
        fault="",
        counts=counts,
        warnings=warnings,
    )


def _counts(trace: RoutingTrace) -> tuple[dict[str, int], tuple[Finding, ...]]:
    ordered = np.sort(trace.experts, axis=2)
    repeats = int((ordered[:, :, 1:] == ordered[:, :, :-1]).any(axis=2).sum())
    used = [len(np.unique(layer)) for layer in trace.experts]
    lengths = np.diff(trace.step_starts)
    verify = lengths[~trace.prefill]
    counts = {
        "tokens": trace.tokens,
        "layers": len(trace.layers),
        "top_k": trace.top_k,
        "experts": trace.n_experts,
        "passes": trace.steps,
        "verification_steps": len(verify),
        "prefill_passes": int(trace.prefill.sum()),
        "prefill_passes_that_bypass": int((~trace.cached_steps()).sum()),
        "fewest_tokens_in_a_step": int(verify.min()) if len(verify) else 0,
        "most_tokens_in_a_step": int(verify.max(initial=0)),
        "token_layers_with_a_repeated_expert": repeats,
        "fewest_experts_used_in_a_layer": min(used),
    }
    warnings = []
    if repeats:
        warnings.append(
            ReplayWarning.REPEATED_EXPERTS.finding(f"{repeats:,} token-layers name an expert twice")
        )
    if min(used) < trace.n_experts:
        short = sum(n < trace.n_experts for n in used)
        warnings.append(
            ReplayWarning.UNUSED_EXPERTS.finding(
                f"{short} of {len(used)} layers never ask for some of the {trace.n_experts} experts"
            )
        )
    if len(verify) and (verify[:-1] != verify[0]).any():
        warnings.append(
            ReplayWarning.UNEVEN_STEPS.finding(
                f"verification steps have {verify.min()} to {verify.max()} tokens"
            )
        )
    return counts, tuple(warnings)


def _row_counts(path: Path, columns: Mapping[str, str]) -> dict[str, int]:
    """What can be counted although the rows do not make a trace."""
    found = raw_columns(path, columns)
    if found is None:
        return {}
    layer, token, picks = found
    pairs = np.unique(np.stack([layer, token]), axis=1).shape[1]
    whole = len(np.unique(layer)) * len(np.unique(token))
    return {
        "rows": len(layer),
        "layers": len(np.unique(layer)),
        "tokens": len(np.unique(token)),
        "missing_token_layers": whole - pairs,
        "doubled_rows": len(layer) - pairs,
        "negative_ids": int((picks < 0).any(axis=1).sum()),
    }
