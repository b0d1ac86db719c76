"""Files that verbs write: whole or not at all, and never over another without being told."""

from __future__ import annotations

from pathlib import Path

from lanescope.attribution.beside import beside
from lanescope.schemas.errors import UsageError


def write_text(path: Path, text: str, force: bool) -> None:
    """Write under a temporary name in the same folder, then rename."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists", "name another file, or --force")
    with beside(path, folder=False) as work:
        work.write_text(text, encoding="utf-8")
