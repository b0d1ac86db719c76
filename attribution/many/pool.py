"""Worker processes of this machine; one that dies takes nothing along but what it was at.

A pipe to each worker carries one task there and one outcome back, and breaks when either side dies:
a worker whose parent is gone ends by itself, at once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import connection, resource_tracker

from lanescope.attribution import limits
from lanescope.attribution.many.work import Outcome, Task

Work = Callable[[Task], Outcome]
#: A terminal sends these to everyone in front of it; the parent decides what becomes of workers.
_PARENTS = (signal.SIGINT, signal.SIGHUP)


def run(
    work: Work, tasks: Iterable[Task], jobs: int, memory: int, idle: bool
) -> Iterator[tuple[Task, Outcome | None]]:
    """Each task with its outcome, in the order in which they end; None where its worker died.

    memory: bytes that DuckDB may use in each of the `jobs` workers; idle: see `engines`.
    """
    todo, free = deque(tasks), list[_Worker]()
    busy: dict[connection.Connection, tuple[_Worker, Task]] = {}
    try:
        while todo or busy:
            while todo and len(busy) < jobs:
                worker = free.pop() if free else _Worker(work, memory, idle)
                task = todo.popleft()
                busy[worker.pipe] = worker, task
                worker.give(task)
            ready = set(connection.wait(list(busy)))
            for pipe in [p for p in busy if p in ready]:
                worker, task = busy.pop(pipe)
                outcome = worker.take()
                if outcome is None:
                    worker.end()
                else:
                    free.append(worker)
                yield task, outcome
    finally:
        for worker in [*free, *(w for w, _ in busy.values())]:
            worker.end()


class _Worker:
    def __init__(self, work: Work, memory: int, idle: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, work, memory, idle), daemon=True
        )
        with _masked():
            self._process.start()
        theirs.close()

    def give(self, task: Task) -> None:
        try:
            self.pipe.send(task)
        except OSError:  # it is dead: `take` will find that out
            return

    def take(self) -> Outcome | None:
        try:
            outcome: Outcome = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return outcome

    def end(self) -> None:
        """What it was at is lost; the rooms it worked in are swept by who is next there."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


@contextmanager
def _masked() -> Iterator[None]:
    """What is started here does not see a terminal's signals."""
    resource_tracker.ensure_running()  # started within, it would end the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PARENTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: connection.Connection, work: Work, memory: int, idle: bool) -> None:
    """What a worker does, from its start to the end of its parent."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ[limits.MEMORY_VARIABLE] = str(memory)
    if idle:
        _step_back()
    while True:
        pipe.send(work(pipe.recv()))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _step_back() -> None:
    """Run when nobody else wants the processor."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.nice(19)
