"""Who does the work: processes of this machine, or a Dask cluster that is there already.

Both give an outcome a trace, in the order in which they end. A worker that dies (killed, out of
memory) loses nothing but its own attempt: the trace is tried once more, and fails by name if that
ends the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from lanescope.attribution import limits
from lanescope.attribution.many import pool, work
from lanescope.attribution.many.work import Outcome, Task
from lanescope.schemas.errors import ExitCode, UnusableInput, UsageError

_DIED = "the process that worked on it was killed, twice (out of memory? use fewer --jobs)"


def in_processes(tasks: Iterable[Task], jobs: int, idle: bool = False) -> Iterator[Outcome]:
    """Work with `jobs` processes; those share the memory that one would use.

    idle: only with time that nobody else on the machine wants.
    """
    memory, lost = limits.memory_limit() // jobs, list[Task]()
    for task, outcome in pool.run(work.run, tasks, jobs, memory, idle):
        if outcome is None:
            lost.append(task)
        else:
            yield outcome
    for task in lost:  # alone: it may have wanted the memory of all
        for _, outcome in pool.run(work.run, [task], 1, memory, idle):
            yield outcome or work.fail(task, f"{task.path}: {_DIED}", int(ExitCode.INTERNAL))


def on_dask(tasks: Sequence[Task], address: str) -> Iterator[Outcome]:
    """Work on an existing Dask cluster, whose workers see the same files and have lanescope.

    Raises `UsageError` when Dask is not installed, nobody answers at the address, or a worker is
    not fit for the work; `UnusableInput` when the scheduler dies.
    """
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError as exc:
        raise UsageError("--dask needs Dask", "pip install 'lanescope[dask]'") from exc
    for name in list(logging.root.manager.loggerDict):
        if name.split(".")[0] == "distributed":  # what fails is said in one line
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as exc:
        raise UsageError(f"no Dask scheduler at {address}", "check the address") from exc
    with client:
        try:
            _check_workers(client, tasks, address)
            of = {client.submit(work.run, t, pure=False): t for t in tasks}
            for future in as_completed(list(of)):  # type: ignore[no-untyped-call]
                try:
                    yield future.result()
                except KilledWorker:
                    task = of[future]
                    yield work.fail(task, f"{task.path}: {_DIED}", int(ExitCode.INTERNAL))
        except (CancelledError, OSError, TimeoutError) as exc:
            raise UnusableInput(
                f"the Dask scheduler at {address} is gone",
                "start it again; what is finished is kept, ask again for the rest",
            ) from exc
        except ImportError as exc:  # of a worker that came later
            raise _lacking(address, exc) from exc


def _check_workers(client: Any, tasks: Sequence[Task], address: str) -> None:
    """Raises `UsageError` unless there are workers, each with lanescope and the same files."""
    try:
        found = client.run(work.unseen, list(tasks))
    except (CancelledError, OSError, TimeoutError):
        raise
    except Exception as exc:  # whatever kept it from running that, as Dask wraps it
        raise _lacking(address, exc) from exc
    if not found:
        raise UsageError(f"the Dask cluster at {address} has no workers", "dask worker ADDRESS")
    for worker, unseen in sorted(found.items()):
        if unseen:
            more = f" and {len(unseen) - 1} more" if len(unseen) > 1 else ""
            raise UsageError(
                f"Dask worker {worker} does not see {unseen[0]}{more}",
                "have the same paths lead to the same files on every worker",
            )


def _lacking(address: str, exc: Exception) -> UsageError:
    return UsageError(
        f"a Dask worker of {address} cannot run lanescope ({exc})",
        "install this release of lanescope where the workers run",
    )
