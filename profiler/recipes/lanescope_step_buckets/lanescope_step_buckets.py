"""`nsys recipe lanescope_step_buckets`: the cost buckets of every verification step."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from lanescope_recipe.base import LanescopeRecipe


class LanescopeStepBuckets(LanescopeRecipe):
    """Writes steps, step_buckets and buckets."""

    notebook = "step_buckets.ipynb"

    def collect(self, lanes: list[dict[str, Any]]) -> None:
        """steps: one row a (step, device); step_buckets: and bucket; buckets: the means."""
        for name in ("steps", "step_buckets"):
            frame = self.table(lanes, name)
            if frame is not None:
                self.write(name, frame)
        rows = []
        for lane in lanes:
            text = (Path(lane["folder"]) / "attribution.json").read_text(encoding="utf-8")
            rows += [{"file": lane["name"], **bucket} for bucket in json.loads(text)["buckets"]]
        self.write("buckets", pd.DataFrame(rows))
