"""`--dry-run`: the plan, and every check that touches nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from lanescope.profiler.adapters import nsight
from lanescope.profiler.window import before, diff, release, states
from lanescope.profiler.window.guard import choose
from lanescope.profiler.window.plan import Plan
from lanescope.profiler.window.run import Run
from lanescope.schemas.errors import LanescopeError


def run(plan: Plan, say: Callable[[str], None]) -> int:
    """Print the plan, then the checks; raises the first thing that is wrong."""
    _plan(plan, say)
    job = Run(plan, "dry-run")
    with tempfile.TemporaryDirectory(prefix="lanescope-dry-") as scratch:
        checks: list[tuple[str, Callable[[], object]]] = [
            ("lanes, pins, incumbent's container or process", job.launcher.check),
            ("disk", lambda: before.disk(plan)),
            ("nsys", lambda: nsight.self_test(job.nsight)),
            ("GPU", lambda: before.gpu(plan)),
            ("incumbent", lambda: before.incumbent(plan)),
            ("failsafe", lambda: choose(plan.window.failsafe, [], Path(scratch), "dry").facts()),
        ]
        for name, check in checks:
            check()
            say(f"ok: {name}")
    try:
        release.require(plan)
        say("ok: released")
    except LanescopeError as exc:
        say(f"not released: {exc}")
    return 0


def _plan(plan: Plan, say: Callable[[str], None]) -> None:
    say(f"window {plan.window.name} ({plan.sha256[:16]})")
    say(f"incumbent {plan.incumbent.name}: {plan.window.incumbent.container or 'a process'}")
    say(f"candidate {plan.candidate.name}: {plan.candidate.image or 'a process'}")
    for change in diff.differences(plan.incumbent, plan.candidate):
        say(f"  {change.axis}: {change.a} -> {change.b}")
    probe = plan.window.probe
    say(
        f"probe: {len(plan.prompts)} prompts x {probe.repetitions}, {probe.max_tokens} tokens, "
        f"concurrency {', '.join(map(str, probe.concurrency))}"
    )
    say(f"failsafe after {plan.window.failsafe.deadline_s:g} s; output {plan.output}")
    for number, state in enumerate(states.ALL, 1):
        say(
            f"{number:2d} {state.name}: {state.does}"
            + (" (reads the release)" if state.touches else "")
        )
