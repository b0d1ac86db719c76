"""The recipe base class: options, one attribution a report, files, analysis file.

Written against the frameworks of Nsight Systems 2023.4 and 2025.3; where they differ it asks which
it has, never for a version.
"""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
from nsys_recipe import log, nsys_constants
from nsys_recipe.lib import exceptions, nsys_path, recipe
from nsys_recipe.lib.args import Option
from nsys_recipe.log import logger

from lanescope_recipe.calling import attribute_report

#: ns; a century
_FOR_EVER = 10**9 * 86_400 * 36_525


class LanescopeRecipe(recipe.Recipe):
    """Attributes every report into NAME.lanescope of the output folder, then collects."""

    notebook = ""

    def collect(self, lanes: list[dict[str, Any]]) -> None:
        """Write the recipe's tables. A lane: name, report, folder (of its attribution)."""
        raise NotImplementedError

    def run(self, context: Any) -> None:
        """What the framework calls."""
        super().run(context)
        lanes = self.mapper_func(context, self._tasks())
        self.reducer_func(lanes)
        self.create_notebook(self.notebook)
        self._analysis_dict.update(
            {
                "EndTime": str(datetime.now()),
                "InputFiles": [lane["report"] for lane in lanes],
                "Outputs": self._output_files,
            }
        )
        self.create_analysis_file()

    @log.time("Mapper")
    def mapper_func(self, context: Any, tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """One call of lanescope a report, in whatever mode."""
        return list(context.wait(context.map(attribute_report, tasks)))

    @log.time("Reducer")
    def reducer_func(self, lanes: list[dict[str, Any]]) -> None:
        """Say what failed, collect the rest."""
        for lane in lanes:
            for text in lane["warnings"]:
                logger.warning(text)
            if lane["error"]:
                logger.error(lane["error"])
        good = [lane for lane in lanes if not lane["error"]]
        if not good:
            raise self.error("no report could be attributed")
        columns = ["name", "report", "error"]
        self.write("files", pd.DataFrame(lanes)[columns].rename(columns={"name": "file"}))
        self.collect(good)

    def table(self, lanes: list[dict[str, Any]], name: str) -> pd.DataFrame | None:
        """One table of all lanes, the lane's name first; None where no lane has it."""
        found = []
        for lane in lanes:
            file = Path(lane["folder"]) / f"{name}.parquet"
            if file.exists():
                frame = pd.read_parquet(file)
                frame.insert(0, "file", lane["name"])
                found.append(frame)
        return pd.concat(found, ignore_index=True) if found else None

    def write(self, name: str, frame: pd.DataFrame) -> None:
        """NAME.parquet, and NAME.csv where --csv asks for it."""
        frame.to_parquet(self.add_output_file(f"{name}.parquet"), index=False)
        if self.get_parsed_arg("csv", False):
            frame.to_csv(self.add_output_file(f"{name}.csv"), index=False)

    def error(self, text: str) -> Exception:
        """An error that the framework shows as one line."""
        return getattr(exceptions, "ValueError", exceptions.RecipeException)(text)

    def _tasks(self) -> list[dict[str, Any]]:
        window, times = self.get_parsed_arg("window"), self._times()
        if window and times:
            raise self.error("--window and a filter by time exclude each other")
        reports = [os.path.abspath(r) for r in self.get_parsed_arg("input")]
        output = os.path.dirname(os.path.abspath(self.add_output_file("files.parquet")))
        stems = [Path(r).stem for r in reports]
        names = [
            stem if stems.count(stem) == 1 else f"{stem}-{stems[: i + 1].count(stem)}"
            for i, stem in enumerate(stems)
        ]
        given = {"--profile": self.get_parsed_arg("profile"), "--window": window or times}
        options = [text for flag, value in given.items() if value for text in (flag, value)]
        return [
            {
                "name": name,
                "report": report,
                "folder": os.path.join(output, f"{name}.lanescope"),
                "options": options,
                "nsys": _nsys(),
            }
            for name, report in zip(names, reports)
        ]

    def _times(self) -> str:
        """The framework's filter by time as a window of whole steps; '' if there is none."""
        given = self.get_parsed_arg("filter_time")
        low, high = self.get_parsed_arg("start"), self.get_parsed_arg("end")
        if given is not None:
            low, high = given.split("/") if isinstance(given, str) else given
        if low in (None, "") and high in (None, ""):
            return ""
        return f"clock:{low or 0}ns..{_FOR_EVER if high in (None, '') else high}ns"

    @classmethod
    def get_argument_parser(cls) -> Any:
        """The framework's options, and lanescope's."""
        parser = super().get_argument_parser()
        # newer frameworks add --output and --force-overwrite themselves, some of them afterwards
        for group in (parser, *parser._action_groups):
            group.conflict_handler = "resolve"
        parser.add_recipe_argument(Option.INPUT, required=True)
        for name in ("OUTPUT", "FORCE_OVERWRITE", "CSV"):
            _add(parser, name)
        if hasattr(Option, "FILTER_TIME"):
            _add(parser, "FILTER_TIME")
        else:
            _add(parser, "START")
            _add(parser, "END")
        parser.add_recipe_argument(
            "--window",
            metavar="A..B",
            help="Steps to measure: range names, times after the first kernel (1.2s..3.4s),"
            " or step indices (10..59). All but warm-up by default",
        )
        parser.add_recipe_argument(
            "--profile", metavar="NAME|FILE", help="Rules of lanescope that sort kernels"
        )
        return parser


def _add(parser: Any, name: str) -> None:
    """Add one of the framework's options where the framework has it and has not added it."""
    option = getattr(Option, name, None)
    flag = "--" + name.lower().replace("_", "-")
    if option is not None and flag not in parser._option_string_actions:
        parser.add_recipe_argument(option)


def _nsys() -> str:
    """The nsys whose recipe this is, to export reports with; '' leaves it to lanescope."""
    try:
        return str(nsys_path.find_installed_file(nsys_constants.NSYS_EXE_NAME))
    except (exceptions.RecipeException, AttributeError):
        return shutil.which("nsys") or ""
