"""What really happened, pass by pass: the engine's own record, for scoring and for replay.

In the folder: `engine.json` (configuration, device), `steps.jsonl` (one line a pass, written as it
happens, so a killed engine loses at most its last line), and, once the engine has closed,
`routing.parquet` and `misses.parquet` in the formats of docs/replay-semantics.md.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from lanescope.captures.lab.backend import Routing
from lanescope.captures.lab.config import LabConfig
from lanescope.schemas.errors import UnusableInput

SCHEMA = "lanescope.lab/1"


@dataclass(frozen=True)
class Pass:
    """One run of the model over some tokens. `rows` are its tokens; times are Unix nanoseconds."""

    kind: str  # prefill or verify
    began_ns: int
    requests: list[str]
    rows: int
    routing: Routing
    accepted: Sequence[int] = ()
    eager: bool = True
    noisy: bool = False


class Record(Protocol):
    """Who is told of every pass."""

    def mark(self, name: str) -> None:
        """A moment, such as the beginning of a profile."""

    def passed(self, step: int, done: Pass) -> None:
        """A pass, just over."""

    def close(self) -> None:
        """The engine has stopped."""


def run_folder(folder: Path) -> Path:
    """Where one start of an engine writes below `folder`: a restarted engine overwrites nothing."""
    return folder / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"


class TruthLog:
    """Writes the record of one engine into a folder of its own."""

    def __init__(
        self, folder: Path, config: LabConfig, facts: dict[str, Any], routing: bool = True
    ) -> None:
        self._folder, self._config, self._routing = folder, config, routing
        try:
            folder.mkdir(parents=True)
        except FileExistsError as exc:
            raise UnusableInput(f"{folder} exists", "a folder that does not exist yet") from exc
        except OSError as exc:
            raise UnusableInput(f"{folder}: {exc.strerror}", "a place to write to") from exc
        (folder / "engine.json").write_text(
            json.dumps(
                {
                    "schema": SCHEMA,
                    "config": config.public(),
                    "slots": list(config.slots_of),
                    "row_bytes": config.row_bytes,
                    "routed_per_layer_step": config.routed_rows,
                    **facts,
                },
                indent=1,
            ),
            encoding="utf-8",
        )
        self._lines = (folder / "steps.jsonl").open("a", encoding="utf-8", buffering=1)
        self._passes: list[tuple[int, Pass]] = []

    def mark(self, name: str) -> None:
        """Write down a moment, such as the beginning of a profile."""
        self._line({"mark": name, "at_ns": time.time_ns()})

    def passed(self, step: int, done: Pass) -> None:
        """Write down a pass."""
        self._line(
            {
                "step": step,
                "kind": done.kind,
                "start_ns": done.began_ns,
                "end_ns": time.time_ns(),
                "requests": done.requests,
                "rows": done.rows,
                "misses": done.routing.misses,
                "accepted": list(done.accepted),
                "eager": done.eager,
                "noisy": done.noisy,
            }
        )
        if self._routing:
            self._passes.append((step, done))

    def _line(self, row: dict[str, Any]) -> None:
        self._lines.write(json.dumps(row, separators=(",", ":")) + "\n")

    def close(self) -> None:
        """Write the Parquet files and close."""
        if self._lines.closed:
            return
        self._lines.close()
        if self._routing and self._passes:
            self._write("routing", self._routing_columns())
            self._write("misses", self._miss_columns())

    def _routing_columns(self) -> dict[str, Any]:
        c = self._config
        rows = [done.rows for _, done in self._passes]
        steps = np.repeat([step for step, _ in self._passes], rows).astype(np.int32)
        prefill = np.repeat([done.kind == "prefill" for _, done in self._passes], rows)
        experts = np.concatenate([done.routing.experts for _, done in self._passes], axis=1)
        tokens = len(steps)
        flat = experts.reshape(c.layers * tokens, c.topk)
        return {
            "step": np.tile(steps, c.layers),
            "token": np.tile(np.arange(tokens, dtype=np.int32), c.layers),
            "layer": np.repeat(np.arange(c.layers, dtype=np.int16), tokens),
            **{f"e{i}": flat[:, i] for i in range(c.topk)},
            "prefill": np.tile(prefill, c.layers),
        }

    def _miss_columns(self) -> dict[str, Any]:
        c = self._config
        cached = [(s, d.rows, d.routing.misses) for s, d in self._passes if d.routing.misses]
        return {
            "step": np.repeat([step for step, _, _ in cached], c.layers).astype(np.int32),
            "layer": np.tile(np.arange(c.layers, dtype=np.int16), len(cached)),
            "misses": np.array([m for _, _, row in cached for m in row], dtype=np.int32),
            "routed": np.repeat([r * c.topk for _, r, _ in cached], c.layers).astype(np.int32),
        }

    def _write(self, name: str, columns: dict[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        c = self._config
        facts = {
            "schema": f"lanescope.{name}/1",
            "experts": c.experts,
            "top_k": c.topk,
            "bypass_over": c.bypass_over,
        }
        table = pa.table(columns).replace_schema_metadata({"lanescope": json.dumps(facts)})
        made = self._folder / f".{name}.parquet"
        pq.write_table(table, made, compression="zstd")
        made.rename(self._folder / f"{name}.parquet")
