"""`lanescope lab`: the engine to practise on, what it knows of itself, and a quick table of it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import sys
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import rich_click as click

from lanescope.captures.lab.config import PRESETS, LabConfig, configure, read_slot_map
from lanescope.dashboards.terminal import Column, console, table
from lanescope.profiler.cli.writing import write_text
from lanescope.schemas.errors import UsageError
from lanescope.schemas.units import significant

_HELP = {
    "model": "Served model id.",
    "layers": "Layers, each with a slot cache.",
    "experts": "Routed experts of a layer, all in host memory.",
    "topk": "Experts a token is routed to.",
    "slots": "Expert rows of a layer that the device holds.",
    "k": "Drafted tokens a step: a step verifies K+1.",
    "hidden": "Width of the residual stream.",
    "inter": "Width of an expert.",
    "heads": "Attention heads.",
    "vocab": "Tokens of the vocabulary.",
    "context": "Tokens of a stream, prompt and completion.",
    "streams": "Requests served at once, 1 to 8.",
    "bypass_over": "A prefill pass of more tokens goes around the slot cache.",
    "chunk": "Tokens of one prefill pass.",
    "graphs": "CUDA graphs a step is cut into; 0 runs eagerly.",
    "progs": "GPU programs that copy one row.",
    "noise_mib": "MiB of other host-to-device traffic beside a noisy step.",
    "noise_share": "Share of steps that are noisy.",
    "skew": "How unequal the router finds the experts.",
    "locality": "How alike the tokens of a topic route, 0 to 0.99.",
    "agreement": "How often the draft can be right; 1 is about 4 in 5.",
    "seed": "Seed of the weights and of sampling.",
    "nvtx": "Range names: plain, fields (unique, with values) or none.",
}
_TYPES: dict[str, Any] = {"int": int, "float": float, "str": str}


def _needs_lab() -> None:
    missing = [m for m in ("aiohttp", "prometheus_client") if not importlib.util.find_spec(m)]
    if missing:
        raise UsageError(f"the lab needs {' and '.join(missing)}", "pip install 'lanescope[lab]'")


def _sized(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the preset, a flag for every size of an engine, and the device."""
    for field in reversed(fields(LabConfig)):
        if field.name in _HELP:
            option = f"--{field.name.replace('_', '-')}"
            kind = _TYPES[str(field.type)]
            wrapped = click.option(option, field.name, type=kind, help=_HELP[field.name])(wrapped)
    wrapped = click.option(
        "--slot-map", type=click.Path(path_type=Path), help="JSON with the slots of each layer."
    )(wrapped)
    wrapped = click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        show_default=True,
        help="auto takes the GPU where PyTorch sees one.",
    )(wrapped)
    return click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        default="tiny",
        show_default=True,
        help="Where the sizes start from.",
    )(wrapped)


def _config(preset: str, slot_map: Path | None, sizes: dict[str, Any]) -> LabConfig:
    layers = read_slot_map(slot_map) if slot_map else None
    return configure(preset, slot_map=layers, **sizes)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """A small slot-cache engine to profile: serve it, score it, measure it."""
    _needs_lab()


@command.command()
@_sized
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, help="Port; 0 takes a free one.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the bearer token that clients need.",
)
@click.option(
    "--token", envvar="LANESCOPE_LAB_TOKEN", hidden=True, help="The same from the environment."
)
@click.option(
    "--truth",
    type=click.Path(path_type=Path),
    help="Folder for what really happened, misses and routing of every pass; each start "
    "writes a folder of its own in it.",
)
@click.option("--routing/--no-routing", default=True, help="With --truth: keep the routing too.")
@click.option(
    "--stats-every", default=20.0, show_default=True, help="Seconds between SLOT_CACHE STATS lines."
)
def serve(
    preset: str,
    device: str,
    slot_map: Path | None,
    host: str,
    port: int,
    token_file: Path | None,
    token: str | None,
    truth: Path | None,
    routing: bool,
    stats_every: float,
    **sizes: Any,
) -> None:
    """Serve the OpenAI protocol until interrupted.

    \b
    lanescope lab serve --preset tiny --port 8000
    lanescope lab serve --preset k1 --slots 44 --truth truth/
    """
    from lanescope.captures.lab.build import make_engine
    from lanescope.captures.lab.server import serve as run
    from lanescope.captures.lab.truthlog import run_folder

    config = _config(preset, slot_map, sizes)
    _log_to_stderr()
    record = run_folder(truth) if truth else None
    engine = make_engine(config, device, record, routing, stats_every)

    def ready(bound: int) -> None:
        print(f"lab lane {config.model} ready at http://{host}:{bound}/v1", flush=True)

    asyncio.run(run(engine, host, port, _token(token_file) or token, ready))
    if engine.failure:
        raise SystemExit(4)


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as exc:
        raise UsageError(f"{path}: {exc}", "--token-file names a readable text file") from exc


def _log_to_stderr() -> None:
    logger = logging.getLogger("lanescope.lab")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s (lab) %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


@command.command()
@click.argument("record", type=click.Path(path_type=Path))
@click.argument("attribution", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Write the truth here, as JSON.")
@click.option("--force", is_flag=True, help="Replace --out.")
@click.option("--json", "as_json", is_flag=True, help="Print the truth as JSON instead.")
def truth(record: Path, attribution: Path, out: Path | None, force: bool, as_json: bool) -> None:
    """What really happened in the steps that ATTRIBUTION found, from the engine's RECORD.

    RECORD is the folder of `lab serve --truth`, or one start's in it; ATTRIBUTION is one that
    `lanescope attribute` wrote. The steps are matched by time.

    \b
    lanescope lab truth truth/ k1.lanescope/ --out k1.truth.json
    lanescope attribute k1.sqlite --truth k1.truth.json
    """
    from lanescope.captures.lab.scored import find_truth, read_steps

    found = find_truth(record, read_steps(attribution))
    text = json.dumps(found)
    if out:
        write_text(out, text, force)
    if as_json:
        print(text)
        return
    rows = [
        ("steps matched", str(found["steps"])),
        ("misses per layer-step", significant(found["misses_per_layer_step"])),
        ("routed rows per layer-step", str(found["routed_per_layer_step"])),
        ("hit rate", significant(found["hit_rate"])),
        ("accepted drafts per step", significant(found["accepted_per_step"])),
    ]
    table("The engine's own record", [Column("", numeric=False), Column("")], rows, console())


def _numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    try:
        return [int(part) for part in value.split(",")] if value else None
    except ValueError as exc:
        raise click.BadParameter("whole numbers with commas, such as 8,12,16") from exc


@command.command()
@_sized
@click.option("--ks", callback=_numbers, help="Values of K to run, such as 0,1,2. [default: --k]")
@click.option(
    "--budgets", callback=_numbers, help="Slot budgets to run, such as 8,12,16. [default: --slots]"
)
@click.option("--prompts", default=3, show_default=True, help="Prompts of a run.")
@click.option("--tokens", default=64, show_default=True, help="Tokens of a completion.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON.")
def bench(
    preset: str,
    device: str,
    slot_map: Path | None,
    ks: list[int] | None,
    budgets: list[int] | None,
    prompts: int,
    tokens: int,
    as_json: bool,
    **sizes: Any,
) -> None:
    """Run the engine without a server, for every K and slot budget, and compare.

    \b
    lanescope lab bench --ks 0,1,2 --budgets 4,8,16
    """
    from lanescope.captures.lab.bench import bench as run
    from lanescope.captures.lab.tokens import Tokenizer

    if slot_map and budgets:
        raise UsageError("--slot-map and --budgets both say how many slots", "give one of them")
    config = _config(preset, slot_map, sizes)
    encode = Tokenizer(config.vocab).encode
    asked = [encode(f"Prompt {n} of this bench, somewhat long") for n in range(max(1, prompts))]
    variants = [(k, s) for k in ks or [config.k] for s in budgets or [config.slots]]
    rows = run(config, device, variants, asked, tokens)
    if as_json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    columns = ["K", "slots", "tok/s", "ms/step", "tokens/step", "misses", "hit rate", "TTFT ms"]
    cells = [
        [
            str(r.k),
            str(r.slots),
            significant(r.tokens_per_s),
            significant(r.ms_per_step),
            significant(r.tokens_per_step, 3),
            significant(r.misses_per_layer_step, 3),
            significant(r.hit_rate, 3),
            significant(r.ttft_ms, 3),
        ]
        for r in rows
    ]
    table(
        f"{config.model}: misses are per layer-step", [Column(c) for c in columns], cells, console()
    )
    same = len({r.text for r in rows}) == 1
    print(f"text: {'the same in every row' if same else 'NOT the same in every row'}")
