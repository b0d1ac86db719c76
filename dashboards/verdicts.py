"""A gate's verdict as a table, as Markdown for a pull request, and as JUnit XML for a pipeline.

Only what a verdict supports is shown: without a valid comparison no gain and no wins are printed.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from rich.console import Console

from lanescope.dashboards.terminal import Column, sentence, table
from lanescope.schemas.documents.gate import BarResult, GateDocument
from lanescope.schemas.documents.speed import PairedMetric, SpeedComparison, SpeedLaneSummary
from lanescope.schemas.findings import Abstention, Finding

WORDS = {
    "pass": "PASS",
    "fail": "FAIL",
    "inconclusive": "INCONCLUSIVE: nothing is decided",
    "invalid": "INVALID: not a comparison",
}


def headline(doc: GateDocument) -> str:
    """The verdict in one line."""
    mark = ", POST HOC" if doc.post_hoc else ""
    return f"{WORDS[doc.verdict]}{mark} ({doc.name}, rules {doc.rules_sha256[:12]})"


def _figure(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:,.4g}{f' {unit}' if unit else ''}"


def _bar(bar: BarResult) -> list[str]:
    held = "-" if bar.low is None else f"[{bar.low:.4g}, {_figure(bar.high)}]"
    return [bar.name, _figure(bar.value, bar.unit), held, bar.verdict]


def _lane(role: str, lane: SpeedLaneSummary) -> list[str]:
    return [
        role,
        lane.name,
        f"{lane.prompts} x {lane.repetitions}",
        "-" if lane.decode_rate_median is None else f"{lane.decode_rate_median:.2f}",
        "-" if lane.spread_pct is None else f"{lane.spread_pct:.2f}",
        "-" if lane.ttft_median_s is None else f"{lane.ttft_median_s:.3f}",
    ]


LANE_COLUMNS = (
    Column("role", numeric=False),
    Column("lane", numeric=False),
    Column("prompts x reps"),
    Column("tok/s"),
    Column("spread %"),
    Column("TTFT s"),
)
PAIR_COLUMNS = (
    Column("metric", numeric=False),
    Column("mean gain %"),
    Column("95 % bootstrap"),
    Column("95 % t"),
    Column("wins"),
)
BAR_COLUMNS = (
    Column("bar", numeric=False),
    Column("value"),
    Column("interval"),
    Column("verdict", numeric=False),
)


def _lanes(speed: SpeedComparison) -> list[list[str]]:
    role = "control" if len(speed.base) > 1 else "base"
    return [
        *[_lane(role, lane) for lane in speed.base],
        *[_lane("base again", lane) for lane in speed.base_launches],
        _lane("candidate", speed.candidate),
        *[_lane("cand. again", lane) for lane in speed.candidate_launches],
    ]


def _pair(metric: PairedMetric) -> list[str]:
    return [
        metric.metric,
        f"{metric.mean_gain_pct:+.2f}",
        f"[{metric.low_pct:+.2f}, {metric.high_pct:+.2f}]",
        f"[{metric.t_low_pct:+.2f}, {metric.t_high_pct:+.2f}]",
        f"{metric.wins}/{len(metric.prompts)}",
    ]


def print_speed(speed: SpeedComparison, con: Console, paired: bool = True) -> None:
    """Each lane by itself; then, where there is a comparison, the pairs."""
    table("Lanes", LANE_COLUMNS, _lanes(speed), con)
    for entry in speed.concurrency:
        steady = "" if entry.steady_tok_s is None else f", {entry.steady_tok_s:.1f} steady"
        walls = ", ".join(f"{w:.1f}" for w in entry.walls_s)
        sentence(
            con,
            f"{entry.lane} at concurrency {entry.concurrency}: {entry.aggregate_tok_s:.1f} tok/s "
            f"by the slowest stream{steady}; walls {walls} s; straggler {entry.straggler}",
        )
    if not paired or speed.refused:
        for refusal in speed.refused:
            sentence(con, f"withheld: {refusal.what}: {refusal.why}. {refusal.remedy}")
        return
    table(
        "Candidate against base, paired by prompt",
        PAIR_COLUMNS,
        [_pair(m) for m in speed.metrics],
        con,
    )
    for metric in speed.metrics:
        if metric.metric == "decode_rate" and metric.launch_low_pct is not None:
            sentence(
                con,
                f"decode_rate over relaunches: [{metric.launch_low_pct:+.2f}, "
                f"{metric.launch_high_pct:+.2f}] % ({metric.launch_interval})",
            )
    for gain in speed.controls:
        sentence(
            con,
            f"against {gain.control} alone: {gain.mean_gain_pct:+.2f} %, {gain.wins}/{gain.n} wins"
            f"; that control lies {gain.control_level_pct:+.2f} % from the controls' mean",
        )
    if speed.long_wall_ratio is not None:
        sentence(
            con, f"long prompts ({speed.long_prompts}): wall ratio {speed.long_wall_ratio:.4f}"
        )


def print_notes(findings: list[Finding], gaps: list[Abstention], con: Console) -> None:
    """What is to be said, and what could not be looked at."""
    for finding in findings:
        sentence(con, f"! {finding.message}. {finding.advice}")
    for gap in gaps:
        sentence(con, f"? {gap.what}: {gap.why}. {gap.remedy}")


def print_gate(doc: GateDocument, con: Console) -> None:
    """The whole verdict for a terminal."""
    if doc.speed is not None:
        print_speed(doc.speed, con, paired=doc.verdict != "invalid")
    if doc.tasks is not None:
        sentence(con, _tasks(doc))
    table("Bars", BAR_COLUMNS, [_bar(bar) for bar in doc.bars], con)
    print_notes(doc.findings, doc.abstained, con)
    sentence(con, headline(doc))
    for reason in doc.reasons:
        sentence(con, f"  {reason}")
    if not doc.age.older:
        sentence(con, f"  rules are younger than the data, by {doc.age.rules_basis}")


def _tasks(doc: GateDocument) -> str:
    tasks = doc.tasks
    if tasks is None:
        return ""
    return (
        f"tasks: {tasks.tasks}, {tasks.losses} lost, {tasks.wins} won, {tasks.ties} tied; "
        f"loss share at most {tasks.loss_share_upper:.5f} (one-sided 95 %, Clopper-Pearson); "
        f"repeats passed {tasks.candidate_passed} against {tasks.base_passed} of {tasks.repeats}"
    )


def _cell(text: str) -> str:
    """Text inside a Markdown table: names come from outside."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _grid(columns: tuple[Column, ...], rows: list[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(c.heading for c in columns) + " |",
        "| " + " | ".join("---:" if c.numeric else "---" for c in columns) + " |",
        *["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows],
        "",
    ]


def gate_markdown(doc: GateDocument) -> str:
    """A summary for a pull request."""
    lines = [f"## {_cell(headline(doc))}", ""]
    lines += [f"- {_cell(reason)}" for reason in doc.reasons] + [""]
    lines += _grid(BAR_COLUMNS, [_bar(bar) for bar in doc.bars])
    if doc.speed is not None:
        lines += _grid(LANE_COLUMNS, _lanes(doc.speed))
        if doc.verdict != "invalid" and not doc.speed.refused:
            lines += _grid(PAIR_COLUMNS, [_pair(m) for m in doc.speed.metrics])
    if doc.tasks is not None:
        lines += [_tasks(doc), ""]
    lines += [f"- **{f.code}** {_cell(f.message)}. {_cell(f.advice)}" for f in doc.findings]
    lines += [f"- not looked at: {_cell(a.what)} ({_cell(a.why)})" for a in doc.abstained]
    lines += [
        "",
        f"Rules `{doc.rules_sha256}`"
        + (", post hoc" if doc.post_hoc else f", frozen by {doc.age.rules_basis}")
        + ".",
    ]
    return "\n".join(lines) + "\n"


def gate_junit(doc: GateDocument) -> str:
    """One test case a bar, and one for the comparison itself."""
    cases: list[tuple[str, str, str]] = [(b.name, b.verdict, b.why) for b in doc.bars]
    whole = doc.verdict if doc.verdict in {"invalid", "inconclusive"} else "pass"
    cases.append(("the comparison", whole, "; ".join(doc.reasons)))
    kinds = {"fail": "failure", "invalid": "error", "inconclusive": "skipped"}
    counts = {kind: sum(kinds.get(v) == kind for _, v, _ in cases) for kind in kinds.values()}
    suite = ET.Element(
        "testsuite",
        name=_xml(f"lanescope gate {doc.name}"),
        tests=str(len(cases)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
    )
    properties = ET.SubElement(suite, "properties")
    for key, value in (
        ("verdict", doc.verdict),
        ("rules_sha256", doc.rules_sha256),
        ("post_hoc", str(doc.post_hoc).lower()),
    ):
        ET.SubElement(properties, "property", name=key, value=value)
    for name, verdict, why in cases:
        case = ET.SubElement(suite, "testcase", classname=_xml(f"gate.{doc.name}"), name=_xml(name))
        if verdict in kinds:
            ET.SubElement(case, kinds[verdict], message=_xml(why))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    """Without the characters that XML 1.0 cannot hold."""
    return "".join(c if c in "\t\n\r" or ord(c) >= 32 else "�" for c in text)
