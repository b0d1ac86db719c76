"""Receipts of a window: one a state, and the manifest that binds every file by its hash."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Outcome(Enum):
    """How a window ended: the word, the process exit code, and what it means."""

    def __init__(self, word: str, code: int, meaning: str) -> None:
        self.word = word
        self.code = code
        self.meaning = meaning

    DONE = ("done", 0, "captured, restored, attributed")
    NO_DEVICE_ACTIVITY = (
        "captured, no device activity", 0, "captured and restored; the report holds no kernels"
    )  # fmt: skip
    REFUSED = ("refused", 3, "a check failed before anything was touched")
    FAILED = ("failed", 20, "the experiment failed; the incumbent serves and was verified")
    STOPPED = ("stopped", 21, "ended early; the incumbent serves")
    NOT_RESTORED = ("not restored", 22, "the incumbent could not be verified: act now")
    UNFINISHED = ("unfinished", 23, "captured and restored; a later step is missing")


class Receipt(BaseModel):
    """What one state did. Times are UTC and, for durations, the boot clock."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    receipt: Literal["lanescope.receipt/1"] = "lanescope.receipt/1"
    window: str
    run: str
    number: int
    state: str
    status: Literal["ok", "failed", "skipped"]
    began: str
    ended: str
    seconds: float
    facts: dict[str, Any] = {}
    #: why it failed, and what to do
    error: str = ""


class FileEntry(BaseModel):
    """A file of the output folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    bytes: int
    sha256: str


class Manifest(BaseModel):
    """Every file of a window's folder but the manifest itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    manifest: Literal["lanescope.manifest/1"] = "lanescope.manifest/1"
    window: str
    run: str
    outcome: str
    files: list[FileEntry]
