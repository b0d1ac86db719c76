"""A ladder as a table, as Markdown and as a page. Retracted rungs stay, struck through."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from rich.console import Console

from lanescope.dashboards.terminal import Column, table
from lanescope.schemas.documents.ladder import LadderDocument, Measured, RungView


def _metric(found: Measured | None) -> str:
    if found is None:
        return "-"
    span = "" if found.min is None else f" ({found.min:g}-{found.max:g})"
    return f"{found.median:g}{span}{f' n={found.n}' if found.n else ''}"


def _names(doc: LadderDocument) -> list[str]:
    """All metrics, the primary one first."""
    names = dict.fromkeys(name for rung in doc.rungs for name in rung.metrics)
    return sorted(names, key=lambda n: n != doc.primary)


def _verdict(rung: RungView) -> str:
    status = "RETRACTED" if rung.retracted else rung.status
    return f"{status}, new incumbent" if rung.incumbent else status


def _date(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def _words(rung: RungView) -> list[str]:
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


def _closing(doc: LadderDocument) -> list[str]:
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
    names = _names(doc)
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
            *[_metric(r.metrics.get(n)) for n in names],
            _verdict(r),
        ]
        for r in doc.rungs
    ]
    table(f"Ladder {doc.ladder}", columns, rows, con)
    for rung in doc.rungs:
        con.print(f"{rung.number} {rung.name}: {'; '.join(_words(rung))}", soft_wrap=True)
    for line in _closing(doc):
        con.print(line, soft_wrap=True)


def _cell(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return " ".join(escaped.split())


def markdown(doc: LadderDocument) -> str:
    """The ladder as a Markdown document."""
    names = _names(doc)
    head = ["#", "rung", "change", *names, "verdict", "record"]
    lines = [f"# Ladder {_cell(doc.ladder)}", "", "| " + " | ".join(map(_cell, head)) + " |"]
    lines.append("|" + " --- |" * len(head))
    for r in doc.rungs:
        cells = [r.name, r.change, *[_metric(r.metrics.get(n)) for n in names]]
        cells = [f"~~{_cell(c)}~~" if r.retracted and c != "-" else _cell(c) for c in cells]
        verdict = f"**{_verdict(r)}**" if r.incumbent or r.retracted else _verdict(r)
        cells = [str(r.number), *cells, verdict, _cell("; ".join(_words(r)))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *[f"- {_cell(line)}" for line in _closing(doc)]]) + "\n"


STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8886; padding: .4rem .6rem; text-align: left; }
td { vertical-align: top; }
td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.retracted td.x { text-decoration: line-through; opacity: .6; }
tr.incumbent td { font-weight: 600; }
td.record { font-weight: 400 !important; font-size: 13px; }
"""


def html(doc: LadderDocument) -> str:
    """The ladder as one page that opens offline."""
    names = _names(doc)
    head = "".join(
        f"<th>{escape(n)}</th>" for n in ["#", "rung", "change", *names, "verdict", "record"]
    )
    rows = []
    for r in doc.rungs:
        kind = "retracted" if r.retracted else "incumbent" if r.incumbent else ""
        cells = f"<td class=n>{r.number}</td><td class=x>{escape(r.name)}</td>"
        cells += f"<td class=x>{escape(r.change)}</td>"
        for n in names:
            cells += f'<td class="n x">{escape(_metric(r.metrics.get(n)))}</td>'
        words = "<br>".join(escape(w) for w in _words(r))
        cells += f"<td>{escape(_verdict(r))}</td><td class=record>{words}</td>"
        rows.append(f"<tr class='{kind}'>{cells}</tr>")
    closing = "".join(f"<p>{escape(line)}</p>" for line in _closing(doc))
    title = f"Ladder {escape(doc.ladder)}"
    return (
        f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>{title}</title>"
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style>"
        f"<h1>{title}</h1><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f"{closing}</html>\n"
    )
