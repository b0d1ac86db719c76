"""The fault matrix: every row is one test on real parts; `table()` is what the docs show.

A row says what is done to the window, how the window must end (exit code and word), and what the
failsafe does. That the incumbent serves again is asked in every row (`Bench.safe`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.profiler.parts import Bench


@dataclass(frozen=True)
class Fault:
    """One row."""

    group: str
    what: str
    code: int
    ends: str
    failsafe: str = "disarmed, unfired"


#: words of the outcomes by exit code
SIGNALS = "stopped (with 0 once captured and restored)"
FAULTS = {
    "sigkill": Fault(
        "runner",
        "SIGKILL at each of the 17 states",
        -9,
        "`resume` finishes it",
        "fires once, if armed",
    ),
    "sigterm": Fault("runner", "SIGTERM at each of the 17 states", 21, SIGNALS),
    "sigint": Fault("runner", "Ctrl-C at each of the 17 states", 21, SIGNALS),
    "frozen": Fault(
        "runner", "stands still (SIGSTOP) while the candidate loads", 20, "failed", "fires once"
    ),
    "abort": Fault("runner", "`capture abort` while it waits for readiness", 21, "stopped"),
    "hold": Fault("runner", "release taken back in the control probe", 21, "stopped"),
    "second-window": Fault("runner", "a second window beside the first", 2, "usage", "its own"),
    "nsys-missing": Fault("nsys", "missing", 3, "refused", "not armed"),
    "nsys-crash": Fault("nsys", "crashes at launch", 20, "failed"),
    "nsys-hang": Fault("nsys", "hangs at stop", 20, "failed"),
    "nsys-qdstrm": Fault("nsys", "leaves only a `.qdstrm`", 20, "failed, recovery command printed"),
    "nsys-import": Fault(
        "nsys", "its import fails once", 0, "captured, the `.qdstrm` imported again"
    ),
    "nsys-nothing": Fault("nsys", "stops with 0 and leaves nothing", 20, "failed"),
    "nsys-no-reports": Fault("nsys", 'says "no reports were generated" with 0', 20, "failed"),
    "exits": Fault("candidate", "exits at once", 20, "failed"),
    "never-ready": Fault("candidate", "never becomes ready", 20, "failed"),
    "dies": Fault("candidate", "dies in the probe", 20, "failed"),
    "ignores-term": Fault("candidate", "ignores SIGTERM", 0, "captured, killed after its grace"),
    "leaves-child": Fault(
        "candidate", "leaves a child that holds the port", 0, "captured, child ended"
    ),
    "second-client": Fault(
        "candidate", "a second client in the probe", 0, "captured, figures marked"
    ),
    "no-metrics": Fault("candidate", "no metrics endpoint", 0, "captured, contamination unknown"),
    "engine-down": Fault(
        "Docker", "engine does not answer at preflight", 3, "refused", "not armed"
    ),
    "engine-error": Fault("Docker", "the engine refuses to create the candidate", 20, "failed"),
    "engine-restart": Fault("Docker", "engine restarts in the probe", 20, "failed"),
    "other-digest": Fault(
        "Docker", "registry digest differs from the pin", 3, "refused", "not armed"
    ),
    "name-taken": Fault(
        "Docker",
        'the engine gives another answer than "no such container"',
        3,
        "refused",
        "not armed",
    ),
    "stopped-already": Fault(
        "incumbent", "stopped already, at the start", 3, "refused, left as found", "not armed"
    ),
    "policy-always": Fault("incumbent", "restart policy `always`", 0, "captured"),
    "first-start-fails": Fault("incumbent", "its first start on the way back fails", 0, "captured"),
    "disk-capture": Fault("disk", "full at capture", 20, "failed"),
    "disk-export": Fault("disk", "full at export", 23, "unfinished, report kept"),
    "disk-receipt": Fault("disk", "full at a receipt", 0, "captured, from the reserve"),
    "clock": Fault("clock", "jumps three days ahead in the probe", 0, "captured"),
}


def expect(name: str, code: int, bench: Bench) -> None:
    """The end that the row names, and the incumbent back."""
    fault = FAULTS[name]
    assert code == fault.code, (fault, bench.story())
    bench.safe()


def table() -> str:
    """The matrix in Markdown."""
    lines = [
        "| part | what happens | exit code | the window | failsafe | incumbent |",
        "| --- | --- | ---: | --- | --- | --- |",
    ]
    for name, f in FAULTS.items():
        incumbent = "as found" if name == "stopped-already" else "serving, verified"
        code = "" if f.code < 0 else f.code
        lines.append(f"| {f.group} | {f.what} | {code} | {f.ends} | {f.failsafe} | {incumbent} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
