"""Who does the work: processes of this machine, or a Dask cluster that is there already.

Both give an outcome a trace, in the order in which they end. A worker that dies (killed, out of
memory) loses nothing but its own attempt: the trace is tried once more, and fails by name if that
ends the same way.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from lanescope.attribution import engine
from lanescope.attribution.many import work
from lanescope.attribution.many.work import Outcome, Task
from lanescope.schemas.errors import ExitCode, UsageError

_DIED = "the process that worked on it was killed, twice (out of memory? use fewer --jobs)"


def in_processes(tasks: Iterable[Task], jobs: int, idle: bool = False) -> Iterator[Outcome]:
    """Work with `jobs` processes; those share the memory that one would use.

    idle: only with time that nobody else on the machine wants.
    """
    todo, lost = deque(tasks), deque[Task]()
    os.environ[engine.MEMORY_VARIABLE] = str(engine.memory_limit() // jobs)
    while todo:
        yield from _until_broken(todo, jobs, lost, idle)
    for task in lost:  # alone, so that it is known who dies
        again = deque[Task]()
        yield from _until_broken(deque([task]), 1, again, idle)
        if again:
            yield work.fail(task, f"{task.path}: {_DIED}", int(ExitCode.INTERNAL))


def _step_back() -> None:
    """Run when nobody else wants the processor."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.nice(19)


def _until_broken(todo: deque[Task], jobs: int, lost: deque[Task], idle: bool) -> Iterator[Outcome]:
    """Take from `todo` until it is empty or a process dies; what was begun then goes to `lost`."""
    running: dict[Future[Outcome], Task] = {}
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, _step_back if idle else None)
    try:
        while todo or running:
            while todo and len(running) < jobs:
                task = todo.popleft()
                running[pool.submit(work.run, task)] = task
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                outcome = future.result()
                del running[future]
                yield outcome
    except BrokenProcessPool:
        lost.extend(running.values())
    except BaseException:  # interrupted: what is half done leaves nothing
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


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
