"""Call lanescope with its own interpreter. Needs nothing but the standard library.

Workers import this file alone: it knows neither the framework nor lanescope.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any


def call(arguments: list[str], nsys: str = "") -> subprocess.CompletedProcess[str]:
    """Run `lanescope ARGUMENTS` as recorded by `lanescope recipes install`."""
    record = json.loads(Path(__file__).with_name("installed.json").read_text(encoding="utf-8"))
    # PYTHONPATH names the packages of Nsight Systems, which are for its own Python
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    if record.get("pythonpath"):
        env["PYTHONPATH"] = record["pythonpath"]
    if nsys:
        env.setdefault("LANESCOPE_NSYS", nsys)
    # -P: a folder called lanescope where nsys was started is no lanescope
    command = [record["python"], "-P", "-m", "lanescope", *arguments]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=env, stdin=subprocess.DEVNULL
        )
    except OSError as exc:
        why = f"{record['python']}: {exc.strerror} (lanescope has moved: lanescope recipes install)"
        return subprocess.CompletedProcess(command, 3, "", why)


def attribute_report(task: dict[str, Any]) -> dict[str, Any]:
    """Attribute one report into a folder of the output: the mapper of every recipe.

    task: report, folder, nsys, and options for lanescope. Returns the task with `error` (one line,
    '' if it went well) and `warnings` (lines). Never raises: one bad report must not lose the rest.
    """
    arguments = ["recipes", "attribute", task["report"], "--out", task["folder"], *task["options"]]
    done = call(arguments, task["nsys"])
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    failed = done.returncode != 0
    error = (said[-1] if said else f"lanescope ended with {done.returncode}") if failed else ""
    warnings = [line[len("warning: ") :] for line in said if line.startswith("warning: ")]
    return {**task, "error": error.replace("lanescope: ", "", 1), "warnings": warnings}
