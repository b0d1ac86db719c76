"""A run of `lanescope attribute` over six traces that is held in the midst of the third."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path

from tests.attribution.many.conftest import contents

_PATIENCE_S = 300
TRACES = [f"t{i:02}.sqlite" for i in range(6)]


def environment(folder: Path) -> dict[str, str]:
    """Pipes to hold a worker by, and an environment that leaves nothing outside `folder`."""
    os.mkfifo(folder / "began")
    os.mkfifo(folder / "go")
    (folder / "held").write_text("t02.sqlite")
    (folder / "tmp").mkdir()
    return {
        **os.environ,
        "HELD": str(folder),
        "LANESCOPE_CACHE_DIR": str(folder / "cache"),
        "LANESCOPE_SPILL_DIR": str(folder / "spill"),
        "TMPDIR": str(folder / "tmp"),
    }


class Run:
    """Begun, and held; in a session of its own."""

    def __init__(self, folder: Path, verb: list[str], env: dict[str, str] | None = None) -> None:
        self.folder, self.verb, self.out = folder, verb, folder / "dataset"
        self.env = env or environment(folder)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.attribution.many.held", str(folder), *verb],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with (folder / "began").open() as began:
            self.worker = int(began.readline())
        self.gone = os.pidfd_open(self.worker)

    def ended(self) -> tuple[int, str]:
        """Exit code and what was said; the worker is gone by then."""
        said = self.process.communicate(timeout=_PATIENCE_S)[1]
        assert select.select([self.gone], [], [], _PATIENCE_S)[0], "an orphan goes on"
        os.close(self.gone)
        return self.process.returncode, said

    def rooms(self) -> list[str]:
        """Folders that somebody works in, or did."""
        return [str(p.relative_to(self.folder)) for p in self.folder.rglob(".lanescope-*")]

    def again(self, *verb: str) -> list[str]:
        """The same once more (or another verb), undisturbed: what became of each trace."""
        (self.folder / "held").write_text("")
        done = subprocess.run(
            [sys.executable, "-m", "lanescope", *(verb or self.verb), "--json"],
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
        )
        return [t["state"] for t in json.loads(done.stdout)["traces"]]


def whole(run: Run, by_one: Path) -> None:
    """The dataset is what one undisturbed process makes of the same traces."""
    expected = {
        name: data
        for name, data in contents(by_one).items()
        if not name.startswith("trace=") or name[6:16] in TRACES
    }
    assert contents(run.out) == expected
    assert run.rooms() == []
