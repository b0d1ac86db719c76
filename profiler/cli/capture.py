"""`lanescope capture`: profile a live window, and bring the incumbent back whatever happens."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import rich_click as click

from lanescope.profiler.window import detach, dry, places, recovery, release
from lanescope.profiler.window.plan import load
from lanescope.profiler.window.run import Run, new_id
from lanescope.profiler.window.runner import Runner
from lanescope.schemas.errors import UsageError

WINDOW = click.argument("window", type=click.Path(path_type=Path))


class _Group(click.RichGroup):
    """`capture WINDOW.toml` is `capture run WINDOW.toml`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` before the first word where it names no command."""
        words = [a for a in args if not a.startswith("-")]
        if words and words[0] not in self.commands and not {"-h", "--help"} & set(args):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Group)
def command() -> None:
    """Profile a live window: `lanescope capture WINDOW.toml`.

    Exit codes: 0 captured and restored; 3 a check failed, nothing was touched; 20 the experiment
    failed, the incumbent serves; 21 ended by a person, the incumbent serves; 22 the incumbent
    could not be verified; 23 captured and restored, a later step is missing.
    """


@command.command("run")
@WINDOW
@click.option(
    "--dry-run", is_flag=True, help="Print the plan and run every check that touches nothing."
)
@click.option("--detach", "detached", is_flag=True, help="Run free of this terminal.")
@click.option(
    "--release", "released", is_flag=True, help="Release the window as its files are now."
)
@click.option("--run-id", hidden=True, default="")
def run(window: Path, dry_run: bool, detached: bool, released: bool, run_id: str) -> int:
    """Run a window."""
    plan = load(window)
    if dry_run:
        return dry.run(plan, click.echo)
    if released:
        release.run(plan)
    release.require(plan)
    if detached:
        found = new_id(plan)
        log = detach.start(plan, found)
        click.echo(f"{found}\nlog: {log}\nlanescope capture status --follow")
        return 0
    job = Run(plan, run_id or new_id(plan))
    job.begin()
    click.echo(f"window {job.run} -> {job.folder.path}")
    return Runner(job, lambda line: click.echo(line)).walk().code


@command.command("release")
@WINDOW
def release_(window: Path) -> None:
    """Let a window run, exactly as its files are now."""
    plan = load(window)
    click.echo(f"RUN {plan.window.name} {plan.sha256[:16]} -> {release.run(plan)}")


@command.command("hold")
@WINDOW
def hold(window: Path) -> None:
    """Take a release back: a running experiment ends, the restoration goes on."""
    click.echo(f"HOLD -> {release.hold(window)}")


def _latest(run_id: str | None) -> Path:
    folder = places.state_folder() / "runs"
    runs = sorted(folder.iterdir(), key=lambda p: p.stat().st_mtime) if folder.is_dir() else []
    chosen = [p for p in runs if p.name == run_id] if run_id else runs[-1:]
    if not chosen:
        raise UsageError("no such window on this machine", "see lanescope windows list")
    return chosen[0]


@command.command("status")
@click.argument("run_id", required=False)
@click.option("--follow", is_flag=True, help="Go on until the window has ended.")
@click.option("--json", "as_json", is_flag=True, help="Print the state as JSON.")
def status(run_id: str | None, follow: bool, as_json: bool) -> None:
    """Where a window stands; the last one by default."""
    last: Any = None
    while True:
        found = recovery.status(_latest(run_id))
        if found != last:
            click.echo(json.dumps(found) if as_json else recovery.line(found))
        last = found
        if not follow or found["outcome"] or not found["runner"]:
            return
        time.sleep(0.5)


@command.command("abort")
@click.argument("run_id", required=False)
def abort(run_id: str | None) -> None:
    """End a running window; its incumbent is brought back."""
    folder = _latest(run_id)
    found = recovery.status(folder)
    (folder / "abort").touch()
    if found["runner"]:
        os.kill(found["runner"], signal.SIGTERM)
        click.echo(f"{folder.name}: told to stop; follow it with lanescope capture status --follow")
    else:
        click.echo(f"{folder.name}: no runner; bring the incumbent back with capture restore")


@command.command("restore")
@click.argument("run_id", required=False)
def restore(run_id: str | None) -> int:
    """Bring the incumbent of a window back, now. Safe to call at any time, any number of times."""
    return recovery.restore(_latest(run_id), click.echo)


@command.command("resume")
@click.argument("run_id", required=False)
def resume(run_id: str | None) -> int:
    """Finish a window whose runner was killed: restoration first, then what was captured."""
    return recovery.resume(_latest(run_id), lambda line: click.echo(line))
