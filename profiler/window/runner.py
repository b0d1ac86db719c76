"""The runner: walks the state table, and brings the incumbent back whatever happens."""

from __future__ import annotations

import time
from typing import Any

from lanescope.profiler.window import release, states, summary
from lanescope.profiler.window.folder import utc
from lanescope.profiler.window.restoring import abandon
from lanescope.profiler.window.run import Run, Stopped
from lanescope.profiler.window.states import State
from lanescope.schemas.documents.receipt import Outcome, Receipt
from lanescope.schemas.errors import LanescopeError


class RunnerLost(LanescopeError):
    """The runner was killed in the middle of a window, and another finishes it."""


class Runner:
    """One walk through the table."""

    def __init__(self, run: Run, say: Any) -> None:
        self.run = run
        self.say = say
        self.failure: BaseException | None = None
        self.last = ""

    # -- one step ----------------------------------------------------------------------------------

    def step(self, state: State) -> None:
        """Do one state and write its receipt. Raises what the state raised."""
        run = self.run
        number = states.ALL.index(state) + 1
        began, clock = utc(), time.monotonic()
        self.last = state.name
        run.private_json_quietly("state.json", {"state": state.name, "since": began})
        self.say(f"{number:2d}/{len(states.ALL)} {state.name}: {state.does}")
        facts: dict[str, Any] = {}
        error, status = "", "failed"
        try:
            self._allowed(state)
            facts = state.act(run)
            status = "ok"
        except BaseException as exc:
            error = run.redact.text(_line(exc))
            raise
        finally:
            run.folder.receipt(
                Receipt(
                    window=run.plan.window.name,
                    run=run.run,
                    number=number,
                    state=state.name,
                    status="ok" if status == "ok" else "failed",
                    began=began,
                    ended=utc(),
                    seconds=round(time.monotonic() - clock, 3),
                    facts=run.redact.data(facts),
                    error=error,
                )
            )

    def _allowed(self, state: State) -> None:
        """The release, the failsafe and its time, before a step goes on."""
        run = self.run
        if state not in states.EXPERIMENT:
            return
        if run.marked("abort"):
            raise Stopped("ended by lanescope capture abort", "the incumbent is brought back")
        if state.touches:
            release.require(run.plan)
        if run.guard is not None and run.guard.armed:
            run.guard.check()
            if state.needs_s is not None:
                with run.signals.shielded():
                    run.guard.ensure(state.needs_s(run))

    # -- the walk ----------------------------------------------------------------------------------

    def walk(self) -> Outcome:
        """The whole window. Returns how it ended; never raises once the incumbent is touched."""
        signals = self.run.signals
        signals.install()
        try:
            signals.open = True
            signals.raise_if_seen()
            for state in states.EXPERIMENT:
                self.step(state)
        except BaseException as exc:  # noqa: BLE001 - kept, told, and turned into an outcome below
            self.failure = exc
        finally:
            signals.open = False
        return self.finish()

    def finish(self) -> Outcome:
        """From wherever the experiment ended: restoration, what can be saved, receipts."""
        if self.failure is not None:
            self.say(f"   stopped: {self.run.redact.text(_line(self.failure))}")
        restored = self._restore() if self.run.touched() else self._untouched()
        offline_failure = self._offline() if restored and self.run.marked("collected") else None
        outcome = self._outcome(restored, offline_failure)
        summary.close(self.run, outcome, self.last, self.failure or offline_failure, self.say)
        return outcome

    def _untouched(self) -> bool:
        """Nothing was stopped: take the failsafe away and leave."""
        if self.run.guard is not None:
            try:
                self.run.guard.disarm()
            except LanescopeError as exc:
                self.say(f"   {exc}")
        return True

    def _restore(self) -> bool:
        """Both steps of the restoration; the failsafe stays armed unless the incumbent serves."""
        abandon(self.run, self.failure)
        for state in states.RESTORE:
            try:
                self.step(state)
            except BaseException as exc:  # noqa: BLE001 - told by receipt and outcome
                self.say(f"   {state.name}: {self.run.redact.text(_line(exc))}")
                if state.name == "incumbent_restored":
                    return False
        return True

    def _offline(self) -> BaseException | None:
        """With the incumbent serving: export, attribution, catalogue; each failure is told."""
        first: BaseException | None = None
        for state in states.OFFLINE:
            try:
                self.step(state)
            except BaseException as exc:  # noqa: BLE001 - told by receipt and outcome
                self.say(f"   {state.name}: {self.run.redact.text(_line(exc))}")
                first = first or exc
        return first

    def _outcome(self, restored: bool, offline_failure: BaseException | None) -> Outcome:
        if not restored:
            return Outcome.NOT_RESTORED
        if self.failure is not None:
            early = Stopped | release.NotReleased | KeyboardInterrupt
            untouched = not self.run.touched()
            stopped = isinstance(self.failure, early | RunnerLost if untouched else early)
            if untouched and not stopped:
                return Outcome.REFUSED
            return Outcome.STOPPED if stopped else Outcome.FAILED
        if offline_failure is not None or not self.run.marked("collected"):
            return Outcome.UNFINISHED
        if self.run.results.get("kernels") == 0:
            return Outcome.NO_DEVICE_ACTIVITY
        return Outcome.DONE


def _line(exc: BaseException) -> str:
    text = str(exc) if isinstance(exc, LanescopeError) else f"{type(exc).__name__}: {exc}"
    return " ".join(text.split())
