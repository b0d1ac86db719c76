"""The interface behind which a window starts and stops lanes: containers or processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from lanescope.schemas.errors import LanescopeError, UnusableInput


class LaunchError(LanescopeError):
    """The candidate could not be started, or is not what it should be."""


class Launcher(Protocol):
    """What a window asks of the thing that runs its lanes."""

    def check(self) -> dict[str, Any]:
        """Preflight: pins, absence of the candidate, the incumbent as it is. Changes nothing."""

    def snapshot(self) -> dict[str, Any]:
        """The executed source of the candidate and the incumbent's record, without secrets."""

    def restore_part(self) -> dict[str, Any]:
        """The launcher's share of the restore script's configuration."""

    def stop_incumbent(self) -> dict[str, Any]:
        """Stop the incumbent; it is kept exactly as it is."""

    def incumbent_running(self) -> bool:
        """Whether the incumbent runs."""

    def server_command(self) -> list[str]:
        """The command line that starts the server, secrets in their places."""

    def launch(self, command: list[str]) -> dict[str, Any]:
        """Start the candidate with this command line and its closed environment."""

    def candidate_alive(self) -> bool:
        """Whether the candidate's main process runs."""

    def run_inside(self, words: list[str], seconds: float) -> tuple[int, str]:
        """Run a command (nsys) where the candidate lives."""

    def stop_candidate(self) -> dict[str, Any]:
        """End the candidate and everything it started; says what was left behind."""

    def keep_unfinished(self) -> None:
        """Move what nsys left in its scratch folder (a `.qdstrm`) beside the report."""

    def save_log(self, target: Path) -> None:
        """The candidate's log with a timestamp a line, unredacted."""

    def remove_candidate(self) -> None:
        """Remove what is left of a stopped candidate."""

    @property
    def control_file(self) -> Path:
        """The control file of the tracer as this machine sees it."""

    @property
    def report_place(self) -> str:
        """The folder for the report as the candidate sees it."""


__all__ = ["LaunchError", "Launcher", "UnusableInput"]
