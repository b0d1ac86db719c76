"""A ladder as a table and as Markdown. Retracted rungs stay, struck through."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console

from lanescope.dashboards.terminal import Column, sentence, table
from lanescope.schemas.documents.ladder import LadderDocument, Measured, RungView


def metric(found: Measured | None) -> str:
    """A metric as a reader sees it: median, smallest and largest, repetitions."""
    if found is None:
        return "-"
    span = "" if found.min is None else f" ({found.min:g}-{found.max:g})"
    return f"{found.median:g}{span}{f' n={found.n}' if found.n else ''}"


def names_of(doc: LadderDocument) -> list[str]:
    """All metrics, the primary one first."""
    names = dict.fromkeys(name for rung in doc.rungs for name in rung.metrics)
    return sorted(names, key=lambda n: n != doc.primary)


def verdict(rung: RungView) -> str:
    """Kept, reverted, closed, blocked or retracted; and whether it became the incumbent."""
    status = "RETRACTED" if rung.retracted else rung.status
    return f"{status}, new incumbent" if rung.incumbent else status


def _date(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def words(rung: RungView) -> list[str]:
    """All that was ever said of a rung, in order."""
    out = [rung.note] if rung.note else []
    if rung.difference:
        changed = ", ".join(f"{k}: {v[0]} -> {v[1]}" for k, v in rung.difference.items())
        out.append(f"differs in {changed}")
    out.append(f"{rung.standing}: {rung.reason}" if rung.reason else rung.standing)
    if rung.gate:
        out.append(f"gate {rung.gate}")
    out += [f"{m.kind.upper()} {_date(m.created_ns)}: {m.text}" for m in rung.marks]
    out += [f"see {link}" for link in rung.links]
    return out


def closing(doc: LadderDocument) -> list[str]:
    """What the whole ladder says: incumbents, total gain, the rule."""
    out = []
    if doc.incumbents:
        out.append("incumbents: " + " -> ".join(reign.name for reign in doc.incumbents))
    if doc.total_gain_pct is not None:
        first, last = doc.incumbents[0].name, doc.incumbents[-1].name
        out.append(f"{last} against {first}: {doc.total_gain_pct:+.1f} % in {doc.primary}")
    out.append(f"rule: {doc.rule}")
    return out


def show(doc: LadderDocument, con: Console) -> None:
    """The ladder in the terminal."""
    names = names_of(doc)
    columns = [
        Column("#"),
        Column("rung", numeric=False),
        Column("change", numeric=False),
        *[Column(n) for n in names],
        Column("verdict", numeric=False),
    ]
    rows = [
        [
            str(r.number),
            r.name,
            r.change,
            *[metric(r.metrics.get(n)) for n in names],
            verdict(r),
        ]
        for r in doc.rungs
    ]
    table(f"Ladder {doc.ladder}", columns, rows, con)
    for rung in doc.rungs:
        sentence(con, f"{rung.number} {rung.name}: {'; '.join(words(rung))}")
    for line in closing(doc):
        sentence(con, line)


def _cell(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return " ".join(escaped.split())


def markdown(doc: LadderDocument) -> str:
    """The ladder as a Markdown document."""
    names = names_of(doc)
    head = ["#", "rung", "change", *names, "verdict", "record"]
    lines = [f"# Ladder {_cell(doc.ladder)}", "", "| " + " | ".join(map(_cell, head)) + " |"]
    lines.append("|" + " --- |" * len(head))
    for r in doc.rungs:
        cells = [r.name, r.change, *[metric(r.metrics.get(n)) for n in names]]
        cells = [f"~~{_cell(c)}~~" if r.retracted and c != "-" else _cell(c) for c in cells]
        said = f"**{verdict(r)}**" if r.incumbent or r.retracted else verdict(r)
        cells = [str(r.number), *cells, said, _cell("; ".join(words(r)))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *[f"- {_cell(line)}" for line in closing(doc)]]) + "\n"
