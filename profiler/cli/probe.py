"""`lanescope probe`: the probe alone, against a lane's server or any OpenAI-compatible address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rich_click as click
from pydantic import ValidationError

from lanescope.dashboards.terminal import Column, console, sentence, table
from lanescope.profiler.adapters import metrics, probe
from lanescope.profiler.window import figures
from lanescope.profiler.window.plan import secret_value
from lanescope.schemas.documents import toml
from lanescope.schemas.documents.lane import Lane, Ready
from lanescope.schemas.documents.window import Probe
from lanescope.schemas.errors import LanescopeError, UsageError
from lanescope.schemas.units import significant

DEFAULT = [
    probe.Prompt("count", "Count from one to fifty in words."),
    probe.Prompt("story", "Tell a short story about a lighthouse."),
    probe.Prompt("code", "Write a function that reverses a linked list."),
    probe.Prompt("list", "List the planets with one fact each."),
]


@click.command()
@click.argument("target", metavar="LANE|URL")
@click.option("--model", help="Served model (default: the first one that the server lists).")
@click.option("--prompts", type=click.Path(path_type=Path), help="JSON lines with id and prompt.")
@click.option("--max-tokens", default=64, show_default=True, type=click.IntRange(1))
@click.option("--repetitions", default=1, show_default=True, type=click.IntRange(1))
@click.option("--concurrency", default="1", show_default=True, help="List, like 1,2,4.")
@click.option("--warmup", default=1, show_default=True, type=click.IntRange(0))
@click.option("--chat", is_flag=True, help="Use /v1/chat/completions.")
@click.option("--key-file", type=click.Path(path_type=Path), help="File with the bearer token.")
@click.option("--rows", type=click.Path(path_type=Path), help="Write one JSON line a request here.")
@click.option("--force", is_flag=True, help="Overwrite the file of rows.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(target: str, **options: Any) -> None:
    """Probe a server: TTFT, gaps, tokens per second, acceptance, other clients."""
    lane = None if "://" in target else toml.read(Path(target), Lane)
    ready, key = _ready(target, lane, options)
    rows_file = options["rows"]
    if rows_file and rows_file.exists() and not options["force"]:
        raise UsageError(f"{rows_file} exists", "--force overwrites it")
    settings = _settings(options)
    prompts = probe.read_prompts(options["prompts"]) if options["prompts"] else DEFAULT
    client = probe.Client(ready, key, settings)
    try:
        probe.warm_up(client, prompts)
        with metrics.Watch(ready.url, key, client.in_flight) as bracket:
            rows = probe.run(client, prompts, "probe")
    finally:
        client.close()
    found = figures.probe_figures(rows, bracket)
    if rows_file:
        partial = rows_file.with_name(rows_file.name + ".partial")
        partial.write_text("".join(json.dumps(r.row()) + "\n" for r in rows))
        partial.rename(rows_file)
    click.echo(json.dumps(found, indent=1)) if options["as_json"] else _show(found)
    bad = [r for r in rows if r.error]
    if bad:
        raise LanescopeError(f"{len(bad)} of {len(rows)} requests failed: {bad[0].error}", target)


def _ready(target: str, lane: Lane | None, options: dict[str, Any]) -> tuple[Ready, str]:
    """Where to ask, and with which key."""
    key = ""
    if options["key_file"]:
        key = secret_value(Path("--key-file"), "key", str(options["key_file"]), None)
    if lane is not None:
        name = lane.ready.api_key
        if name and not key:
            secret = lane.secrets[name]
            key = secret_value(Path(target), f"secrets.{name}", secret.file, secret.variable)
        return lane.ready, key
    base = target.rstrip("/").removesuffix("/v1")
    model = options["model"] or probe.first_model(base, key)
    path = "/v1/chat/completions" if options["chat"] else "/v1/completions"
    try:
        return Ready.model_validate({"url": base, "model": model, "completions": path}), key
    except ValidationError as exc:
        raise UsageError(f"{target}: {toml.first_problem(exc)}", "name an http address") from None


def _settings(options: dict[str, Any]) -> Probe:
    try:
        levels = [int(word) for word in options["concurrency"].split(",")]
        return Probe(
            prompts="-",
            max_tokens=options["max_tokens"],
            repetitions=options["repetitions"],
            concurrency=levels,
            warmup=options["warmup"],
        )
    except ValueError:
        raise UsageError("--concurrency: not a list of numbers", "write it like 1,2,4") from None


def _show(found: dict[str, Any]) -> None:
    con = console()
    names = {
        "concurrency": "streams",
        "requests": "requests",
        "ttft_ms": "TTFT ms",
        "chunk_gap_ms": "chunk gap ms",
        "gap_per_token_ms": "gap/token ms",
        "decode_tokens_per_s": "decode tok/s",
        "aggregate_tokens_per_s": "all streams tok/s",
    }
    rows = [[_cell(row[key]) for key in names] for row in found["by_concurrency"]]
    table("Probe (medians over requests)", [Column(n) for n in names.values()], rows, con)
    accepted = found["acceptance"]
    if accepted["rate"] is None:
        sentence(con, f"acceptance: not known: {accepted['why']}")
    else:
        sentence(
            con, f"acceptance: {accepted['rate']:.3f}, mean length {accepted['mean_length']:.3f}"
        )
    other = found["contamination"]
    sentence(con, f"other clients: {other['verdict']}")
    for line in (*other["reasons"], *other["unknown"]):
        sentence(con, f"  {line}")
    for line in found["not_reported"]:
        sentence(con, f"not reported by the server: {line}")


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else significant(value)
