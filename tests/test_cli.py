"""The command line itself: version, help, unknown verbs, exit codes."""

import subprocess
import sys


def run(*args: str) -> subprocess.CompletedProcess[str]:
    """`lanescope ARGS` as a user runs it."""
    return subprocess.run(
        [sys.executable, "-m", "lanescope", *args], capture_output=True, text=True, check=False
    )


def test_version_is_printed() -> None:
    import lanescope

    assert run("--version").stdout == f"lanescope, version {lanescope.__version__}\n"


def test_unknown_verb_is_one_line_and_exit_2() -> None:
    done = run("nosuchverb")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "nosuchverb" in done.stderr
