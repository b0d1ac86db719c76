"""What a careful reader notices in probe rows, said unasked."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from lanescope.attribution.lanes.probes import SpeedLane
from lanescope.schemas.documents.speed import SpeedRow
from lanescope.schemas.findings import Finding, LaneWarning

#: device memory further apart than this share is said
MEMORY_SHARE = 0.01
#: a repetition whose TTFT exceeds this many medians of its prompt was held up
HELD_UP = 3.0


def contaminated(lane: SpeedLane) -> list[SpeedRow]:
    """The scored rows whose counters hold another client's tokens.

    A verification step yields one token and the accepted ones, so drafts + accepted is the tokens
    of this request: at least all but the first (which prefill yields), at most one last step's
    surplus more. Rows without counters cannot be looked at.
    """
    out = []
    for row in lane.scored():
        if row.accepted is None or (row.drafts is None and row.drafted is None):
            continue
        if row.drafts is not None:
            k = row.drafted / row.drafts if row.drafted and row.drafts else 1.0
            depths = [(row.drafts, k)]
        else:  # K is not told: the row stands if any depth explains it
            depths = [((row.drafted or 0) / k, float(k)) for k in range(1, 9)]
        if not any(
            row.tokens - 1 <= drafts + row.accepted <= row.tokens + max(0.0, k - 1)
            for drafts, k in depths
        ):
            out.append(row)
    return out


def of_lanes(lanes: Sequence[SpeedLane]) -> list[Finding]:
    """All that is to be said about the rows of each lane, and about the lanes together."""
    out: list[Finding] = []
    for lane in lanes:
        out += _failed(lane) + _other_client(lane) + _queued(lane) + _warmup(lane)
    return out + _memory(lanes) + _prompt_tokens(lanes)


def _failed(lane: SpeedLane) -> list[Finding]:
    if not lane.failed:
        return []
    return [LaneWarning.FAILED_REQUESTS.finding(f"{lane.name}: {lane.failed} requests failed")]


def _other_client(lane: SpeedLane) -> list[Finding]:
    bad = contaminated(lane)
    if not bad:
        return []
    worst = max(bad, key=lambda r: (r.drafts or 0) + (r.accepted or 0) - r.tokens)
    total = (worst.drafts or worst.drafted or 0) + (worst.accepted or 0)
    return [
        LaneWarning.CONTAMINATED.finding(
            f"{lane.name}: in {len(bad)} of {len(lane.scored())} rows drafts + accepted are not "
            f"this client's tokens (up to {total:g} for {worst.tokens}): another client was served"
        )
    ]


def _queued(lane: SpeedLane) -> list[Finding]:
    """One repetition that waited: it alone makes the spread, and the median hides it."""
    out = []
    for prompt in dict.fromkeys(r.prompt for r in lane.scored()):
        rows = [r for r in lane.scored() if r.prompt == prompt and r.ttft_s is not None]
        if len(rows) < 3:
            continue
        for row in rows:
            rest = [r for r in rows if r is not row]
            usual = median(r.ttft_s or 0.0 for r in rest)
            if not usual or (row.ttft_s or 0.0) <= HELD_UP * usual:
                continue
            out.append(
                LaneWarning.QUEUED_REPETITION.finding(
                    f"{lane.name}, prompt {prompt}{f' ({row.kind})' if row.kind else ''}, "
                    f"repetition {row.repetition}: first token after {row.ttft_s:.1f} s "
                    f"where the others took {usual:.2f} s; spread "
                    f"{_spread(lane, rows):.2f} % with it, {_spread(lane, rest):.2f} % without"
                )
            )
    return out


def _spread(lane: SpeedLane, rows: Sequence[SpeedRow]) -> float:
    rates = [r for r in (lane.rate(row) for row in rows) if r]
    return 100 * (max(rates) - min(rates)) / median(rates) if len(rates) > 1 else 0.0


def _warmup(lane: SpeedLane) -> list[Finding]:
    """Short rows that count as much as full ones."""
    rows = lane.scored()
    if len(rows) < 4:
        return []
    usual = median(r.tokens for r in rows)
    short = [r for r in rows if r.tokens < 0.1 * usual]
    if not short:
        return []
    return [
        LaneWarning.WARMUP_WEIGHS.finding(
            f"{lane.name}: {len(short)} rows of at most {max(r.tokens for r in short)} tokens "
            f"weigh as much as rows of {usual:g}"
        )
    ]


def _memory(lanes: Sequence[SpeedLane]) -> list[Finding]:
    known = [(lane.name, lane.memory_mib) for lane in lanes if lane.memory_mib]
    if len(known) < 2:
        return []
    used = [m for _, m in known if m]
    if max(used) - min(used) <= MEMORY_SHARE * max(used):
        return []
    said = ", ".join(f"{name} {m:,.0f} MiB" for name, m in known)
    return [LaneWarning.UNEQUAL_MEMORY.finding(f"device memory in use: {said}")]


def _prompt_tokens(lanes: Sequence[SpeedLane]) -> list[Finding]:
    lengths: dict[str, set[int]] = {}
    for lane in lanes:
        for row in lane.scored():
            if row.prompt_tokens is not None:
                lengths.setdefault(row.prompt, set()).add(row.prompt_tokens)
    odd = {p: sorted(n) for p, n in lengths.items() if len(n) > 1}
    if not odd:
        return []
    said = ", ".join(f"{p}: {'/'.join(map(str, n))}" for p, n in list(odd.items())[:4])
    return [LaneWarning.PROMPT_TOKENS.finding(f"{len(odd)} prompts differ in tokens ({said})")]
