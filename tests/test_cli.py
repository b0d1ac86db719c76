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
