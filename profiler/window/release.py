"""The release: a window runs only while its control file says RUN for exactly this window."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

from lanescope.profiler.window.folder import utc
from lanescope.profiler.window.places import state_folder
from lanescope.profiler.window.plan import Plan
from lanescope.schemas.errors import LanescopeError, UnusableInput


class NotReleased(LanescopeError):
    """The control file does not say RUN for this window."""


def control_file(name: str) -> Path:
    """One file a window's name, in the machine's state."""
    folder = state_folder() / "control"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{name}.json"


def run(plan: Plan) -> Path:
    """Say RUN for the window exactly as its files are now."""
    return _write(plan.window.name, "RUN", plan.sha256)


def hold(window: Path) -> Path:
    """Say HOLD for a window, whatever has become of the files that it names."""
    try:
        name = tomllib.loads(window.read_text(encoding="utf-8"))["name"]
    except (OSError, ValueError, KeyError) as exc:
        raise UnusableInput(
            f"{window}: name: cannot be read", "capture abort needs no file"
        ) from exc
    return _write(str(name), "HOLD", "")


def _write(name: str, word: str, plan: str) -> Path:
    target = control_file(name)
    partial = target.with_suffix(".partial")
    said = {"word": word, "window": name, "plan": plan, "by": os.getuid(), "at": utc()}
    partial.write_text(json.dumps(said) + "\n")
    partial.rename(target)
    return target


def require(plan: Plan) -> dict[str, str]:
    """Raises `NotReleased` unless the file says RUN for these very bytes."""
    target = control_file(plan.window.name)
    remedy = f"lanescope capture release {plan.path}"
    try:
        said = json.loads(target.read_text())
        word, window, sha256 = said["word"], said["window"], said["plan"]
    except FileNotFoundError as exc:
        raise NotReleased(f"window {plan.window.name} is not released", remedy) from exc
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise NotReleased(f"{target}: not a control file", remedy) from exc
    if word != "RUN" or window != plan.window.name:
        raise NotReleased(f"window {plan.window.name} is on {word}", remedy)
    if sha256 != plan.sha256:
        raise NotReleased(f"window {plan.window.name} was changed after its release", remedy)
    return {"word": word, "plan": sha256, "at": str(said.get("at", ""))}
