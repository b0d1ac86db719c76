"""Put the recipes where `nsys recipe` finds them, and say which are there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from lanescope._version import __version__
from lanescope.attribution import rooms
from lanescope.schemas.errors import UnusableInput, UsageError

#: What the recipes share; no recipe itself.
SHARED = "lanescope_recipe"
#: Written into the shared folder: how to call lanescope, and what was installed.
RECORD = "installed.json"


@dataclass(frozen=True)
class Recipe:
    """A recipe that lanescope brings."""

    name: str
    title: str
    description: str


def templates() -> Path:
    """Where the recipes lie in this installation."""
    return Path(__file__).parent


def recipes() -> list[Recipe]:
    """The recipes, by name."""
    found = []
    for file in sorted(templates().glob("*/metadata.json")):
        data = json.loads(file.read_text(encoding="utf-8"))
        found.append(Recipe(file.parent.name, data["display_name"], data["description"]))
    return found


def default_folder() -> Path:
    """`NSYS_RECIPE_PATH` where it is set, else a folder of the user's."""
    named = os.environ.get("NSYS_RECIPE_PATH", "").split(os.pathsep)[0]
    return Path(named) if named else Path(platformdirs.user_data_dir("lanescope")) / "recipes"


def record(folder: Path) -> dict[str, Any] | None:
    """What was installed into a folder: lanescope's version, its Python, the files. None: nothing.

    Raises `UnusableInput` for a record that cannot be read.
    """
    file = folder / SHARED / RECORD
    if not file.is_file():
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise UnusableInput(f"{file}: {exc}", "lanescope recipes install --force") from exc
    if not isinstance(data, dict) or not {"lanescope", "python", "files"} <= set(data):
        raise UnusableInput(f"{file}: no record of recipes", "lanescope recipes install --force")
    return data


def install(folder: Path, force: bool) -> None:
    """Copy the recipes into `folder` and record this interpreter.

    What was installed before is replaced where nobody has changed it. Raises `UsageError` for
    folders of these names that are not ours or were edited, unless `force`; `UnusableInput` where
    the folder cannot be written.
    """
    names = [SHARED, *(r.name for r in recipes())]
    if not force:
        _refuse_others(folder, names)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = rooms.make(folder, "recipes")
    except OSError as exc:
        raise UnusableInput(
            f"{folder}: cannot be written ({exc.strerror})", "name another folder with --to"
        ) from exc
    try:
        work.chmod(0o755)
        for name in names:
            shutil.copytree(
                templates() / name, work / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        written = {
            "lanescope": __version__,
            "python": sys.executable,
            "pythonpath": os.environ.get("PYTHONPATH", ""),
            "files": {str(f.relative_to(work)): _digest(f) for f in _files(work)},
        }
        (work / SHARED / RECORD).write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        for name in names:
            shutil.rmtree(folder / name, ignore_errors=True)
            (work / name).rename(folder / name)
    except OSError as exc:
        raise UnusableInput(
            f"{folder}: cannot be written ({exc.strerror})", "name another folder with --to"
        ) from exc
    finally:
        rooms.remove(work)


def _refuse_others(folder: Path, names: list[str]) -> None:
    there = [name for name in names if (folder / name).exists()]
    if not there:
        return
    known = (record(folder) or {}).get("files", {})
    for name in there:
        for file in _files(folder / name):
            inside = str(file.relative_to(folder))
            if inside == f"{SHARED}/{RECORD}":
                continue
            if known.get(inside) != _digest(file):
                raise UsageError(
                    f"{file} was not installed by lanescope, or was changed since",
                    "name another folder with --to, or --force to replace it",
                )


def _files(folder: Path) -> list[Path]:
    return [f for f in sorted(folder.rglob("*")) if f.is_file() and "__pycache__" not in f.parts]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
