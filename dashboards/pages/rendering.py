"""Templates and figures to one self-contained HTML text. Names from traces are always escaped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from lanescope._version import __version__
from lanescope.dashboards.figures.plain import Figure
from lanescope.dashboards.names import shown

#: Lists of texts at least this long are written as a list of distinct texts and an index.
_LONG = 64


@dataclass(frozen=True)
class Plot:
    """A figure ready for a template: its div's id, its height, what it shows in words, its JSON."""

    id: str
    height: int
    label: str
    json: Markup


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lanescope.dashboards", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["shown"] = lambda value: shown(str(value))
    environment.globals["version"] = __version__
    return environment


@cache
def _asset(name: str) -> Markup:
    text = files("lanescope.dashboards.templates").joinpath(name).read_text(encoding="utf-8")
    return Markup(text)  # our own file, nobody else's words


@cache
def _plotly_js() -> str:
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text


def plot(figure: Figure, div_id: str, label: str) -> Plot:
    """A figure for a template; `label` says in words what it shows, for those who cannot see it."""
    spec = figure.spec()
    for trace in spec["data"]:
        texts = trace.get("text")
        if isinstance(texts, list) and len(texts) >= _LONG:
            distinct = {t: i for i, t in enumerate(dict.fromkeys(texts))}
            trace["text"] = {"of": list(distinct), "at": [distinct[t] for t in texts]}
    return Plot(div_id, int(figure.layout.get("height", 300)), label, script_json(spec))


def script_json(value: object) -> Markup:
    """JSON that may stand inside a script element: nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)


def figure_html(figure: Figure, div_id: str) -> Markup:
    """A figure with a fixed id, for pages without a label of their own."""
    macro = _environment().get_template("parts.html").module.plot  # type: ignore[attr-defined]
    return Markup(macro(plot(figure, div_id, div_id.replace("-", " "))))


def render(template: str, with_plots: bool, **values: Any) -> str:
    """A page; `with_plots` embeds plotly.

    The bytes depend on the values alone: no clock, no random id.
    """
    script = Markup(f"<script>{_plotly_js()}</script>") if with_plots else Markup("")
    return (
        _environment()
        .get_template(template)
        .render(plotly_script=script, css=_asset("page.css"), js=_asset("page.js"), **values)
    )
