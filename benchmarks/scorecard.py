"""The scorecard of the misses: every trace with truth, against the engine's own counts.

`python -m benchmarks.scorecard` prints the table; `--write` puts it into docs/misses.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lanescope.attribution.attribute import attribute
from lanescope.schemas.documents.misses import ScoreRow

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "captures" / "samples", ROOT / "tests" / "traces")
PAGE = ROOT / "docs" / "misses.md"
BEGIN, END = "<!-- scorecard -->", "<!-- /scorecard -->"


def rows() -> list[tuple[str, ScoreRow | None, str]]:
    """(trace and process, score, what was withheld) of every bundled trace with a truth file."""
    out: list[tuple[str, ScoreRow | None, str]] = []
    for folder in FOLDERS:
        for trace in sorted(folder.glob("*.sqlite.xz")):
            name = trace.name.removesuffix(".sqlite.xz")
            with attribute(trace) as result:
                withheld = ", ".join(
                    a.what
                    for a in result.document.abstained
                    if a.what in ("misses", "exact_counts")
                )
                for truth in sorted(folder.glob(f"{name}.*truth.json")):
                    shown = truth.name.removesuffix(".truth.json")
                    held = result.document.misses is not None
                    out.append((shown, result.score(truth) if held else None, withheld))
    return out


def table() -> str:
    """The table in Markdown."""
    heads = (
        "trace, layer-steps, exact, in the 95 % interval, mean width, true mean, estimate, error"
    )
    names = [h.strip() for h in heads.split(",")]
    lines = ["| " + " | ".join(names) + " |", "| --- |" + " ---: |" * (len(names) - 1)]
    for name, row, withheld in rows():
        if row is None:
            lines.append(f"| `{name}` | withheld: {withheld} | | | | | | |")
            continue
        lines.append(
            f"| `{name}` | {row.layer_steps:,} | {row.exact:.2%} | {row.covered:.2%} |"
            f" {row.mean_width:.3f} | {row.mean_true:.4f} | {row.mean_estimate:.4f} |"
            f" {row.mean_error:+.2%} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table, or write it into the page."""
    text = table()
    if "--write" not in sys.argv[1:]:
        print(text)
        return
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
