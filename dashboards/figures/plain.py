"""A figure as plotly draws it: traces and a layout, as plain lists and dictionaries.

plotly's own Python objects check and copy every attribute; that took most of the time of a page.
The tests check every figure with them instead (tests/dashboards/conftest.py).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

_AXIS = re.compile(r"([xy])axis\d*")


class Figure:
    """Traces in order of drawing, and a layout. Attributes are plotly's, nested, without `a_b`."""

    def __init__(self, **layout: Any) -> None:
        self.data: list[dict[str, Any]] = []
        self.layout: dict[str, Any] = {}
        self.update_layout(**layout)

    def spec(self) -> dict[str, Any]:
        """What plotly.js, `go.Figure` and Dash take: fit for JSON, no value is NaN."""
        spec: dict[str, Any] = _plain({"data": self.data, "layout": self.layout})
        return spec

    def add_scatter(self, **trace: Any) -> None:
        """Points, lines or both."""
        self.data.append({"type": "scatter", **trace})

    def add_bar(self, **trace: Any) -> None:
        """Bars."""
        self.data.append({"type": "bar", **trace})

    def add_heatmap(self, **trace: Any) -> None:
        """A colour a cell."""
        self.data.append({"type": "heatmap", **trace})

    def add_waterfall(self, **trace: Any) -> None:
        """Bars that begin where the one before ends."""
        self.data.append({"type": "waterfall", **trace})

    def add_shape(self, **shape: Any) -> None:
        """A line or rectangle that belongs to no trace."""
        self.layout.setdefault("shapes", []).append(shape)

    def add_annotation(self, **annotation: Any) -> None:
        """A text that belongs to no trace."""
        self.layout.setdefault("annotations", []).append(annotation)

    def add_hline(self, y: float, **shape: Any) -> None:
        """A horizontal line over the whole width."""
        ends = {"x0": 0, "x1": 1, "xref": "x domain", "y0": y, "y1": y, "yref": "y"}
        self.add_shape(type="line", **ends, **shape)

    def add_vline(self, x: float, **shape: Any) -> None:
        """A vertical line over the whole height."""
        ends = {"x0": x, "x1": x, "xref": "x", "y0": 0, "y1": 1, "yref": "y domain"}
        self.add_shape(type="line", **ends, **shape)

    def add_hrect(self, y0: float, y1: float, **shape: Any) -> None:
        """A band over the whole width."""
        ends = {"x0": 0, "x1": 1, "xref": "x domain", "y0": y0, "y1": y1, "yref": "y"}
        self.add_shape(type="rect", **ends, **shape)

    def update_layout(self, **layout: Any) -> None:
        """Set parts of the layout; what is not named stays."""
        _merge(self.layout, layout)

    def update_xaxes(self, **axis: Any) -> None:
        """Set parts of every x axis."""
        self._update_axes("x", axis)

    def update_yaxes(self, **axis: Any) -> None:
        """Set parts of every y axis."""
        self._update_axes("y", axis)

    def _update_axes(self, letter: str, axis: dict[str, Any]) -> None:
        self.layout.setdefault(f"{letter}axis", {})
        for name, part in self.layout.items():
            if (found := _AXIS.fullmatch(name)) and found[1] == letter:
                _merge(part, axis)


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def _plain(value: Any) -> Any:
    """Lists and dictionaries of what JSON knows; what is no number becomes a gap."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, float):  # NumPy's too
        return float(value) if value - value == 0 else None
    if isinstance(value, int):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    return [_plain(part) for part in value]
