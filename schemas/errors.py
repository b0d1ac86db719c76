"""The errors that a user may meet: one line that names what, where and the remedy.

Every error the product raises on purpose is a `LanescopeError`. `profiler/cli/main.py` is the
only place that turns one into a line on stderr and an exit code.
"""

from __future__ import annotations

import errno
from enum import IntEnum


class ExitCode(IntEnum):
    """The process exit codes. They are part of the public interface."""

    DONE = 0
    ABSTAINED = 1  # done, but a part that --require named had to abstain
    USAGE = 2
    UNUSABLE_INPUT = 3
    INTERNAL = 4
    GATE_FAIL = 10
    GATE_INCONCLUSIVE = 11
    GATE_INVALID = 12


def no_space_left(exc: OSError) -> bool:
    """Whether the disk is full, or the user's share of it."""
    return exc.errno in (errno.ENOSPC, errno.EDQUOT)


class LanescopeError(Exception):
    """A failure with a known cause. `message` says what and where, `remedy` what to do about it."""

    exit_code: ExitCode = ExitCode.INTERNAL

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """One line, whatever the pieces held."""
        text = f"{self.message} ({self.remedy})" if self.remedy else self.message
        return " ".join(text.split())


class UsageError(LanescopeError):
    """The call is wrong: an unknown name, an option that contradicts another."""

    exit_code = ExitCode.USAGE


class UnusableInput(LanescopeError):
    """The input cannot be read as what it should be."""

    exit_code = ExitCode.UNUSABLE_INPUT


class InternalError(LanescopeError):
    """A promise of the product did not hold (conservation, say): a bug, never the user's fault."""

    exit_code = ExitCode.INTERNAL


class NoDeviceActivity(UnusableInput):
    """The export is sound but holds no GPU work: nothing to attribute."""
