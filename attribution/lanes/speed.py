"""Two lanes' probes, paired by prompt: gains, intervals, wins, and what a careful reader notices.

Per prompt and lane the median over the scored repetitions; the base is the mean of the controls'
medians; a gain is 100 x (candidate / base - 1). Everything is stated for the prompts measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from lanescope.attribution.lanes import notices
from lanescope.attribution.lanes.intervals import SEED
from lanescope.attribution.lanes.pairing import (
    METRICS,
    Metric,
    controls_alone,
    long_wall,
    pair,
    per_prompt,
)
from lanescope.attribution.lanes.probes import SpeedLane
from lanescope.attribution.lanes.streams import concurrency_of
from lanescope.schemas.documents.speed import PairedMetric, SpeedComparison, SpeedLaneSummary
from lanescope.schemas.findings import Abstention, Finding, LaneWarning

#: prompts of at least this many tokens count as long
LONG_PROMPT = 4096


def summary(lane: SpeedLane) -> SpeedLaneSummary:
    """One lane by itself."""
    scored = lane.scored()
    rates: dict[str, list[float]] = {}
    for row in scored:
        rate = lane.rate(row)
        if rate is not None:
            rates.setdefault(row.prompt, []).append(rate)
    medians = [median(v) for v in rates.values()]
    drafts = sum(r.drafts or 0 for r in scored)
    accepted = sum(r.accepted or 0 for r in scored if r.drafts)
    ttfts = [r.ttft_s for r in scored if r.ttft_s is not None]
    return SpeedLaneSummary(
        name=lane.name,
        files=lane.files,
        rate_rule=lane.rate_rule,
        rows=len(lane.rows),
        scored=len(scored),
        prompts=len({r.prompt for r in scored}),
        repetitions=max(
            (sum(r.prompt == p for r in scored) for p in {r.prompt for r in scored}), default=0
        ),
        decode_rate_median=median(medians) if medians else None,
        decode_rate_min=min(medians, default=None),
        decode_rate_max=max(medians, default=None),
        spread_pct=max(
            (100 * (max(v) - min(v)) / median(v) for v in rates.values() if len(v) > 1),
            default=None,
        ),
        ttft_median_s=median(ttfts) if ttfts else None,
        accepted_per_step=1 + accepted / drafts if drafts else None,
        contaminated_rows=len(notices.contaminated(lane)),
        memory_mib=lane.memory_mib,
    )


def compare_speed(
    controls: Sequence[SpeedLane],
    candidate: SpeedLane,
    *,
    base_launches: Sequence[SpeedLane] = (),
    candidate_launches: Sequence[SpeedLane] = (),
    launch_floor_pct: float | None = None,
    long_prompt_tokens: int = LONG_PROMPT,
) -> SpeedComparison:
    """The candidate against the mean of the controls; without controls, the candidate alone.

    `base_launches`, `candidate_launches`: further launches of the (first) control and of the
    candidate; with them, or with a floor, an interval is given that covers relaunches.
    """
    everyone = [*controls, *base_launches, candidate, *candidate_launches]
    findings = notices.of_lanes(everyone)
    refused = _refusals(controls, candidate)
    common, unequal = _common_prompts(everyone)
    findings += unequal
    if controls and not common:
        refused.append(
            Abstention(
                what="paired gains",
                why="the lanes have no prompt in common",
                remedy="measure both on the same prompts, with the same ids",
            )
        )
    metrics: list[PairedMetric] = []
    abstained: list[Abstention] = []
    disturbed = [lane.name for lane in everyone if notices.contaminated(lane)]
    if controls and not refused:
        for metric in METRICS:
            if metric.name != "decode_rate" and metric.name != "token_gap" and disturbed:
                abstained.append(_disturbed(metric, disturbed))
                continue
            paired = pair(
                metric,
                controls,
                candidate,
                common,
                base_launches,
                candidate_launches,
                launch_floor_pct,
            )
            if paired:
                metrics.append(paired)
            else:
                abstained.append(_absent(metric, everyone))
    findings += _about_the_base(controls, candidate, common) if controls and not refused else []
    rate = next((m for m in metrics if m.metric == "decode_rate"), None)
    if rate is not None and rate.launch_low_pct is None:
        findings.append(
            LaneWarning.NO_RELAUNCHES.finding(
                "the interval is over prompts within these launches; each lane was launched once, "
                "and what a relaunch moves is not in it"
            )
        )
    if rate is not None and len(rate.prompts) < 12:
        findings.append(
            LaneWarning.FEW_PROMPTS.finding(
                f"{len(rate.prompts)} prompts: the bootstrap gives "
                f"{_span(rate.low_pct, rate.high_pct)} %, Student's t "
                f"{_span(rate.t_low_pct, rate.t_high_pct)} %"
            )
        )
    if any(lane.memory_mib is None for lane in everyone):
        abstained.append(
            Abstention(
                what="equal device memory",
                why="the rows do not say how much memory each lane used",
                remedy="a field memory_mib in the rows, or --memory LANE=MIB",
            )
        )
    ratio, long = None, 0
    if controls and not refused:
        ratio, long = long_wall(controls, candidate, long_prompt_tokens)
    return SpeedComparison(
        base=[summary(lane) for lane in controls],
        candidate=summary(candidate),
        base_launches=[summary(lane) for lane in base_launches],
        candidate_launches=[summary(lane) for lane in candidate_launches],
        refused=refused,
        metrics=metrics,
        controls=controls_alone(controls, candidate, common) if not refused else [],
        long_wall_ratio=ratio,
        long_prompts=long,
        concurrency=[c for lane in everyone for c in concurrency_of(lane)],
        findings=findings,
        abstained=abstained,
        seed=SEED,
    )


def _disturbed(metric: Metric, lanes: Sequence[str]) -> Abstention:
    """What another client distorts; a rate after the first token is left to the reader."""
    return Abstention(
        what=metric.name,
        why=f"another client was served during the probe of {', '.join(lanes)}",
        remedy="repeat the probe alone",
    )


def _span(low: float, high: float) -> str:
    return f"[{low:+.2f}, {high:+.2f}]"


def _refusals(controls: Sequence[SpeedLane], candidate: SpeedLane) -> list[Abstention]:
    rules = {lane.rate_rule for lane in (*controls, candidate)}
    if len(rules) == 1:
        return []
    return [
        Abstention(
            what="paired gains",
            why=f"decode rates were made by different rules: {'; '.join(sorted(rules))}",
            remedy="measure both lanes with one probe",
        )
    ]


def _common_prompts(lanes: Sequence[SpeedLane]) -> tuple[list[str], list[Finding]]:
    """The prompts that all lanes have, in the first lane's order, and what is unequal."""
    sets = [{r.prompt for r in lane.scored()} for lane in lanes]
    shared = set.intersection(*sets) if sets else set()
    common = [p for p in dict.fromkeys(r.prompt for r in lanes[0].scored()) if p in shared]
    findings = []
    if any(s != shared for s in sets):
        sizes = ", ".join(f"{lane.name} {len(s)}" for lane, s in zip(lanes, sets, strict=True))
        findings.append(
            LaneWarning.UNEQUAL_PROMPTS.finding(f"{len(shared)} prompts in common; {sizes}")
        )
    counts = {
        lane.name: sorted({sum(r.prompt == p for r in lane.scored()) for p in common})
        for lane in lanes
    }
    if len({tuple(c) for c in counts.values()}) > 1 or any(len(c) > 1 for c in counts.values()):
        said = ", ".join(f"{n} {'/'.join(map(str, c))}" for n, c in counts.items())
        findings.append(
            LaneWarning.UNEQUAL_REPETITIONS.finding(f"scored repetitions a prompt: {said}")
        )
    return common, findings


def _absent(metric: Metric, lanes: Sequence[SpeedLane]) -> Abstention:
    need = {
        "decode_rate": "ttft (or decode seconds)",
        "token_gap": "ttft (or decode seconds)",
        "ttft": "ttft",
        "accepted_per_step": "drafts and accepted tokens",
    }.get(metric.name, "positive values")
    without = [lane.name for lane in lanes if not per_prompt(lane, metric)]
    return Abstention(
        what=metric.name,
        why=f"no {need} in the rows of {', '.join(without) or 'the common prompts'}",
        remedy=f"a probe that records {need}",
    )


def _about_the_base(
    controls: Sequence[SpeedLane], candidate: SpeedLane, common: Sequence[str]
) -> list[Finding]:
    gains = controls_alone(controls, candidate, common)
    if not gains:
        return []
    said = ", ".join(
        f"{g.mean_gain_pct:+.2f} % ({g.wins}/{g.n} wins) against {g.control}" for g in gains
    )
    if min(g.mean_gain_pct for g in gains) < 0 < max(g.mean_gain_pct for g in gains):
        return [
            LaneWarning.BASE_DECIDES_SIGN.finding(f"the choice of base decides the sign: {said}")
        ]
    levels = [g.control_level_pct for g in gains]
    if max(levels) - min(levels) > 0.1:
        return [
            LaneWarning.CONTROLS_DIFFER.finding(
                f"the controls lie {max(levels) - min(levels):.2f} % apart: {said}"
            )
        ]
    return []
