"""Nsight Systems: found, asked for its version, wrapped around a server, its reports judged.

Commands are built here and run by whoever reaches the engine (a launcher). Their environment is
built from nothing: nsys writes the environment of every process into its report.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lanescope.profiler.adapters import procs
from lanescope.profiler.adapters.commands import run as run_command
from lanescope.schemas.documents.lane import Tracer
from lanescope.schemas.errors import LanescopeError, UnusableInput

#: run a command where the engine lives: (words, seconds) -> (exit code, output)
Runner = Callable[[list[str], float], tuple[int, str]]
_PLACES = (
    "/opt/nvidia/nsight-systems",
    "/opt/nvidia/nsight-compute",
    "/opt/nsight",
    "/usr/local/cuda",
)


class ReportLost(LanescopeError):
    """The tracer left no usable report; the remedy is the recovery command, where there is one."""


@dataclass(frozen=True)
class Nsight:
    """An installation: its folder (mounted into containers as it is), its program, its version."""

    root: Path
    program: Path
    version: str
    library_path: str = ""

    def environment(self) -> dict[str, str]:
        """What an nsys command gets, and nothing else."""
        base = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/tmp",
        }
        return base | ({"LD_LIBRARY_PATH": self.library_path} if self.library_path else {})

    def importer(self) -> Path | None:
        """The program that makes a report of a `.qdstrm`, where this installation has it."""
        found = sorted(self.program.resolve().parent.parent.glob("host-*/QdstrmImporter"))
        return next((p for p in found if os.access(p, os.X_OK)), None)

    def has(self, option: str, command: str = "profile") -> bool:
        """Whether this version knows an option."""
        done = run_command([str(self.program), command, "--help"], self.environment(), 60)
        return option in done[1]


def find(tracer: Tracer | None = None) -> Nsight:
    """The installation that a lane or `LANESCOPE_NSYS` names, or that lies in a usual place."""
    named = tracer.nsys if tracer else None
    named = named or os.environ.get("LANESCOPE_NSYS")
    library = os.environ.get("LANESCOPE_NSYS_LIBRARY_PATH", "")
    places = [Path(named)] if named else _usual_places()
    for place in places:
        program = _program(place)
        if program is None:
            continue
        code, text = run_command(
            [str(program), "--version"], {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}, 60
        )
        found = re.search(r"version (\d+\.\d+\.\d+[\w.\-]*)", text)
        if code == 0 and found:
            root = place if place.is_dir() else program.parent
            return Nsight(root.resolve(), program, found[1], library)
        raise UnusableInput(f"{program}: does not answer --version (exit {code})", "reinstall it")
    raise UnusableInput(
        f"no Nsight Systems at {named}" if named else "no Nsight Systems on this machine",
        "install it, and name its folder in tracer.nsys or LANESCOPE_NSYS",
    )


def _usual_places() -> list[Path]:
    on_path = shutil.which("nsys")
    found = [Path(on_path).resolve()] if on_path else []
    for place in map(Path, _PLACES):
        found += [place, *sorted(place.glob("*"), reverse=True), *sorted(place.glob("*/host"))]
    return found


def _program(place: Path) -> Path | None:
    if place.is_file() and os.access(place, os.X_OK):
        return place
    for inside in ("bin/nsys", "target-linux-x64/nsys", "target-linux-sbsa-armv8/nsys", "nsys"):
        if os.access(place / inside, os.X_OK):
            return place / inside
    return None


class Session:
    """One profiled run of a server, in the way that its lane asks for."""

    def __init__(self, nsight: Nsight, tracer: Tracer, run: str, report: str) -> None:
        self.nsight = nsight
        self.tracer = tracer
        self.name = "lanescope-" + run[-24:]
        #: where the report goes as the engine sees it, without its ending
        self.report = report

    def wrapped(self, command: list[str]) -> list[str]:
        """The command line that runs the server under nsys."""
        t, nsys = self.tracer, str(self.nsight.program)
        shared = [f"--trace={','.join(t.trace)}", f"--cuda-graph-trace={t.graph}", "--wait=all"]
        shared += t.options
        command_name = "launch" if t.mode == "session" else "profile"
        if self.nsight.has("--discard-environment", command_name):  # newer versions
            shared.append("--discard-environment=true")
        if t.mode == "session":
            return [nsys, "launch", f"--session-new={self.name}", *shared, *command]
        # `stop` ends the collection alone: the default also ends the server
        ranged = [f"--capture-range={t.range}", "--capture-range-end=stop", "--kill=none"]
        if t.range == "nvtx":
            ranged += [
                f"--nvtx-capture={t.range_name}",
                "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
            ]
        start = [
            f"--session-new={self.name}",
            "--sample=none",
            "--cpuctxsw=none",
            "--force-overwrite=false",
        ]
        return [nsys, "profile", *start, "-o", self.report, *ranged, *shared, *command]

    def start(self, run: Runner) -> dict[str, object]:
        """Open the collection (session mode)."""
        words = [str(self.nsight.program), "start", f"--session={self.name}", "--sample=none"]
        words += ["--cpuctxsw=none", "-o", self.report]
        code, text = run(words, 120)
        if code != 0:
            raise ReportLost(f"nsys start: exit {code}: {_last(text)}", "see the engine log")
        return {"exit": code}

    def stop(self, run: Runner, seconds: float) -> dict[str, object]:
        """Close the collection (session mode); a code of 0 with "no reports" is a failure."""
        began = time.monotonic()
        code, text = run([str(self.nsight.program), "stop", f"--session={self.name}"], seconds)
        if code != 0:
            raise ReportLost(f"nsys stop: exit {code}: {_last(text)}", self.recovery())
        if re.search(r"no reports? (were )?generated", text, re.IGNORECASE):
            raise ReportLost("nsys stop: exit 0, but no reports were generated", self.recovery())
        return {"exit": code, "seconds": round(time.monotonic() - began, 3)}

    def shutdown(self, run: Runner) -> None:
        """End the session; the server gets SIGTERM. A session that is gone already is fine."""
        run([str(self.nsight.program), "shutdown", f"--session={self.name}", "--kill=sigterm"], 60)

    def recovery(self) -> str:
        """What a person can try when a report is missing."""
        return "look for a .qdstrm in the private folder: QdstrmImporter -i FILE.qdstrm"


def _last(text: str) -> str:
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def settled_report(folder: Path, stable_s: float, budget_s: float) -> Path:
    """The report in a folder once it keeps its size. Raises `ReportLost` for what else is left."""
    limit = time.monotonic() + budget_s
    size, since = -1, time.monotonic()
    while True:
        reports = sorted(folder.rglob("*.nsys-rep"))
        now = reports[0].stat().st_size if reports else -1
        if now != size:
            size, since = now, time.monotonic()
        if size > 0 and time.monotonic() - since >= stable_s:
            return reports[0]
        nothing_comes = size <= 0 and time.monotonic() - since >= max(stable_s, 2.0)
        if nothing_comes or time.monotonic() > limit:
            break
        time.sleep(0.1)
    raw = sorted(folder.rglob("*.qdstrm"))
    if raw:
        raise ReportLost(
            f"nsys left only {raw[0].name}, not a report", f"QdstrmImporter -i {raw[0]}"
        )
    if size == 0:
        raise ReportLost("the report is empty", "see the engine log and the disk")
    if size > 0:
        raise ReportLost("the report was still growing", "give durations.stop_s more")
    raise ReportLost("nsys left no report", "see the engine log")


def import_again(nsight: Nsight, folder: Path, seconds: float) -> dict[str, object]:
    """Import a lone `.qdstrm`; nothing to do beside a report, or without one.

    nsys imports what it collected when a session stops, and that import fails now and then for no
    fault of the data (2023.4, once in some 150 stops on a busy machine): a second one succeeds.
    The raw file stays. Raises `ReportLost` with the command for a person.
    """
    raw = sorted(folder.rglob("*.qdstrm"))
    importer = nsight.importer()
    if not raw or importer is None or any(folder.rglob("*.nsys-rep")):
        return {}
    report = raw[0].with_suffix(".nsys-rep")
    with _scratch(folder.parent, "import-") as scratch:
        partial = scratch / report.name
        words = [str(importer), "-i", str(raw[0]), "-o", str(partial)]
        environment = nsight.environment() | {"TMPDIR": str(scratch)}
        if why := _made(words, environment, partial, seconds):
            raise ReportLost(
                f"nsys left only {raw[0].name}, and importing it again failed: {why}",
                f"QdstrmImporter -i {raw[0]}",
            )
        partial.rename(report)
    return {"imported_again": raw[0].name}


def export(nsight: Nsight, report: Path, target: Path, seconds: float) -> None:
    """The SQLite export of a report, under a temporary name and then renamed."""
    partial = target.with_name(target.name + ".partial.sqlite")
    partial.unlink(missing_ok=True)
    words = [str(nsight.program), "export", "--type=sqlite", "--force-overwrite=true"]
    environment = nsight.environment() | {"TMPDIR": str(target.parent)}
    if why := _made([*words, "-o", str(partial), str(report)], environment, partial, seconds):
        partial.unlink(missing_ok=True)
        again = f"nsys export --type=sqlite -o {target} {report}"
        raise ReportLost(f"nsys export: {why}", f"try again: {again}")
    partial.rename(target)


def _made(words: list[str], environment: dict[str, str], target: Path, seconds: float) -> str:
    """Run a command that writes `target`: what went wrong, empty where it wrote it."""
    code, text = run_command(words, environment, seconds)
    whole = code == 0 and target.is_file() and target.stat().st_size > 0
    return "" if whole else f"exit {code}: {_last(text)}"


def kernels(sqlite: Path) -> int:
    """How many kernel rows an export holds; an export without the table holds none."""
    with sqlite3.connect(f"file:{sqlite}?mode=ro", uri=True) as db:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
            return 0
        return int(db.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0])


#: an installation that works fails to profile now and then (2023.4, 3 of 240 on a busy machine)
_ATTEMPTS = 3
_TEST_S = 120.0


def self_test(nsight: Nsight) -> dict[str, object]:
    """Profile `true` and export its report: can this installation open what it writes?

    What fails every time is a fault of the installation; what hangs is not tried again.
    """
    limit = time.monotonic() + _TEST_S
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _profile_true(nsight)
            break
        except LanescopeError:
            if attempt == _ATTEMPTS or time.monotonic() > limit:
                raise
    facts = {"version": nsight.version, "program": str(nsight.program), "self_test": "exports"}
    return {**facts, "attempts": attempt} if attempt > 1 else dict(facts)


def _profile_true(nsight: Nsight) -> None:
    with _scratch(Path("/var/tmp"), "ls-") as scratch:
        report, target = scratch / "selftest.nsys-rep", scratch / "selftest.sqlite"
        words = [str(nsight.program), "profile", "--trace=nvtx", "--sample=none"]
        words += ["--cpuctxsw=none", "-o", str(report), "/bin/true"]
        environment = nsight.environment() | {"TMPDIR": str(scratch), procs.MARK: scratch.name}
        why = _made(words, environment, report, _TEST_S)
        procs.end(procs.marked(scratch.name), 2.0)  # an agent stays where nsys lost it
        if why:
            raise UnusableInput(
                f"{nsight.program}: cannot profile /bin/true: {why}", "repair the installation"
            )
        export(nsight, report, target, _TEST_S)


@contextlib.contextmanager
def _scratch(parent: Path, prefix: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield folder
    finally:
        remove_scratch(folder)


def remove_scratch(folder: Path, seconds: float = 3.0) -> None:
    """Remove a folder that was nsys's TMPDIR: what nsys leaves behind may still write there."""
    limit = time.monotonic() + seconds
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        if time.monotonic() > limit:
            return
        if folder.exists():
            time.sleep(0.05)
