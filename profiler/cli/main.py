"""The command `lanescope`: finds the verb, and turns errors into one line and an exit code.

One verb a file beside this one; a verb is imported only when it is called, so that `--help` and
completion are quick. This is the only place where an error becomes an exit code.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import sys
import traceback
from typing import Any

import rich_click as click
from click.exceptions import Exit

from lanescope._version import __version__
from lanescope.dashboards import terminal
from lanescope.profiler.cli.memory import keep_freed_memory
from lanescope.schemas.errors import ExitCode, LanescopeError, UnusableInput, no_space_left

#: verb -> (module beside this one, one-line help). The help stands here so that `lanescope --help`
#: imports no verb; tests hold it against the command's own docstring.
VERBS: dict[str, tuple[str, str]] = {
    "attribute": ("attribute", "Where a decode step's time goes, from one trace."),
    "query": ("query", "SQL over many attributions."),
    "ranks": (
        "ranks",
        "The ranks of one run, from several reports: steps matched, skew, slowest, waits.",
    ),
    "serve": ("serve", "The catalogue in a browser: windows, attributions, ladder, gates."),
    "export": ("export", "A trace for Perfetto, or every table as CSV, Parquet or Markdown."),
    "cache": ("cache", "Show or clear the staged tables of traces seen before."),
    "capture": ("capture", "Profile a live window, and bring the incumbent back."),
    "probe": ("probe", "Probe a server: TTFT, gaps, tokens per second, other clients."),
    "lane": ("lane", "Check lane files and show what differs between two lanes."),
    "scrub": ("scrub", "Make a shareable export of a trace, and prove it."),
    "windows": ("windows", "List and show captured windows."),
    "doctor": ("doctor", "What this machine can do for a window, and the remedy where it cannot."),
    "receipt": ("receipt", "Hold a window's folder against its manifest."),
    "replay": (
        "replay",
        "What a slot budget, a policy or a predictor could win, from a routing trace.",
    ),
    "lab": ("lab", "A small slot-cache engine to profile: serve it, score it, measure it."),
    "compare": ("compare", "What changed between lanes, by how much, and which bucket paid."),
    "ladder": ("ladder", "An append-only record of rungs: what was changed, kept, retracted."),
    "hits": ("hits", "Misses and hit rate from the engine's own log lines."),
    "model": ("model", "What a miss costs a step, over windows or lanes."),
    "recipes": (
        "recipes",
        "Recipes for `nsys recipe`: buckets of a step, row copies, lanes compared.",
    ),
    "gate": ("gate", "Judge a candidate by a rules file that is older than the data."),
}


class LazyGroup(click.RichGroup):
    """A group whose commands are imported when they are called; its help imports none."""

    _listing = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of `VERBS`."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command object of a verb; while help is written, its name and line alone."""
        if cmd_name not in VERBS:
            return None
        module_name, text = VERBS[cmd_name]
        if self._listing:
            return click.Command(cmd_name, help=text)
        module = importlib.import_module(f"lanescope.profiler.cli.{module_name}")
        command: click.Command = module.command
        command.name = cmd_name
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help of the whole command."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lanescope")
@click.option("-v", "--verbose", count=True, help="Say what is being done; twice: in detail.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--plain", is_flag=True, help="No colour, no lines; NO_COLOR leaves colour out too.")
@click.pass_context
def cli(ctx: click.Context, verbose: int, debug: bool, plain: bool) -> None:
    """Where a decode step's time goes, from Nsight Systems traces of LLM serving engines.

    Exit codes: 0 done; 1 done, but a part named by --require abstained; 2 usage; 3 unusable
    input; 4 internal error; 129, 130, 143 ended by SIGHUP, Ctrl-C, SIGTERM.
    """
    level = [logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)]
    logging.basicConfig(level=level, format="%(name)s: %(message)s", stream=sys.stderr)
    terminal.PLAIN.set(plain)
    ctx.call_on_close(lambda: terminal.PLAIN.set(False))
    ctx.obj = {"debug": debug, "verbose": verbose}


def _debugging(argv: list[str]) -> bool:
    return "--debug" in argv or bool(os.environ.get("LANESCOPE_DEBUG"))


def main(argv: list[str] | None = None) -> Any:
    """Run the command line and exit with its documented code.

    argv: the words after the program's name. Without them those of the process, which ends with
    this call.
    """
    status = [int(ExitCode.INTERNAL)]
    if argv is None:
        atexit.register(_leave, status)
    status[0] = _run(sys.argv[1:] if argv is None else argv)
    sys.exit(status[0])


def _leave(status: list[int]) -> None:
    """End the process that the interpreter is about to end anyway, without taking it to pieces.

    Threads are joined by then, and what registered later for the exit is done. What is left is to
    free every object and module: some 30 ms of each call.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status[0])


def _run(args: list[str]) -> int:
    """The exit code of a command line; what went wrong is said in one line."""
    keep_freed_memory()
    # --debug and --plain are welcome after the verb too.
    for option in ("--debug", "--plain"):
        if option in args:
            args = [option, *[a for a in args if a != option]]
    try:
        code = cli.main(args=args, prog_name="lanescope", standalone_mode=False)
        sys.stdout.flush()
    except Exit as exc:
        return exc.exit_code
    except click.Abort:
        print("lanescope: interrupted", file=sys.stderr)
        return 130
    except click.ClickException as exc:
        where = f" (see lanescope{_verb(exc)} --help)" if isinstance(exc, click.UsageError) else ""
        print(f"lanescope: {exc.format_message()}{where}", file=sys.stderr)
        return ExitCode.USAGE
    except LanescopeError as exc:
        if _debugging(args):
            traceback.print_exc()
        print(f"lanescope: {exc}", file=sys.stderr)
        return exc.exit_code
    except KeyboardInterrupt:
        print("lanescope: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `lanescope … | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as exc:  # noqa: BLE001 - the last line of defence: it names the fault and exits 4
        if _debugging(args):
            traceback.print_exc()
        if (limit := _limit_reached(exc)) is not None:
            print(f"lanescope: {limit}", file=sys.stderr)
            return limit.exit_code
        text = " ".join(f"{type(exc).__name__}: {exc}".split())
        print(
            f"lanescope: internal error: {text} (please report it, with the output of --debug)",
            file=sys.stderr,
        )
        return ExitCode.INTERNAL
    return code if isinstance(code, int) else 0


def _limit_reached(exc: Exception) -> LanescopeError | None:
    """What an error of DuckDB or the system says of memory or disk."""
    if isinstance(exc, OSError) and no_space_left(exc):
        what = exc.filename or "the output"
        return UnusableInput(f"no space left for {what}", "free space, or write elsewhere")
    if "duckdb" not in sys.modules:
        return None
    from lanescope.attribution import engine

    return engine.limit_reached(exc)


def _verb(exc: click.UsageError) -> str:
    ctx = exc.ctx
    return f" {ctx.info_name}" if ctx is not None and ctx.parent is not None else ""
