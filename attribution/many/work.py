"""One trace into the dataset: what every engine runs, in a process of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lanescope.attribution import engine
from lanescope.attribution.attribute import Attribution, attribute
from lanescope.attribution.beside import beside
from lanescope.attribution.ingest import open_trace
from lanescope.attribution.ingest.stats_csv import is_summary
from lanescope.attribution.many import dataset, tables
from lanescope.attribution.output import writing
from lanescope.attribution.question import question
from lanescope.schemas.errors import ExitCode, LanescopeError


@dataclass(frozen=True)
class Task:
    """One trace, and what is asked of it. seen: whether the path exists where it was named."""

    path: str
    dataset: str
    profile: str | None = None
    window: str = ""
    use_cache: bool = True
    again: bool = False
    seen: bool = True


@dataclass(frozen=True)
class Outcome:
    """What became of a trace. withheld: what had to be; error: one line, with its exit code."""

    path: str
    state: Literal["done", "kept", "failed"]
    steps: int | None = None
    wall_ms: float | None = None
    withheld: tuple[str, ...] = ()
    error: str = ""
    exit_code: int = 0


def run(task: Task) -> Outcome:
    """Attribute a trace into the dataset. What goes wrong with it is its outcome, not an error."""
    try:
        return _run(task)
    except LanescopeError as exc:
        return fail(task, str(exc), int(exc.exit_code))
    except MemoryError:
        return fail(task, f"{task.path}: out of memory (use fewer --jobs)", int(ExitCode.INTERNAL))
    except Exception as exc:  # noqa: BLE001 - a fault of ours in one trace: the others go on
        if (limit := engine.limit_reached(exc)) is not None:
            return fail(task, f"{task.path}: {limit}", int(limit.exit_code))
        text = " ".join(f"{type(exc).__name__}: {exc}".split())
        error = f"{task.path}: internal error: {text} (please report it)"
        return fail(task, error, int(ExitCode.INTERNAL))


def unseen(tasks: list[Task]) -> list[str]:
    """The paths among them that are there where they were named, and not where this runs."""
    wanted = [Path(t.dataset) / dataset.MARKER for t in tasks[:1]]
    wanted += [Path(t.path) for t in tasks if t.seen]
    wanted += [Path(t.profile) for t in tasks[:1] if t.profile and Path(t.profile).is_absolute()]
    return [str(path) for path in wanted if not path.exists()]


def fail(task: Task, error: str, exit_code: int) -> Outcome:
    """Note that a trace has no result, in place of what the dataset held of it."""
    target = dataset.folder_of(Path(task.dataset), Path(task.path))
    with beside(target, folder=True) as work:
        tables.write_failure(task.path, error, exit_code, work)
    return Outcome(task.path, "failed", error=error, exit_code=exit_code)


def _run(task: Task) -> Outcome:
    path, whole = Path(task.path), Path(task.dataset)
    target = dataset.folder_of(whole, path)
    if is_summary(path):
        with attribute(path, profile=task.profile, window=task.window) as result:
            return _write(task, target, result, "")
    with open_trace(path, task.use_cache) as staged:
        sha = staged.info.sha256
        asked = question(path, task.profile, task.window, sha)
        if not task.again and dataset.is_answered(whole, path, asked):
            return _outcome(task, "kept", _kept(target))
        with attribute(staged, profile=task.profile, window=task.window) as result:
            return _write(task, target, result, asked)


def _write(task: Task, target: Path, result: Attribution, asked: str) -> Outcome:
    document = result.document

    def more(folder: Path) -> None:
        tables.write(document, folder)
        said = {"path": task.path, "question": asked}
        (folder / dataset.ASKED).write_text(json.dumps(said) + "\n", encoding="utf-8")

    with writing(target) as out:
        out.finish(result, more)
    return _outcome(task, "done", document.model_dump(mode="json", by_alias=True))


def _kept(target: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads((target / "attribution.json").read_bytes())
    return document


def _outcome(task: Task, state: Literal["done", "kept"], document: dict[str, object]) -> Outcome:
    steps = document.get("steps")
    wall = steps.get("wall_ms") if isinstance(steps, dict) else None
    withheld = document.get("abstained")
    return Outcome(
        task.path,
        state,
        steps["measured"] if isinstance(steps, dict) else None,
        wall["mean"] if isinstance(wall, dict) else None,
        tuple(sorted({a["what"] for a in withheld})) if isinstance(withheld, list) else (),
    )
