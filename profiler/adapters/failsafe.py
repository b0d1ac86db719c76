"""The interface of a failsafe: armed for later, read back, disarmed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from lanescope.schemas.errors import LanescopeError


class FailsafeError(LanescopeError):
    """The failsafe cannot be relied on: the incumbent is not touched."""


@dataclass(frozen=True)
class Armed:
    """One armed timer: how to find it again, and when it fires on the boot clock."""

    handle: str
    deadline_boottime_s: float


class Failsafe(Protocol):
    """A systemd timer, or a detached watchdog."""

    kind: str

    def arm(self, seconds: float, words: list[str]) -> Armed:
        """Run the restore script with these words after so many seconds, whatever becomes of us."""

    def pending(self, armed: Armed) -> bool:
        """Whether it is still waiting to fire, read back from where it waits."""

    def disarm(self, armed: Armed) -> bool:
        """Take it away; whether it is gone for certain."""

    def facts(self) -> dict[str, Any]:
        """What a reader of the receipt should know about this kind."""
