"""The executed source of a candidate: installed packages, and hashes of the named ones' files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

#: runs under the candidate's own interpreter: standard library only
SNIPPET = """
import hashlib, importlib.util, importlib.metadata, json, os, sys
files, missing = {}, []
for name in sys.argv[1:]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        missing.append(name)
        continue
    roots = list(spec.submodule_search_locations or []) or [spec.origin]
    for root in roots:
        found = [root] if os.path.isfile(root) else [
            os.path.join(d, f) for d, _, fs in os.walk(root) for f in fs if not f.endswith(".pyc")]
        for path in sorted(found):
            try:
                with open(path, "rb") as file:
                    files[path] = hashlib.sha256(file.read()).hexdigest()
            except OSError as exc:
                files[path] = "unreadable: %s" % exc.strerror
installed = sorted({"%s==%s" % (d.metadata["Name"], d.version)
    for d in importlib.metadata.distributions() if d.metadata["Name"]}, key=str.lower)
print(json.dumps({"python": sys.version.split()[0], "installed": installed, "files": files,
    "missing": missing}))
"""


def interpreter_of(command: list[str]) -> str | None:
    """The Python behind a command: itself, or the one in its script's first line."""
    program = Path(command[0])
    if program.name.startswith("python"):
        return str(program)
    try:
        with program.open("rb") as file:
            first = file.readline(500)
    except OSError:
        return None
    if first.startswith(b"#!") and b"python" in first:
        return first[2:].decode(errors="replace").strip().split()[0]
    return None


def collect(python: list[str], packages: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Run the snippet under an interpreter; says why where it cannot."""
    try:
        done = subprocess.run(
            [*python, "-c", SNIPPET, *packages],
            env=environment,
            capture_output=True,
            timeout=300,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as exc:
        return {"why": f"the interpreter did not run: {type(exc).__name__}"}
    return parse(done.returncode, done.stdout.decode(errors="replace"))


def parse(code: int, output: str) -> dict[str, Any]:
    """The snippet's answer; what else a container printed is left aside."""
    for line in output.splitlines():
        if line.startswith('{"python"'):
            found: dict[str, Any] = json.loads(line)
            return found
    return {"why": f"the interpreter gave no answer (exit {code})"}
