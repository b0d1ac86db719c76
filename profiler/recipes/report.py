"""What a recipe is given: a report, and the folder of Parquet tables that may lie beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lanescope.attribution.attribute import Attribution, attribute
from lanescope.schemas.errors import UnusableInput
from lanescope.schemas.nsight import table_specs

#: A folder that holds these was exported as a whole. Other recipes export only the tables that
#: they read, into the same folder: attributing such a part would quietly lose what is not there.
_WHOLE = (
    "meta", "strings", "kernels", "api", "ranges", "memcpy", "memset", "syncs", "processes", "gpus",
)  # fmt: skip


def tables_beside(report: Path) -> Path:
    """The folder in which Nsight Systems keeps a report's Parquet tables."""
    return report.with_name(report.with_suffix("").name + "_pqtdir")


def missing_tables(folder: Path) -> list[str]:
    """Tables that a whole export has and this folder has not, by their names in Nsight Systems."""
    have = {f.stem for f in folder.glob("*.parquet")}
    wanted = [table_specs()[name].sources for name in _WHOLE]
    return [sources[0] for sources in wanted if not have & set(sources)]


def attribute_report(
    report: Path, *, profile: str | None, window: str, warn: Callable[[str], None]
) -> Attribution:
    """Attribute a report: from the whole Parquet folder beside it, or else from the report itself.

    A folder that is a part or older than the report is used only where the report gives nothing on
    this machine (a newer nsys wrote it, say), and `warn` is told. Raises what `attribute` raises.
    """
    folder = tables_beside(report)
    lacks = missing_tables(folder)
    usable = folder.is_dir() and table_specs()["kernels"].sources[0] not in lacks
    if usable and not lacks and not _older(folder, report):
        return attribute(folder, profile=profile, window=window)
    try:
        return attribute(report, profile=profile, window=window)
    except UnusableInput:
        if not usable:
            raise
        fault = f"has no {', '.join(lacks)}" if lacks else "is older than the report"
        warn(f"{report}: read from {folder.name}, which {fault}: the report gives no kernels here")
        return attribute(folder, profile=profile, window=window)


def _older(folder: Path, report: Path) -> bool:
    tables = [f.stat().st_mtime_ns for f in folder.glob("*.parquet")]
    return max(tables) < report.stat().st_mtime_ns
