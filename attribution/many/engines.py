"""Who does the work: processes of this machine, or a Dask cluster that is there already.

Both give an outcome a trace, in the order in which they end. A worker that dies (killed, out of
memory) loses nothing but its own attempt: the trace is tried once more, and fails by name if that
ends the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lanescope.attribution import engine
from lanescope.attribution.many import pool, work
from lanescope.attribution.many.work import Outcome, Task
from lanescope.schemas.errors import ExitCode, UsageError

_DIED = "the process that worked on it was killed, twice (out of memory? use fewer --jobs)"


def in_processes(tasks: Iterable[Task], jobs: int, idle: bool = False) -> Iterator[Outcome]:
    """Work with `jobs` processes; those share the memory that one would use.

    idle: only with time that nobody else on the machine wants.
    """
    memory, lost = engine.memory_limit() // jobs, list[Task]()
    for task, outcome in pool.run(work.run, tasks, jobs, memory, idle):
        if outcome is None:
            lost.append(task)
        else:
            yield outcome
    for task in lost:  # alone: it may have wanted the memory of all
        for _, outcome in pool.run(work.run, [task], 1, memory, idle):
            yield outcome or work.fail(task, f"{task.path}: {_DIED}", int(ExitCode.INTERNAL))


def on_dask(tasks: Iterable[Task], address: str) -> Iterator[Outcome]:
    """Work on an existing Dask cluster, whose workers see the same files and have lanescope.

    Raises `UsageError` when Dask is not installed or nobody answers at the address.
    """
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError as exc:
        raise UsageError("--dask needs Dask", "pip install 'lanescope[dask]'") from exc
    try:
        client = Client(address, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as exc:
        raise UsageError(f"no Dask scheduler at {address}", "check the address") from exc
    with client:
        of = {client.submit(work.run, t, pure=False): t for t in tasks}
        for future in as_completed(list(of)):  # type: ignore[no-untyped-call]
            try:
                yield future.result()
            except KilledWorker:
                task = of[future]
                yield work.fail(task, f"{task.path}: {_DIED}", int(ExitCode.INTERNAL))
