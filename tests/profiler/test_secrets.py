"""Planted secrets are in no byte that a window writes, nor in a scrubbed export."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lanescope.profiler.window.redact import HIDDEN, Redactor, forms
from lanescope.profiler.window.scrub import NotClean, prove
from lanescope.schemas.documents.secrecy import looks_secret_name
from tests.profiler.parts import KEY, Bench, DockerBench, ProcessBench

HF_TOKEN = "hf_plantedTokenABCDEF123456"
API_KEY = "planted-api-key-99-zz"
URL_PASSWORD = "planted-url-pass-word"
BEARER = "planted.bearer.token.value"
PLANTED = (HF_TOKEN, API_KEY, URL_PASSWORD, BEARER, KEY)


def plant(bench: Bench) -> None:
    """Secrets in every place where people put them."""
    for name, value in (("hf", HF_TOKEN), ("api", API_KEY)):
        (bench.folder / name).write_text(value + "\n")
    bench.candidate["secrets"] = {
        **bench.candidate["secrets"],
        "HF_TOKEN": {"file": str(bench.folder / "hf")},
        "OTHER": {"file": str(bench.folder / "api"), "as_variable": False},
    }
    # an argument, and a log that prints what it should not
    more = ["--log-headers", "--api-key", "{secret:OTHER}"]
    bench.candidate["command"] = [*bench.candidate["command"], *more]
    bench.candidate["ready"] = {**bench.candidate["ready"], "api_key": "OTHER"}
    bench.environment |= {
        "HF_TOKEN": HF_TOKEN,
        "HTTPS_PROXY": f"http://user:{URL_PASSWORD}@127.0.0.1:9",
        "NOTE": f"Authorization: Bearer {BEARER}",
    }


def leaks(folder: Path) -> list[str]:
    """Files below a folder with a planted value in them, in any spelling."""
    found = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = path.read_bytes()
        for value in PLANTED:
            if any(form.encode() in data for form in forms(value)):
                found.append(f"{path.name}: {value}")
    return found


def assert_clean(bench: Bench, said: str) -> None:
    """Output folder, catalogue, and what was said."""
    assert leaks(bench.output) == []
    catalogue = bench.folder / "catalogue.sqlite"
    assert catalogue.exists()
    assert not any(value.encode() in catalogue.read_bytes() for value in PLANTED)
    assert not any(value in said for value in PLANTED)


@pytest.mark.nsight
@pytest.mark.parametrize("more", [[], ["--die-after", "3"]], ids=["captured", "failed"])
def test_planted_in_a_process_window(bench: ProcessBench, more: list[str]) -> None:
    plant(bench)
    bench.quick()
    bench.candidate["command"] += more
    done = bench.capture()
    assert done.returncode == (20 if more else 0), done.stdout + done.stderr
    assert_clean(bench, done.stdout + done.stderr)
    # the plants were really there: the raw report's folder, marked private, holds them
    private = bench.folder / "out.private" / bench.output.name
    assert (private / "PRIVATE.txt").exists()
    assert private.stat().st_mode & 0o077 == 0
    if more:
        return
    assert leaks(private) != []
    scrubbed = bench.folder / "shared.sqlite"
    done = bench.call("scrub", str(private / "raw.sqlite"), "--out", str(scrubbed))
    assert done.returncode == 0, done.stderr
    assert "HF_TOKEN" not in done.stdout or HF_TOKEN not in done.stdout
    assert not any(value.encode() in scrubbed.read_bytes() for value in (HF_TOKEN, API_KEY, KEY))
    with sqlite3.connect(scrubbed) as db, sqlite3.connect(private / "raw.sqlite") as raw:
        for table in ("NVTX_EVENTS", "ThreadNames", "PROFILER_OVERHEAD"):
            count = f"SELECT count(*) FROM {table}"
            assert db.execute(count).fetchone() == raw.execute(count).fetchone()
        query = """SELECT coalesce(e.text, s.value) FROM NVTX_EVENTS AS e
                   LEFT JOIN StringIds AS s ON s.id = e.textId ORDER BY e.rowid"""
        assert db.execute(query).fetchall() == raw.execute(query).fetchall()


@pytest.mark.nsight
@pytest.mark.docker
def test_planted_in_containers(containers: DockerBench) -> None:
    """The incumbent's own record holds secrets that this program never knew by reference."""
    plant(containers)
    containers.quick()
    containers.clean()
    more = ["--note", f"Bearer {BEARER}", "--api-key", KEY]
    proxy = f"HTTPS_PROXY=http://user:{URL_PASSWORD}@127.0.0.1:9"
    containers.start_incumbent(*more, Env=[f"HF_TOKEN={HF_TOKEN}", proxy])
    containers.bystanders()
    done = containers.capture()
    assert done.returncode == 0, done.stdout + done.stderr
    assert_clean(containers, done.stdout + done.stderr)
    containers.safe()


@pytest.mark.parametrize(
    "text",
    [
        f"HF_TOKEN={HF_TOKEN}",
        f"export OPENAI_API_KEY='{API_KEY}'",
        f"serve --api-key {API_KEY} --port 8000",
        f"serve --api-key={API_KEY}",
        f"postgres://me:{URL_PASSWORD}@db/x",
        f"Authorization: Bearer {BEARER}",
        f'{{"authorization": "bearer {BEARER}"}}',
        f'{{"api_key": "{API_KEY}"}}',
        f"non-default args: {{'api_key': ['{API_KEY}'], 'port': 8000}}",
        f"['serve', '--api-key', '{API_KEY}']",
    ],
)
def test_forms_that_give_a_secret_away(text: str) -> None:
    clean = Redactor().text(text)
    assert HIDDEN in clean
    assert not any(value in clean for value in PLANTED)


@pytest.mark.parametrize(
    "text",
    [
        'completion_tokens": 64}',
        "max_tokens=64, k=2",
        "tokens: 12 per second",
        "void at::native::radixSort<Key = unsigned int>(int)",
        "GET /v1/completions",
        "token budget of 8192",
    ],
)
def test_figures_and_names_stay(text: str) -> None:
    assert Redactor().known(text) == text
    if "Key" not in text:
        assert Redactor().text(text) == text


def test_known_values_in_every_spelling() -> None:
    value = 'pa"ss/wo rd'
    redact = Redactor([value])
    for spelled in forms(value):
        assert value not in redact.text(f"x {spelled} y")
        assert spelled not in redact.text(f"x {spelled} y")


@pytest.mark.parametrize("name", ["HF_TOKEN", "--api-key", "PGPASSWORD", "client_secret", "AUTH"])
def test_secret_names(name: str) -> None:
    assert looks_secret_name(name)


@pytest.mark.parametrize("name", ["max_tokens", "TOKENIZER", "KEYBOARD", "sort_key", "PWD", "PATH"])
def test_plain_names(name: str) -> None:
    assert not looks_secret_name(name)


def test_the_proof_finds_what_is_left(tmp_path: Path) -> None:
    file = tmp_path / "trace.sqlite"
    file.write_bytes(b"xxxx" + HF_TOKEN.encode("utf-16-le") + b"yyyy")
    with pytest.raises(NotClean) as caught:
        prove(file, [HF_TOKEN])
    assert HF_TOKEN not in str(caught.value)
    assert prove(file, [API_KEY]) == file.stat().st_size
