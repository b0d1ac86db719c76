"""Bars against figures: the verdict by rules that were frozen before the numbers were seen.

invalid: the comparison is none (younger rules, another client, unequal prompts, a figure missing).
inconclusive: it is one, and it does not decide. Only then fail and pass.
"""

from __future__ import annotations

from lanescope.attribution.lanes.bars import Evidence, of_attribution, value_of
from lanescope.schemas.documents.gate import (
    Bar,
    BarResult,
    GateDocument,
    GateRules,
    RulesAge,
    Verdict,
)
from lanescope.schemas.errors import ExitCode
from lanescope.schemas.findings import LaneWarning

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


def _invalid(rules: GateRules, age: RulesAge, evidence: Evidence, post_hoc: bool) -> list[str]:
    out = []
    if not age.older and not post_hoc:
        out.append(
            f"the rules are younger than the data ({age.rules_basis} against {age.data_basis}): "
            "freeze rules before measuring, or mark the verdict with --post-hoc"
        )
    if evidence.same:
        out.append("base and candidate are the same data, by content")
    if any(of_attribution(bar.metric) for bar in rules.bar):
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
    value, low, high, unit, missing = value_of(bar, evidence)
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
