"""What lanescope reads of an Nsight Systems export, as data (`tables.toml`)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

#: eventType of NVTX rows. Fixed numbers of the exporter since its first schema; they are looked up
#: in the export's own ENUM_NSYS_EVENT_TYPE where it has one.
PUSH_POP, START_END = "NvtxPushPopRange", "NvtxStartEndRange"
EVENT_TYPE_DEFAULTS = {PUSH_POP: 59, START_END: 60}


@dataclass(frozen=True)
class Column:
    """One staged column: the names the exporter has used for it, and what it must be."""

    name: str
    sources: tuple[str, ...]
    required: bool = False
    essential: bool = False
    text: bool = False


@dataclass(frozen=True)
class TableSpec:
    """One staged table and its columns."""

    name: str
    sources: tuple[str, ...]
    columns: tuple[Column, ...]
    flag: str = ""


@cache
def _raw() -> dict[str, dict[str, object]]:
    text = files(__package__).joinpath("tables.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def table_specs() -> dict[str, TableSpec]:
    """Every staged table by name."""
    specs: dict[str, TableSpec] = {}
    for name, raw in _raw().items():
        if name == "schema":
            continue
        columns: dict[str, dict[str, object]] = raw.get("columns", {})  # type: ignore[assignment]
        specs[name] = TableSpec(
            name=name,
            sources=tuple(raw["source"]),  # type: ignore[arg-type]
            flag=str(raw.get("flag", "")),
            columns=tuple(
                Column(
                    name=col,
                    sources=tuple(c.get("from", [col])),  # type: ignore[arg-type]
                    required=bool(c.get("required")),
                    essential=bool(c.get("essential")),
                    text=bool(c.get("text")),
                )
                for col, c in columns.items()
            ),
        )
    return specs


def known_schema() -> tuple[int, int]:
    """The newest exporter schema (major, minor) that the tables were checked against."""
    schema = _raw()["schema"]
    return int(schema["known_major"]), int(schema["known_minor"])  # type: ignore[call-overload]
