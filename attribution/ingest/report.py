"""An `.nsys-rep`: export it with an installed Nsight Systems, then stage the export.

Nothing is written beside the report; the export lives in a temporary folder until it is staged.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from lanescope.attribution import rooms
from lanescope.attribution.digest import Ahead
from lanescope.attribution.ingest import cache, opening, source
from lanescope.attribution.ingest.info import StageInfo
from lanescope.attribution.ingest.opening import Staged
from lanescope.attribution.ingest.source import Source
from lanescope.schemas.errors import UnusableInput

#: An export of a very large report takes minutes; a hung importer takes for ever.
_TIMEOUT_S = 3600
#: Runs a command that dies with the process of this number, see prctl(2), PR_SET_PDEATHSIG.
_WITH_US = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "if os.getppid() == int(sys.argv[1]): os.execv(sys.argv[2], sys.argv[2:])"
)


def find_nsys() -> Path:
    """The nsys to use: `LANESCOPE_NSYS`, or the one on the PATH, or an installed one.

    Raises `UnusableInput` where there is none.
    """
    named = os.environ.get("LANESCOPE_NSYS")
    candidates = [named] if named else [shutil.which("nsys"), *_installed()]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate)
    raise UnusableInput(
        f"no nsys found{f' at {named}' if named else ''}",
        "install Nsight Systems, or name it with LANESCOPE_NSYS, or export the report elsewhere "
        "with nsys export --type sqlite",
    )


def _installed() -> list[str]:
    roots = [Path("/opt/nvidia/nsight-systems"), Path("/opt/nsight"), Path("/usr/local/cuda")]
    return [str(p) for root in roots for p in sorted(root.glob("**/bin/nsys"), reverse=True)]


def export_report(
    src: Source,
    use_cache: bool,
    say: Callable[[str], None],
    digest: Ahead,
    begins: Callable[[], None],
) -> Staged:
    """Export a report to SQLite and open the export. The cache is bound to the report's content."""
    root = cache.usable_root() if use_cache else None
    if root is not None and cache.may_hold(root, digest.size):
        target = cache.folder(root, digest(), digest.size)
        if cache.is_whole(target):
            return opening.Staged(src, target, StageInfo.load(target), from_cache=True)
    nsys = find_nsys()
    begins()
    with rooms.room(root or Path(tempfile.gettempdir()), "export") as room:
        say(f"exporting with {nsys}")
        exported = room / "export.sqlite"
        _run_export(nsys, src.path, exported)
        inner = source.Source(exported, source.Kind.SQLITE)
        return opening.stage_as(inner, src, digest, root, say)


def _run_export(nsys: Path, report: Path, target: Path) -> None:
    command = [str(nsys), "export", "--type", "sqlite", "-o", str(target), str(report)]
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _WITH_US, str(os.getpid()), *command]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(target.parent)},
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise UnusableInput(f"{nsys} could not export {report}: {exc}", "try another nsys") from exc
    if done.returncode == 0 and target.exists() and target.stat().st_size:
        return
    said = " ".join((done.stderr + " " + done.stdout).split())
    if re.search(r"newer|version|unsupported|unknown type|not.{0,20}recogni", said, re.IGNORECASE):
        raise UnusableInput(
            f"{report}: {nsys} cannot read it; it may be older than the nsys that recorded it",
            "name a newer one with LANESCOPE_NSYS",
        )
    raise UnusableInput(
        f"{report}: nsys export failed with code {done.returncode}: {said[-300:]}",
        "check that the report is whole",
    )
