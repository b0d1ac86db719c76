"""`nsys recipe lanescope_row_copies`: missed rows, hit rate, host link."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from nsys_recipe.lib import exceptions
from nsys_recipe.log import logger

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from lanescope_recipe.base import LanescopeRecipe


class LanescopeRowCopies(LanescopeRecipe):
    """Writes layer_steps, layers, levels, link and misses."""

    notebook = "row_copies.ipynb"

    def collect(self, lanes: list[dict[str, Any]]) -> None:
        """layer_steps: one row a layer-step; layers: a layer; levels: a count; misses: a report."""
        rows: dict[str, list[dict[str, Any]]] = {
            "misses": [],
            "layers": [],
            "levels": [],
            "link": [],
        }
        for lane in lanes:
            file, name = Path(lane["folder"]) / "attribution.json", {"file": lane["name"]}
            document = json.loads(file.read_text(encoding="utf-8"))
            for gap in document["abstained"]:
                if gap["what"] in ("misses", "exact_counts", "hit_rate", "link", "model"):
                    logger.info(f"{lane['name']}: {gap['what']} withheld: {gap['why']}")
            misses = document["misses"]
            if misses is not None:
                rows["misses"].append({**name, **_flat(misses)})
                rows["layers"] += [{**name, **_flat(row)} for row in misses["per_layer"]]
                rows["levels"] += [{**name, **_flat(row)} for row in misses["levels"]]
            if document["link"] is not None:
                rows["link"].append({**name, **_flat(document["link"])})
        frame = self.table(lanes, "layer_steps")
        if frame is None:
            logger.info("no report has row copies")
            raise exceptions.NoDataError
        self.write("layer_steps", frame)
        for table, found in rows.items():
            if found:
                self.write(table, pd.DataFrame(found))


def _flat(part: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The plain values of a document's part; those of an interval as NAME.low and so on."""
    out: dict[str, Any] = {}
    for key, value in part.items():
        if isinstance(value, dict):
            out.update(_flat(value, f"{prefix}{key}."))
        elif not isinstance(value, list):
            out[f"{prefix}{key}"] = value
    return out
