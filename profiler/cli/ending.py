"""Ctrl-C, SIGTERM and SIGHUP end a verb that works on traces: at once, in one line, cleared up.

The libraries underneath may work for a minute without looking at signals, and what is raised inside
them may get lost. So the end does not lead through them: the main thread halts where it next runs
Python, and a thread of its own ends the workers, removes the rooms (see `attribution.rooms`) and
the process. What has its name by then is whole.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: A killed process is gone sooner than this, unless the system itself hangs.
_GONE_S = 5.0


@contextmanager
def ending(*written: Path) -> Iterator[None]:
    """While the block runs, a signal ends the process with 128 and its number.

    written: folders that worker processes write to. Signals that are ignored (nohup) stay so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.getsignal(n) for n in _SIGNALS}
    ours = [n for n, handler in before.items() if handler != signal.SIG_IGN]
    heard, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    threading.Thread(target=_watch, args=(heard, ours, written), daemon=True).start()
    fd_before = signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    for number in ours:
        signal.signal(number, _halt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        signal.set_wakeup_fd(fd_before)
        os.close(wakeup)


def _halt(_number: int, _frame: Any) -> None:
    threading.Event().wait()  # for ever: `_end` is at work


def _watch(heard: int, ours: list[signal.Signals], written: tuple[Path, ...]) -> None:
    while byte := os.read(heard, 1):
        if byte[0] in ours:
            _end(signal.Signals(byte[0]), written)
    os.close(heard)


def _end(number: signal.Signals, written: tuple[Path, ...]) -> None:
    import multiprocessing

    from lanescope.attribution import rooms

    workers = multiprocessing.active_children()
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join(_GONE_S)
    rooms.remove_own()
    if workers:
        from lanescope.attribution import engine
        from lanescope.attribution.ingest import cache

        for place in {*written, cache.root(), *engine.temporary_places()}:
            rooms.sweep(place)
    line = f"lanescope: ended by {number.name}: what is finished is kept, ask again for the rest\n"
    if sys.stderr.isatty():  # the spinner's line away, the cursor back
        line = "\r\x1b[K\x1b[?25h" + line
    os.write(2, line.encode())
    os._exit(128 + number)
