"""Writing the restore script: its parts joined into one file, and checked before it is trusted."""

from __future__ import annotations

import importlib.resources
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from lanescope.schemas.errors import LanescopeError

PARTS = ("adapters/engine_api.py", "adapters/procs.py", "adapters/completion.py")
MAIN = "window/restore_main.py"


def source() -> str:
    """The script's text. Names of the parts stand for themselves: `procs.` prefixes go."""
    room = importlib.resources.files("lanescope.profiler")
    texts = [(part, (room / part).read_text(encoding="utf-8")) for part in (*PARTS, MAIN)]
    lines = ['"""Restore script of a window. By hand: python3 -I -S restore.py restore hand"""']
    lines.append("from __future__ import annotations\n\nimport sys")
    for part, text in texts:
        lines.append(f"\n# ---- {part}")
        if part == MAIN:
            lines.append("procs = sys.modules[__name__]")
        for line in text.splitlines():
            if not line.startswith(("from lanescope", "from __future__")):
                lines.append(line)
    return "\n".join(lines) + "\n"


def interpreter() -> str:
    """A Python that does not belong to this program's environment."""
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    for candidate in (Path("/usr/bin/python3"), Path("/usr/local/bin/python3"), base):
        if os.access(candidate, os.X_OK) and _answers(candidate):
            return str(candidate)
    raise LanescopeError(
        "no Python outside this environment was found for the restore script",
        "install the system's python3",
    )


def _answers(python: Path) -> bool:
    probe = "import sys, fcntl, json, http.client; sys.exit(sys.version_info < (3, 9))"
    try:
        done = subprocess.run([python, "-I", "-S", "-c", probe], env={}, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def write(folder: Path, config: dict[str, Any]) -> list[str]:
    """Write script and configuration into a private folder; returns the command that runs it."""
    script = folder / "restore.py"
    (folder / "restore.lock").touch(mode=0o600)
    settings = folder / "restore.json"
    settings.touch(mode=0o600)
    settings.write_text(json.dumps(config, indent=1))
    script.write_text(source())
    script.chmod(0o700)
    command = [interpreter(), "-I", "-S", str(script)]
    done = subprocess.run(
        [*command, "check"], env={}, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0 or done.stdout.strip() != "ok":
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise LanescopeError(f"the restore script does not run here: {last}", "see its folder")
    return command
