"""What a lab engine is built from: sizes, presets, and the figures that follow from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from lanescope.schemas.errors import UnusableInput, UsageError

#: one scale per this many weights of an expert row, along the row's input dimension
SCALE_GROUP = 16
#: bytes of a weight (int8) and of a scale (float16) in host memory
WEIGHT_BYTES = 1
SCALE_BYTES = 2
#: the tensors of an expert row, in the order in which `masked_row_copy` moves them
TENSORS = ("w13", "w2", "w13_scale", "w2_scale")


@dataclass(frozen=True)
class LabConfig:
    """One lab engine. Every field is a flag of `lanescope lab serve` (`_` written `-`)."""

    preset: str = "tiny"
    model: str = "lab-tiny"
    layers: int = 6
    experts: int = 16
    topk: int = 2
    slots: int = 8  # per layer, unless `slot_map` says otherwise
    k: int = 1  # drafted tokens a step; a step verifies k + 1
    hidden: int = 128
    inter: int = 64
    heads: int = 4
    vocab: int = 2048
    context: int = 1024  # tokens of a stream: prompt and completion together
    streams: int = 4  # requests served at once
    bypass_over: int = 16  # a prefill pass of more tokens reads host memory and skips the cache
    chunk: int = 256  # tokens of one prefill pass
    graphs: int = 2  # CUDA graphs a verification step is cut into; 0: eager
    progs: int = 32  # programs a row copy uses per routed row
    noise_mib: int = 0  # other host-to-device traffic beside `noise_share` of the steps
    noise_share: float = 0.3
    skew: float = 0.5  # spread of the router's fixed preference among experts
    locality: float = 0.5  # share of a token's embedding that its topic decides, 0 to 1
    agreement: float = 1.0  # how much of the next token both draft and target can know
    seed: int = 0
    nvtx: str = "plain"  # plain, fields (unique range names that carry their values) or none
    slot_map: tuple[int, ...] = ()  # slots of each layer; empty: `slots` everywhere

    @property
    def slots_of(self) -> tuple[int, ...]:
        """Slots of each layer, never more than there are experts."""
        per_layer = self.slot_map or (self.slots,) * self.layers
        return tuple(min(n, self.experts) for n in per_layer)

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads

    @property
    def routed_rows(self) -> int:
        """Routed rows of a layer-step with one stream: (K + 1) x top-k."""
        return (self.k + 1) * self.topk

    @property
    def row_bytes(self) -> dict[str, int]:
        """Bytes of one expert row, by tensor: what one miss moves over the host link."""
        w13, w2 = 2 * self.inter * self.hidden, self.hidden * self.inter
        return {
            "w13": w13 * WEIGHT_BYTES,
            "w2": w2 * WEIGHT_BYTES,
            "w13_scale": w13 // SCALE_GROUP * SCALE_BYTES,
            "w2_scale": w2 // SCALE_GROUP * SCALE_BYTES,
        }

    @property
    def host_bytes(self) -> int:
        """Bytes of all routed experts in host memory."""
        return sum(self.row_bytes.values()) * self.experts * self.layers

    def public(self) -> dict[str, Any]:
        """The fields as a plain dictionary, for files and logs."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


_BASE = LabConfig()
_K1 = replace(
    _BASE,
    preset="k1",
    model="lab-k1",
    layers=24,
    experts=64,
    topk=4,
    slots=32,
    hidden=1024,
    inter=1024,
    heads=8,
    vocab=8192,
    context=2048,
    streams=1,
    agreement=0.85,
    locality=0.3,
)
#: Each preset differs from `k1` in what its name says. `tiny` also fits a machine without a GPU.
PRESETS: dict[str, LabConfig] = {
    "tiny": _BASE,
    "k1": _K1,
    "k2": replace(_K1, preset="k2", model="lab-k2", k=2),
    "wide": replace(
        _K1,
        preset="wide",
        model="lab-wide",
        layers=12,
        experts=64,
        topk=8,
        slots=40,
        hidden=2048,
        inter=2048,
        heads=16,
        streams=8,
    ),
    "report75": replace(
        _K1,
        preset="report75",
        model="lab-report75",
        layers=75,
        experts=128,
        topk=8,
        slots=56,
        hidden=512,
        inter=512,
        heads=4,
    ),
}

_AT_LEAST = {
    "layers": 1,
    "experts": 2,
    "topk": 1,
    "slots": 1,
    "k": 0,
    "hidden": 32,
    "inter": 32,
    "heads": 1,
    "vocab": 512,
    "context": 16,
    "streams": 1,
    "bypass_over": 0,
    "chunk": 1,
    "graphs": 0,
    "progs": 1,
    "noise_mib": 0,
}


def configure(preset: str = "tiny", **changes: Any) -> LabConfig:
    """The preset with `changes` (None means unchanged), checked.

    Raises UsageError with the field's name where a value makes no engine.
    """
    if preset not in PRESETS:
        raise UsageError(f"no preset {preset!r}", f"one of {', '.join(PRESETS)}")
    given = {name: value for name, value in changes.items() if value is not None}
    config = replace(PRESETS[preset], **given)
    _check(config)
    return config


def _check(config: LabConfig) -> None:
    for name, low in _AT_LEAST.items():
        if getattr(config, name) < low:
            raise UsageError(f"{name} is {getattr(config, name)}", f"at least {low}")
    faults = {
        "topk": (config.topk > config.experts, f"at most experts, {config.experts}"),
        "streams": (config.streams > 8, "at most 8"),
        "k": (config.k > 7, "at most 7"),
        "hidden": (
            config.hidden % 32 != 0 or config.hidden % config.heads != 0,
            "a multiple of 32 and of heads",
        ),
        "inter": (config.inter % 32 != 0, "a multiple of 32"),
        "locality": (not 0 <= config.locality <= 0.99, "from 0 to 0.99"),
        "noise_share": (not 0 <= config.noise_share <= 1, "from 0 to 1"),
        "nvtx": (config.nvtx not in ("plain", "fields", "none"), "plain, fields or none"),
    }
    for name, (bad, remedy) in faults.items():
        if bad:
            raise UsageError(f"{name} is {getattr(config, name)}", remedy)
    if config.slot_map and len(config.slot_map) != config.layers:
        raise UsageError(
            f"the slot map has {len(config.slot_map)} layers, the engine {config.layers}",
            "a map made for these layers, or --layers",
        )


def read_slot_map(path: Path) -> tuple[int, ...]:
    """Slots of each layer from JSON: `{"per_layer": {"0": 80, ...}}`, or that inner object alone.

    Layers count in the order of their numbers. Raises UnusableInput naming the file and the entry.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise UnusableInput(f"{path}: {exc}", "a JSON file with slots per layer") from exc
    table = data.get("per_layer", data) if isinstance(data, Mapping) else None
    if not isinstance(table, Mapping) or not table:
        raise UnusableInput(f"{path}: no per-layer slots in it", '{"per_layer": {"0": 32, ...}}')
    slots: dict[int, int] = {}
    for layer, count in table.items():
        if not str(layer).isdecimal() or not isinstance(count, int) or count < 1:
            raise UnusableInput(
                f"{path}: layer {layer!r} has {count!r} slots", "whole numbers, 1 or more"
            )
        slots[int(layer)] = count
    return tuple(slots[layer] for layer in sorted(slots))
