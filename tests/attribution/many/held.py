"""`lanescope attribute`, stopped in the midst: python -m tests.attribution.many.held FOLDER ARGS

The worker that has come to a trace whose name FOLDER/held holds, and has written half of it, says
its process id into the pipe FOLDER/began and goes on when FOLDER/go is closed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from lanescope.attribution.many import tables, work
from lanescope.attribution.many.work import Outcome, Task


def run(task: Task) -> Outcome:
    """What the workers run in place of `work.run`."""
    folder = Path(os.environ["HELD"])
    write = tables.write

    def held(document: Any, target: Path) -> None:
        write(document, target)
        with (folder / "began").open("w") as began:
            began.write(f"{os.getpid()}\n")
        (folder / "go").read_bytes()

    if Path(task.path).name in (folder / "held").read_text().split():
        tables.write = held
    try:
        return _REAL(task)
    finally:
        tables.write = write


_REAL = work.run

if __name__ == "__main__":
    from lanescope.profiler.cli.main import main
    from tests.attribution.many import held

    os.environ["HELD"] = sys.argv[1]
    work.run = held.run
    main(sys.argv[2:])
