"""`lanescope gate`: bars frozen before the numbers, a verdict, an exit code."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import rich_click as click

from lanescope.attribution.lanes.bars import Evidence
from lanescope.attribution.lanes.gates import judge
from lanescope.attribution.lanes.probes import SpeedLane, is_speed_lane, read_lane
from lanescope.attribution.lanes.rules import age, freeze_record, read_rules
from lanescope.attribution.lanes.speed import LONG_PROMPT, compare_speed
from lanescope.attribution.lanes.tasks import read_outcomes
from lanescope.dashboards.terminal import console
from lanescope.dashboards.verdicts import gate_junit, gate_markdown, print_gate
from lanescope.profiler.cli.writing import write_text
from lanescope.schemas.catalogue import GateRow, open_catalogue
from lanescope.schemas.documents.gate import GateDocument
from lanescope.schemas.errors import UsageError


@click.command("gate")
@click.argument("rules", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("base", required=False)
@click.argument("candidate", required=False)
@click.option("--control", "controls", multiple=True, help="A further control beside BASE.")
@click.option(
    "--relaunch",
    multiple=True,
    metavar="base=FILE|candidate=FILE",
    help="The same lane, launched again; needed for an interval that covers relaunches.",
)
@click.option("--launch-floor", type=float, help="What a relaunch is known to move, in per cent.")
@click.option("--tasks", type=click.Path(path_type=Path), help="Task outcomes of both lanes.")
@click.option(
    "--map", "mapping", multiple=True, metavar="NAME=COLUMN[/DIVISOR]", help="CSV columns."
)
@click.option("--memory", multiple=True, metavar="LANE=MIB", help="Device memory a lane used.")
@click.option(
    "--warm", type=int, default=0, help="Repetitions to drop where rows do not mark them."
)
@click.option("--long-prompt", type=int, default=LONG_PROMPT, show_default=True, help="In tokens.")
@click.option("--profile", help="Rules to attribute traces by.")
@click.option(
    "--post-hoc", is_flag=True, help="The rules are younger than the data, and it is said."
)
@click.option(
    "--freeze", is_flag=True, help="Only write RULES.frozen: hash and time, before measuring."
)
@click.option("--junit", type=click.Path(path_type=Path), help="Write JUnit XML.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Write a Markdown summary.")
@click.option("--html", type=click.Path(path_type=Path), help="Write the page (one file).")
@click.option("--out", type=click.Path(path_type=Path), help="Write the document (JSON).")
@click.option("--force", is_flag=True, help="Overwrite the files named.")
@click.option("--record", is_flag=True, help="Keep the verdict in the catalogue.")
@click.option("--catalogue", help="The catalogue's URL or file.")
@click.option("--json", "as_json", is_flag=True, help="Print the document instead of tables.")
@click.option("--plain", is_flag=True, help="No colour.")
def command(
    rules: Path,
    base: str | None,
    candidate: str | None,
    controls: tuple[str, ...],
    relaunch: tuple[str, ...],
    launch_floor: float | None,
    tasks: Path | None,
    mapping: tuple[str, ...],
    memory: tuple[str, ...],
    warm: int,
    long_prompt: int,
    profile: str | None,
    post_hoc: bool,
    freeze: bool,
    junit: Path | None,
    markdown: Path | None,
    html: Path | None,
    out: Path | None,
    force: bool,
    record: bool,
    catalogue: str | None,
    as_json: bool,
    plain: bool,
) -> int:
    """Judge a candidate by a rules file that is older than the data.

    BASE and CANDIDATE are probe rows (JSON lines, CSV with --map, repetition or probe files;
    PATH+PATH joins, PATH@LANE picks), or attributions (traces, attribution folders) for bars on
    buckets. One lane alone serves bars of that lane.

    Exit codes: 0 pass, 10 fail, 11 inconclusive, 12 invalid; 2 usage, 3 unusable input.
    """
    parsed, sha256 = read_rules(rules)
    if freeze:
        _freeze(rules, sha256, force)
        return 0
    if base is not None and candidate is None:
        base, candidate = None, base
    if candidate is None and tasks is None:
        raise UsageError("nothing to judge", "name BASE and CANDIDATE, or --tasks")
    evidence = Evidence(base=base or "-", candidate=candidate or "-")
    started: list[float] = []
    rows = [_rows_of(lane) for lane in (base, candidate)]
    if candidate is not None and rows[1] is not None:
        lanes = _lanes(rows[0], rows[1], controls, relaunch, _columns(mapping), warm)
        _set_memory(lanes, memory)
        evidence.speed = compare_speed(
            [*lanes["base"][:1], *lanes["control"]],
            lanes["candidate"][0],
            base_launches=lanes["base"][1:],
            candidate_launches=lanes["candidate"][1:],
            launch_floor_pct=launch_floor,
            long_prompt_tokens=long_prompt,
        )
        everyone = [lane for group in lanes.values() for lane in group]
        evidence.files = [f for lane in everyone for f in lane.files]
        evidence.same = any(lane.rows == lanes["candidate"][0].rows for lane in lanes["base"])
        started = [r.start_s for lane in everyone for r in lane.rows if r.start_s is not None]
    if candidate is not None and _has_figures(candidate):
        from lanescope.attribution.lanes.figures import figures_of

        before = base if base is not None and _has_figures(base) else None
        figures_of(evidence, before, candidate, profile)
    if tasks is not None:
        evidence.tasks, source = read_outcomes(tasks)
        evidence.files = [*evidence.files, source]
    # a clock that counts from its own start says nothing about the date
    epoch = int(min(started) * 1e9) if started and min(started) > 1e9 else None
    document = judge(
        parsed, sha256, str(rules), age(rules, sha256, evidence.files, epoch), evidence, post_hoc
    )
    _write(document, junit, markdown, out, force)
    if html is not None:
        from lanescope.dashboards.pages.speed_page import gate_page

        write_text(html, gate_page(document), force)
    if record:
        _record(document, catalogue)
    if as_json:
        sys.stdout.write(document.model_dump_json(by_alias=True, indent=1) + "\n")
    else:
        print_gate(document, console(plain=plain))
    return document.exit_code


def _rows_of(lane: str | None) -> str | None:
    """The probe rows of a lane: itself, or those of a window's unprofiled probe."""
    if lane is None:
        return None
    inside = Path(lane) / "probe-control.requests.jsonl"
    if inside.is_file():
        return str(inside)
    return lane if is_speed_lane(lane) else None


def _has_figures(lane: str) -> bool:
    """Whether a lane is, or holds, an attribution. A window may hold none: it saw no kernels."""
    path = Path(lane)
    if (path / "probe-control.requests.jsonl").is_file():
        return (path / "attribution" / "attribution.json").is_file()
    return not is_speed_lane(lane)


def _freeze(rules: Path, sha256: str, force: bool) -> None:
    """Write the freeze record. What is frozen stays frozen unless it is forced."""
    text = json.dumps({"sha256": sha256, "frozen_ns": time.time_ns()}) + "\n"
    write_text(freeze_record(rules), text, force)
    click.echo(f"{rules} frozen: {sha256}")


def _columns(mapping: tuple[str, ...]) -> dict[str, str]:
    """--map tokens=out_tokens,seconds=ms/1000: our names to columns."""
    from lanescope.attribution.lanes.rows import NAMES

    aliases = {alias: ours for ours, names in NAMES.items() for alias in (ours, *names)}
    out = {}
    for item in (part for text in mapping for part in text.split(",")):
        name, equals, column = item.partition("=")
        if not equals or name not in aliases:
            raise UsageError(f"--map {item}: not NAME=COLUMN", f"NAME is one of {', '.join(NAMES)}")
        out[aliases[name]] = column
    return out


def _lanes(
    base: str | None,
    candidate: str,
    controls: tuple[str, ...],
    relaunch: tuple[str, ...],
    columns: dict[str, str],
    warm: int,
) -> dict[str, list[SpeedLane]]:
    """role -> its launches, the first one first."""
    roles: dict[str, list[str]] = {
        "base": [base] if base is not None else [],
        "control": [*controls],
        "candidate": [candidate],
    }
    for item in relaunch:
        role, equals, path = item.partition("=")
        if not equals or role not in {"base", "candidate"}:
            raise UsageError(f"--relaunch {item}: whose?", "base=FILE or candidate=FILE")
        roles[role].append(path)
    return {
        role: [read_lane(text, columns, warm=warm) for text in texts]
        for role, texts in roles.items()
    }


def _set_memory(lanes: dict[str, list[SpeedLane]], memory: tuple[str, ...]) -> None:
    for item in memory:
        name, equals, value = item.rpartition("=")
        found = [
            lane
            for role, group in lanes.items()
            for lane in group
            if name in {lane.name, role} and equals
        ]
        try:
            used = float(value)
        except ValueError:
            used = -1.0
        if not found or used <= 0:
            known = ", ".join(lane.name for group in lanes.values() for lane in group)
            raise UsageError(f"--memory {item}: not LANE=MIB", f"lanes: {known}")
        for lane in found:
            lane.memory_mib = used


def _write(
    document: GateDocument,
    junit: Path | None,
    markdown: Path | None,
    out: Path | None,
    force: bool,
) -> None:
    if junit is not None:
        write_text(junit, gate_junit(document), force)
    if markdown is not None:
        write_text(markdown, gate_markdown(document), force)
    if out is not None:
        write_text(out, document.model_dump_json(by_alias=True, indent=1) + "\n", force)


def _record(document: GateDocument, url: str | None) -> None:
    store = open_catalogue(url)
    with store.write() as session:
        session.add(
            GateRow(
                rules_sha256=document.rules_sha256,
                verdict=document.verdict,
                post_hoc=document.post_hoc,
                facts=document.model_dump(mode="json", by_alias=True),
            )
        )
    store.close()
