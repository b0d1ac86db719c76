"""Closing a window: the human summary, the catalogue's last word, the manifest."""

from __future__ import annotations

import json
from typing import Any

from lanescope.profiler.window import offline
from lanescope.profiler.window.run import Run
from lanescope.schemas.documents.receipt import Outcome, Receipt
from lanescope.schemas.errors import LanescopeError


def close(run: Run, outcome: Outcome, state: str, failure: BaseException | None, say: Any) -> None:
    """Write what is left to write; none of it changes how the window ended."""
    why = run.redact.text(f"{failure}") if failure is not None else ""
    steps = (
        lambda: run.folder.write("WINDOW.md", text(run, outcome, why)),
        lambda: offline.keep_log(run),
        lambda: run.launcher.remove_candidate() if outcome is not Outcome.NOT_RESTORED else None,
        lambda: offline.conclude(run, outcome, state),
        lambda: page(run, outcome),
        lambda: run.folder.seal(outcome.word),
    )
    for step in steps:
        try:
            step()
        except (OSError, LanescopeError) as exc:
            say(f"   closing: {run.redact.text(str(exc))}")
    run.private_json_quietly(
        "state.json", {"state": state, "outcome": outcome.word, "code": outcome.code, "why": why}
    )
    say(f"{outcome.word}: {outcome.meaning}" + (f" ({why})" if why else ""))


def page(run: Run, outcome: Outcome) -> None:
    """`window.html`, from what lies in the folder: every byte of it has passed the redactor.

    Larger than the reserve, so a full disk keeps the reserve for the manifest. A page that cannot
    be made costs the window nothing: `lanescope windows page` makes it from the folder.
    """
    from lanescope.attribution.window import read_window  # slow to import, and with plotly: last
    from lanescope.dashboards.pages.window_page import PAGE, window_page

    try:
        text = window_page(read_window(run.folder.path, outcome.word))
    except Exception as exc:
        raise LanescopeError(
            f"{PAGE} was not made: {type(exc).__name__}: {exc}", "see lanescope windows page"
        ) from exc
    run.folder.write_page(PAGE, text)


def receipts(run: Run) -> list[Receipt]:
    """The receipts on disk, in order."""
    found = []
    for path in sorted((run.folder.path / "receipts").glob("*.json")):
        found.append(Receipt.model_validate_json(path.read_bytes()))
    return found


def text(run: Run, outcome: Outcome, why: str) -> str:
    """`WINDOW.md`."""
    plan = run.plan
    lines = [
        f"# Window {run.run}",
        "",
        f"**{outcome.word}**: {outcome.meaning}." + (f" {why}" if why else ""),
        "",
        f"Incumbent {plan.incumbent.name}, candidate {plan.candidate.name}"
        + (f", axis {plan.window.axis}." if plan.window.axis else "."),
        f"nsys {run.nsight.version}, tracer {', '.join(plan.candidate.tracer.trace)}.",
        "",
        "| state | status | s | |",
        "| --- | --- | ---: | --- |",
    ]
    for receipt in receipts(run):
        error = receipt.error.replace("|", "/")
        lines.append(f"| {receipt.state} | {receipt.status} | {receipt.seconds:.1f} | {error} |")
    lines += [f"| (receipt not written) | | | {line} |" for line in run.folder.unwritten]
    lines += ["", *_figures(run)]
    return "\n".join(lines) + "\n"


def _gpu(found: dict[str, Any]) -> list[str]:
    """Clock and power over the probe, or why there are none."""
    if not found.get("samples"):
        return [f"- GPU: {found.get('why', 'no sample was taken')}"]
    lines = []
    for name in ("sm_clock_mhz", "power_mw", "throttle_reasons"):
        field = found[name]
        if field["mean"] is None:
            lines.append(f"- {name}: not known: {field['why']}")
        else:
            lines.append(f"- {name}: {field['mean']:.0f} ({field['min']} to {field['max']})")
    return lines


def _figures(run: Run) -> list[str]:
    lines = []
    for phase in ("control", "profiled"):
        found = run.results.get(phase)
        if not found:
            continue
        figures = found["figures"]
        note = figures["contamination"]
        lines.append(f"{phase} probe: {figures['requests']} requests; {note['verdict']}")
        lines += [f"- {reason}" for reason in (*note["reasons"], *note["unknown"])]
        lines += [f"- not reported by the server: {what}" for what in figures["not_reported"]]
        for row in figures["by_concurrency"]:
            lines.append(f"- {json.dumps(row)}")
        lines += _gpu(figures.get("gpu") or {})
        lines.append("")
    slowdown = run.results.get("slowdown")
    if slowdown and slowdown["percent"] is not None:
        interval = slowdown["interval"]
        spread = f" [{interval[0]:+.1f}, {interval[1]:+.1f}]" if interval else ""
        lines.append(f"Profiler slowdown: {slowdown['percent']:+.1f} %{spread}.")
    return lines
