"""Warnings and abstentions: closed sets of stable codes, each with its advice.

"No problem", "a problem" and "could not look" are three different answers: nothing said, a
`Warning_`, an `Abstention`. A view shows the advice; nobody else writes such texts.
"""

from __future__ import annotations

from enum import Enum

from pydantic import BaseModel, ConfigDict


class Finding(BaseModel):
    """A thing a careful reader would have noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    message: str
    advice: str


class Abstention(BaseModel):
    """A value that is not given, why, and what would make it available."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    why: str
    remedy: str


class WarningCode(Enum):
    """Every warning there is: the code, and the advice that goes with it."""

    def __init__(self, code: str, advice: str) -> None:
        self.code = code
        self.advice = advice

    def finding(self, message: str) -> Finding:
        """This warning about one input: `message` carries its figures."""
        return Finding(code=self.code, message=message, advice=self.advice)
