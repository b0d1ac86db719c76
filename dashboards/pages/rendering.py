"""Templates and figures to one self-contained HTML text. Names from traces are always escaped."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2
import plotly.graph_objects as go
import plotly.io as pio
from markupsafe import Markup


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("lanescope.dashboards", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


@cache
def _plotly_js() -> str:
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text


def figure_html(figure: go.Figure, div_id: str) -> Markup:
    """A figure as a div with a fixed id; the library itself is embedded once by the page."""
    html: str = pio.to_html(
        figure,
        include_plotlyjs=False,
        full_html=False,
        div_id=div_id,
        config={"displaylogo": False, "responsive": True},
    )
    return Markup(html)


def render(template: str, with_plots: bool, **values: Any) -> str:
    """A page; `with_plots` embeds plotly."""
    script = Markup(f"<script>{_plotly_js()}</script>") if with_plots else Markup("")
    return _environment().get_template(template).render(plotly_script=script, **values)
