"""`nsys recipe lanescope_lane_diff`: every report held against the first."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from nsys_recipe.log import logger

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from lanescope_recipe.base import LanescopeRecipe
from lanescope_recipe.calling import call


class LanescopeLaneDiff(LanescopeRecipe):
    """Writes comparison.json, pairs, deltas, waterfall, counts and kernels."""

    notebook = "lane_diff.ipynb"

    def collect(self, lanes: list[dict[str, Any]]) -> None:
        """One row a (candidate, figure); times in ms a step, the waterfall in ns."""
        asked = self.get_parsed_arg("input")
        if len(lanes) < 2 or lanes[0]["report"] != os.path.abspath(asked[0]):
            raise self.error("a comparison needs two lanes: the incumbent, and a candidate")
        done = call(["compare", *(lane["folder"] for lane in lanes), "--json"])
        if done.returncode not in (0, 1):  # 1: compared, and a pair was refused
            said = done.stderr.strip().splitlines() or ["lanescope compare failed"]
            raise self.error(said[-1].replace("lanescope: ", "", 1))
        target = Path(self.add_output_file("comparison.json"))
        target.write_text(done.stdout, encoding="utf-8")
        rows: dict[str, list[dict[str, Any]]] = {}
        for pair in json.loads(done.stdout)["pairs"]:
            logger.info(pair["headline"])
            names = {"incumbent": pair["incumbent"], "candidate": pair["candidate"]}
            kept = ("same_capture", "paired", "headline")
            rows.setdefault("pairs", []).append(
                {**names, **{k: pair[k] for k in kept}, "refused": bool(pair["refused"])}
            )
            fall = pair["waterfall"]
            bars = (
                [
                    {"bar": names["incumbent"], "ns": fall["from_ns"], "total": True},
                    *(
                        {"bar": b["bucket"], "ns": b["delta_ns"], "total": False}
                        for b in fall["bars"]
                    ),
                    {"bar": names["candidate"], "ns": fall["to_ns"], "total": True},
                ]
                if fall
                else []
            )
            deltas = [{k: v for k, v in d.items() if k != "noise"} for d in pair["deltas"]]
            parts = {"counts": pair["counts"], "kernels": pair["kernels"]}
            for table, found in {"deltas": deltas, "waterfall": bars, **parts}.items():
                rows.setdefault(table, []).extend({**_own(names), **row} for row in found)
        for table, found in rows.items():
            if found:
                self.write(table, pd.DataFrame(found))


def _own(names: dict[str, str]) -> dict[str, str]:
    """The lanes' names under keys that no table uses for figures."""
    return {f"{side}_lane": name for side, name in names.items()}
