"""`lanescope attribute` of many traces: into one dataset."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from lanescope.profiler.cli.ending import ending
from lanescope.profiler.cli.progress import progress
from lanescope.schemas.errors import ExitCode, UnusableInput, UsageError

if TYPE_CHECKING:
    from lanescope.attribution.many.work import Outcome, Task

DEFAULT = Path("lanescope-dataset")
#: What a folder of traces is searched for.
_TRACES = (".sqlite", ".sqlite.xz", ".sqlite.zst", ".sqlite.gz", ".nsys-rep")


@dataclass(frozen=True)
class Plan:
    """The traces, what is asked of them, and who works."""

    traces: list[Path]
    profile: str | None
    window: str
    use_cache: bool
    again: bool
    jobs: int
    dask: str | None
    require: list[str]


def expand(given: tuple[Path, ...]) -> list[Path]:
    """Folders of traces and patterns replaced by what is in them, in the order given, each once.

    A folder of Parquet tables is a trace itself. Raises `UnusableInput` where nothing is found.
    """
    found: dict[Path, None] = {}
    for path in given:
        if path.is_dir() and not any(path.glob("*.parquet")):
            inside = _traces_in(path)
            if not inside:
                raise UnusableInput(f"{path}: a folder without traces", "give export files")
            found.update(dict.fromkeys(inside))
        elif not path.exists() and any(c in path.name for c in "*?["):
            matching = sorted(path.parent.glob(path.name)) if path.parent.is_dir() else []
            if not matching:
                raise UnusableInput(f"{path}: nothing matches", "check the pattern")
            found.update(dict.fromkeys(matching))
        else:
            found[path] = None
    return list(found)


def _traces_in(folder: Path) -> list[Path]:
    """The traces of a folder; a report is left to its own SQLite export where that lies beside."""
    files = sorted(f for f in folder.iterdir() if f.name.endswith(_TRACES) and f.is_file())
    names = {f.name for f in files}
    exported = {n.split(".sqlite")[0] for n in names if ".sqlite" in n}
    reports = [f for f in files if f.suffix == ".nsys-rep" and f.stem in exported]
    tables = [d for d in sorted(folder.iterdir()) if d.is_dir() and any(d.glob("*.parquet"))]
    tables = [d for d in tables if not d.name.endswith(".lanescope")]
    return [f for f in files if f not in reports] + tables


def refuse(options: list[str]) -> None:
    """Raises `UsageError` for options that belong to a single trace."""
    if options:
        raise UsageError(f"{options[0]} is for a single trace", "leave it out, or give one trace")


def run(plan: Plan, out: Path | None, as_json: bool, plain: bool) -> int:
    """Work through the plan, say what came of it, and give the exit code.

    0 all done; 1 something that --require names was withheld; 3 a trace has no result (4 if that
    was an error of ours). All other traces have theirs in each case.
    """
    from lanescope.attribution.many import dataset, engines

    folder = out or DEFAULT
    dataset.open_dataset(folder)
    tasks = [_task(trace, folder, plan) for trace in plan.traces]
    if plan.profile:
        from lanescope.attribution.rules.profile import load

        load(plan.profile)  # one line now, not the same for every trace
    work = (
        engines.on_dask(tasks, plan.dask) if plan.dask else engines.in_processes(tasks, plan.jobs)
    )
    outcomes: list[Outcome] = []
    with ending(folder), progress() as say:
        say(f"{len(tasks)} traces")
        for outcome in work:
            outcomes.append(outcome)
            failed = sum(o.state == "failed" for o in outcomes)
            say(
                f"{len(outcomes)} of {len(tasks)} traces" + (f", {failed} failed" if failed else "")
            )
    order = {task.path: i for i, task in enumerate(tasks)}
    outcomes.sort(key=lambda o: order[o.path])
    if as_json:
        click.echo(
            json.dumps({"dataset": str(folder), "traces": [asdict(o) for o in outcomes]}, indent=1)
        )
    else:
        _show(outcomes, folder, plain)
    return _code(outcomes, plan.require)


def _task(trace: Path, folder: Path, plan: Plan) -> Task:
    """What to do for one trace; paths are whole, as a worker elsewhere starts in another folder."""
    from lanescope.attribution.many.work import Task

    profile = plan.profile
    if profile and Path(profile).is_file():
        profile = str(Path(profile).absolute())
    return Task(
        path=str(trace.absolute()),
        dataset=str(folder.absolute()),
        profile=profile,
        window=plan.window,
        use_cache=plan.use_cache,
        again=plan.again,
        seen=trace.exists(),
    )


def _show(outcomes: list[Outcome], folder: Path, plain: bool) -> None:
    from lanescope.dashboards import many_text
    from lanescope.dashboards.terminal import console

    many_text.show(outcomes, str(folder), console(plain=plain))


def _code(outcomes: list[Outcome], require: list[str]) -> int:
    codes = [o.exit_code for o in outcomes if o.state == "failed"]
    if codes:
        worse = any(c == ExitCode.INTERNAL for c in codes)
        return ExitCode.INTERNAL if worse else ExitCode.UNUSABLE_INPUT
    withheld = {w for o in outcomes for w in o.withheld}
    return ExitCode.ABSTAINED if withheld & set(require) else ExitCode.DONE
