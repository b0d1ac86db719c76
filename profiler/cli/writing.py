"""Files that verbs write: whole or not at all, and never over another without being told."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from lanescope.schemas.errors import UnusableInput, UsageError


def write_text(path: Path, text: str, force: bool) -> None:
    """Write under a temporary name in the same folder, then rename."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists", "name another file, or --force")
    name = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # noqa: PTH101 - mkstemp's own mode is private
        os.replace(name, path)  # noqa: PTH105
    except OSError as exc:
        if name:
            Path(name).unlink(missing_ok=True)
        raise UnusableInput(f"cannot write {path}: {exc.strerror}", "choose another place") from exc
