"""The SHA-256 of a source, on its own so that it can be taken while the rest is imported."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

_CHUNK = 1 << 20


def sha256(path: Path) -> str:
    """The SHA-256 of a file, or of a folder's Parquet files by name and content."""
    digest = hashlib.sha256()
    if path.is_dir():
        for part in sorted(path.glob("*.parquet")):
            digest.update(part.name.encode() + b"\x00" + bytes.fromhex(sha256(part)))
        return digest.hexdigest()
    with path.open("rb", buffering=0) as fh:
        buffer = bytearray(_CHUNK)
        view = memoryview(buffer)
        while n := fh.readinto(buffer):
            digest.update(view[:n])
    return digest.hexdigest()


def sha256_ahead(path: Path) -> Callable[[], str]:
    """Begin on a file's SHA-256 beside everything else; the result waits for it.

    The result raises what reading raised. A process that ends early does not wait.
    """
    if not path.is_file():  # a pipe would never end; folders are quick
        return lambda: sha256(path)
    found: list[str] = []
    failed: list[OSError] = []

    def take() -> None:
        try:
            found.append(sha256(path))
        except OSError as exc:
            failed.append(exc)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()

    def result() -> str:
        thread.join()
        if failed:
            raise failed[0]
        return found[0]

    return result
