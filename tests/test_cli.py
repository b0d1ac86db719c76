"""The command line itself: version, help, unknown verbs, exit codes."""

import subprocess
import sys
from pathlib import Path


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


def test_help_names_every_verb_and_imports_none() -> None:
    from lanescope.profiler.cli.main import VERBS

    done = run("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert f" {verb} " in done.stdout
    code = (
        "import sys; from lanescope.profiler.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pandas', 'duckdb', 'pyarrow', 'plotly', 'sqlalchemy', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    quick = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert quick.stderr.strip() == "[]"


def test_a_full_disk_under_the_output_is_named() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lanescope", "--version"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.startswith("lanescope: no space left for the output (")
    assert len(done.stderr.splitlines()) == 1


def test_the_end_of_the_process_keeps_what_was_said_and_its_code() -> None:
    code = (
        "import atexit, sys; atexit.register(print, 'registered before: not run')\n"
        "from lanescope.profiler.cli import main\n"
        "def verb(**_):\n"
        "    atexit.register(print, 'registered later: run')\n"
        "    sys.stdout.write('said'); sys.stderr.write('warned')\n"
        "    return 7\n"
        "main.cli.main = verb\n"
        "sys.argv = ['lanescope']\n"
        "main.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert done.stdout == "saidregistered later: run\n"
    assert done.stderr == "warned"
