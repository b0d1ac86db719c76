"""Progress on stderr: a spinner with the current stage, on a terminal only, after a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

_PATIENCE_S = 1.0


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Hands out `say(text)`. Quick work shows nothing."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    status = Status("starting", console=Console(stderr=True))
    timer = threading.Timer(_PATIENCE_S, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield status.update
    finally:
        timer.cancel()
        status.stop()
