"""Many attributions in the terminal: one row a trace, and what went wrong by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import Console

from lanescope.dashboards.terminal import Column, sentence, table


class Outcome(Protocol):
    """What became of a trace, see `attribution.many.work.Outcome`."""

    @property
    def path(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def steps(self) -> int | None: ...
    @property
    def wall_ms(self) -> float | None: ...
    @property
    def withheld(self) -> tuple[str, ...]: ...
    @property
    def error(self) -> str: ...


def show(outcomes: Sequence[Outcome], dataset: str, con: Console) -> None:
    """Print the table, the failures in words, and where the results lie."""
    good = [o for o in outcomes if o.state != "failed"]
    rows = [
        [
            o.path.replace("\\", "/").rsplit("/", 1)[-1],
            "-" if o.steps is None else f"{o.steps:,}",
            "-" if o.wall_ms is None else f"{o.wall_ms:.3f}",
            ", ".join(o.withheld) or "-",
        ]
        for o in good
    ]
    columns = [
        Column("trace", numeric=False),
        Column("measured steps"),
        Column("wall ms/step"),
        Column("withheld", numeric=False, drop_order=1),
    ]
    if rows:
        table("Attributed", columns, rows, con)
    failed = [o for o in outcomes if o.state == "failed"]
    for outcome in failed:
        sentence(con, f"failed: {outcome.error}", style="red")
    kept = sum(o.state == "kept" for o in outcomes)
    words = f"{len(good)} of {len(outcomes)} traces attributed"
    words += f" ({kept} already there)" if kept else ""
    words += f", {len(failed)} failed" if failed else ""
    sentence(con, f'{words}; all results: lanescope query --dataset {dataset} "FROM buckets"')
