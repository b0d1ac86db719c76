"""Bars against figures: the verdict by rules that were frozen before the numbers were seen.

invalid: the comparison is none (younger rules, another client, unequal prompts, a figure missing).
inconclusive: it is one, and it does not decide. Only then fail and pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from lanescope.schemas.documents.gate import (
    Bar,
    BarResult,
    GateDocument,
    GateRules,
    RulesAge,
    TaskOutcomes,
    Verdict,
)
from lanescope.schemas.documents.speed import (
    Concurrency,
    PairedMetric,
    SourceFile,
    SpeedComparison,
    SpeedLaneSummary,
)
from lanescope.schemas.errors import ExitCode
from lanescope.schemas.findings import Abstention, Finding, LaneWarning

EXIT: dict[Verdict, ExitCode] = {
    "pass": ExitCode.DONE,
    "fail": ExitCode.GATE_FAIL,
    "inconclusive": ExitCode.GATE_INCONCLUSIVE,
    "invalid": ExitCode.GATE_INVALID,
}


#: findings whose message holds a gain
SAYS_A_GAIN = {
    LaneWarning.FEW_PROMPTS.code,
    LaneWarning.CONTROLS_DIFFER.code,
    LaneWarning.BASE_DECIDES_SIGN.code,
}


@dataclass(frozen=True)
class Figure:
    """One figure of an attribution, in ms a verification step: each lane's, and the difference."""

    base: float | None
    candidate: float | None
    delta: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = "ms/step"


@dataclass
class Evidence:
    """All that a gate may look at."""

    base: str
    candidate: str
    speed: SpeedComparison | None = None
    tasks: TaskOutcomes | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    files: Sequence[SourceFile] = ()
    refused: Sequence[Abstention] = ()  # why the attributions are not comparable
    findings: Sequence[Finding] = ()
    same: bool = False  # base and candidate are one and the same data


def judge(
    rules: GateRules, sha256: str, path: str, age: RulesAge, evidence: Evidence, post_hoc: bool
) -> GateDocument:
    """The verdict, with the value of every bar and the reasons in words."""
    bad = _invalid(rules, age, evidence, post_hoc)
    bars = [_bar(bar, evidence) for bar in rules.bar]
    bad += [f"{b.name}: {b.why}" for b in bars if b.verdict == "invalid"]
    open_ = _inconclusive(rules, evidence)
    reasons: list[str]
    verdict: Verdict
    if bad:
        verdict, reasons = "invalid", bad
    elif open_:
        verdict, reasons = "inconclusive", open_
    elif any(b.verdict == "fail" for b in bars):
        verdict = "fail"
        reasons = [f"{b.name}: {b.why}" for b in bars if b.verdict == "fail"]
    elif any(b.verdict == "inconclusive" for b in bars):
        verdict = "inconclusive"
        reasons = [f"{b.name}: {b.why}" for b in bars if b.verdict == "inconclusive"]
    else:
        verdict, reasons = "pass", ["every bar is met"]
    speed, findings = evidence.speed, list(evidence.findings)
    if speed is not None:
        findings = [*speed.findings, *findings]
    if verdict == "invalid":  # what is no comparison gives no gain, not even in passing
        findings = [f for f in findings if f.code not in SAYS_A_GAIN]
        bars = [_unjudged(bar) for bar in bars]
        if speed is not None:
            nothing: dict[str, object] = {"metrics": [], "controls": [], "long_wall_ratio": None}
            speed = speed.model_copy(update=nothing)
    if speed is not None:
        speed = speed.model_copy(update={"findings": []})  # they stand once, below
    return GateDocument(
        schema="lanescope.gate/1",
        name=rules.name,
        rules_sha256=sha256,
        rules_path=path,
        post_hoc=post_hoc,
        age=age,
        base=evidence.base,
        candidate=evidence.candidate,
        verdict=verdict,
        exit_code=int(EXIT[verdict]),
        reasons=reasons,
        bars=bars,
        speed=speed,
        tasks=evidence.tasks,
        files=list(evidence.files),
        findings=findings,
        abstained=[*(speed.abstained if speed else []), *evidence.refused],
    )


def _unjudged(bar: BarResult) -> BarResult:
    why = bar.why if bar.verdict == "invalid" else "not judged"
    nothing: dict[str, object] = {"value": None, "low": None, "high": None}
    nothing |= {"verdict": "invalid", "why": why}
    return bar.model_copy(update=nothing)


def _of_attribution(metric: str) -> bool:
    return metric.startswith("bucket:") or metric in {"wall_ms", "busy_ms", "sum_ms", "idle_ms"}


def _invalid(rules: GateRules, age: RulesAge, evidence: Evidence, post_hoc: bool) -> list[str]:
    out = []
    if not age.older and not post_hoc:
        out.append(
            f"the rules are younger than the data ({age.rules_basis} against {age.data_basis}): "
            "freeze rules before measuring, or mark the verdict with --post-hoc"
        )
    if evidence.same:
        out.append("base and candidate are the same data, by content")
    if any(_of_attribution(bar.metric) for bar in rules.bar):
        out += [f"{a.what}: {a.why}" for a in evidence.refused]
    speed = evidence.speed
    if speed is None:
        return out
    out += [f"{a.what}: {a.why}" for a in speed.refused]
    codes = {f.code: f.message for f in speed.findings}
    if rules.contaminated == "invalid" and LaneWarning.CONTAMINATED.code in codes:
        out.append(codes[LaneWarning.CONTAMINATED.code])
    if rules.unequal_prompts == "invalid" and LaneWarning.UNEQUAL_PROMPTS.code in codes:
        out.append(f"unequal prompts: {codes[LaneWarning.UNEQUAL_PROMPTS.code]}")
    return out


def _inconclusive(rules: GateRules, evidence: Evidence) -> list[str]:
    speed = evidence.speed
    if speed is None or not speed.metrics:
        return []
    out = []
    prompts = len(speed.metrics[0].prompts)
    if prompts < rules.min_prompts:
        out.append(f"{prompts} prompts where the rules ask for {rules.min_prompts}")
    fewest = min(lane.repetitions for lane in (*speed.base, speed.candidate))
    if fewest < rules.min_repetitions:
        out.append(f"{fewest} repetitions where the rules ask for {rules.min_repetitions}")
    if rules.require_relaunches and not (speed.base_launches or speed.candidate_launches):
        out.append("the rules ask for relaunches, and each lane was launched once")
    signs = next((f for f in speed.findings if f.code == LaneWarning.BASE_DECIDES_SIGN.code), None)
    if rules.one_base and signs is not None:
        out.append(signs.message)
    return out


def _bar(bar: Bar, evidence: Evidence) -> BarResult:
    value, low, high, unit, missing = _value(bar, evidence)
    verdict: Verdict
    if value is None:
        # an interval that nobody measured leaves the question open; a missing figure ends it
        verdict = "inconclusive" if missing.startswith("no relaunches") else "invalid"
        why = missing
    else:
        met = {
            "at_least": value >= bar.threshold,
            "above": value > bar.threshold,
            "at_most": value <= bar.threshold,
            "below": value < bar.threshold,
        }[bar.direction]
        verdict = "pass" if met else "fail"
        why = f"{value:.4g}{_unit(unit)} is {'' if met else 'not '}{_words(bar)}{_unit(unit)}"
        spans = low is not None and high is not None and low < bar.threshold < high
        if bar.inconclusive == "interval" and spans:
            verdict = "inconclusive"
            why = f"the interval [{low:.4g}, {high:.4g}]{_unit(unit)} holds {bar.threshold:g}"
    return BarResult(
        name=bar.title,
        metric=bar.metric,
        value=value,
        low=low,
        high=high,
        unit=unit,
        threshold=bar.threshold,
        verdict=verdict,
        why=why,
    )


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""


def _words(bar: Bar) -> str:
    return f"{bar.direction.replace('_', ' ')} {bar.threshold:g}"


Value = tuple[float | None, float | None, float | None, str, str]


def _nothing(why: str) -> Value:
    return None, None, None, "", why


def _value(bar: Bar, evidence: Evidence) -> Value:
    """value, interval, unit; or None and why there is none."""
    if bar.metric == "task_losses":
        return _of_tasks(bar, evidence.tasks)
    if bar.metric in evidence.figures:
        return _of_figure(bar, evidence.figures[bar.metric])
    if _of_attribution(bar.metric) and evidence.figures:
        known = ", ".join(sorted(evidence.figures))
        return _nothing(f"no such figure; the lanes have {known}")
    speed = evidence.speed
    if speed is None:
        return _nothing("no data that this bar is about was given")
    if bar.metric == "long_wall_ratio":
        if speed.long_wall_ratio is None:
            return _nothing("no long prompts in common")
        return speed.long_wall_ratio, None, None, "", ""
    if "@" in bar.metric:
        return _of_streams(bar, speed)
    if bar.of == "candidate" and not speed.base:
        return _of_alone(bar, speed.candidate)
    paired = next((m for m in speed.metrics if m.metric == bar.metric), None)
    if paired is None:
        said = next((a.why for a in speed.abstained if a.what == bar.metric), "no such metric")
        return _nothing(said)
    return _of_paired(bar, paired)


def _of_alone(bar: Bar, lane: SpeedLaneSummary) -> Value:
    known = {
        "decode_rate": (lane.decode_rate_median, "tok/s"),
        "ttft": (lane.ttft_median_s, "s"),
        "accepted_per_step": (lane.accepted_per_step, "tokens"),
    }
    value, unit = known.get(bar.metric, (None, ""))
    if value is None:
        return _nothing("one lane alone does not say this")
    return value, None, None, unit, ""


def _of_paired(bar: Bar, paired: PairedMetric) -> Value:
    if bar.of in {"candidate", "base"}:
        values = [p.candidate if bar.of == "candidate" else p.base for p in paired.prompts]
        return median(values), None, None, paired.unit, ""
    if bar.of == "difference":
        return median(p.candidate - p.base for p in paired.prompts), None, None, paired.unit, ""
    if bar.statistic in {"wins", "losses"}:
        count = paired.wins if bar.statistic == "wins" else paired.losses
        return float(count), None, None, f"of {len(paired.prompts)} prompts", ""
    low, high = {
        "bootstrap": (paired.low_pct, paired.high_pct),
        "t": (paired.t_low_pct, paired.t_high_pct),
        "launches": (paired.launch_low_pct, paired.launch_high_pct),
    }[bar.interval]
    value = {"point": paired.mean_gain_pct, "lower": low, "upper": high}[bar.statistic]
    if value is None or (bar.inconclusive == "interval" and low is None):
        return _nothing("no relaunches: an interval that covers them was asked for")
    return value, low, high, "%", ""


def _of_streams(bar: Bar, speed: SpeedComparison) -> Value:
    """`aggregate_rate@C` or `steady_rate@C`: medians over repetitions, the gain in per cent."""
    kind, _, count = bar.metric.partition("@")
    if kind not in {"aggregate_rate", "steady_rate"} or not count.isdigit():
        return _nothing("no such metric")

    def of(lanes: Sequence[SpeedLaneSummary]) -> float | None:
        names = {lane.name for lane in lanes}
        rates = [_rate(c, kind) for c in speed.concurrency if _is(c, names, int(count))]
        known = [r for r in rates if r is not None]
        return median(known) if known else None

    base, candidate = of(speed.base), of([speed.candidate])
    if base is None or candidate is None:
        return _nothing(f"no {kind.replace('_', ' ')} at concurrency {count} in both lanes")
    value = {
        "gain": 100 * (candidate / base - 1),
        "difference": candidate - base,
        "candidate": candidate,
        "base": base,
    }[bar.of]
    return value, None, None, "%" if bar.of == "gain" else "tok/s", ""


def _is(entry: Concurrency, names: set[str], count: int) -> bool:
    return entry.lane in names and entry.concurrency == count


def _rate(entry: Concurrency, kind: str) -> float | None:
    return entry.aggregate_tok_s if kind == "aggregate_rate" else entry.steady_tok_s


def _of_tasks(bar: Bar, tasks: TaskOutcomes | None) -> Value:
    if tasks is None:
        return _nothing("no task outcomes were given (--tasks)")
    if bar.statistic in {"wins", "losses"}:
        count = tasks.wins if bar.statistic == "wins" else tasks.losses
        return float(count), None, None, f"of {tasks.tasks} tasks", ""
    share = tasks.losses / tasks.tasks
    value = tasks.loss_share_upper if bar.statistic == "upper" else share
    return value, None, tasks.loss_share_upper, "of the tasks", ""


def _of_figure(bar: Bar, figure: Figure) -> Value:
    if bar.of in {"candidate", "base"}:
        value = figure.candidate if bar.of == "candidate" else figure.base
        return (
            (value, None, None, figure.unit, "") if value is not None else _nothing("no such lane")
        )
    if figure.delta is None or figure.base is None:
        return _nothing("needs two comparable lanes")
    scale, unit = 1.0, figure.unit
    if bar.of == "gain":
        if figure.base == 0:
            return _nothing("the base is 0: no gain in per cent")
        scale, unit = 100 / figure.base, "%"
    low = None if figure.low is None else figure.low * scale
    high = None if figure.high is None else figure.high * scale
    value = {"lower": low, "upper": high}.get(bar.statistic, figure.delta * scale)
    return (value, low, high, unit, "") if value is not None else _nothing("no interval")
