"""A running window as the dashboard shows it: failsafe, probe, sensors, states so far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dash import dcc, html

from lanescope.attribution.window import read_window
from lanescope.dashboards.figures import window as figures
from lanescope.dashboards.names import shown
from lanescope.schemas.documents.livewindow import LiveGpu, LiveWindow
from lanescope.schemas.errors import UnusableInput

_HEADING = {"fontSize": "1.1rem"}


def window(found: LiveWindow) -> list[Any]:
    """A window of this machine."""
    return [
        html.H2(f"{shown(found.run)}: {shown(found.state)}", style=_HEADING),
        _facts(_told(found)),
        *_states(found.output),
    ]


def catalogued(found: dict[str, Any]) -> list[Any]:
    """A window that the catalogue knows as not ended, for example of another machine."""
    return [
        html.H2(f"{found['run']}: {found['state']}", style=_HEADING),
        html.Ul(
            [
                html.Li(f"{r['state']}: {r['status']} {r['seconds']} s {r['error']}")
                for r in found["receipts"]
            ]
        ),
    ]


def sensors(gpus: list[LiveGpu]) -> list[Any]:
    """The GPUs now."""
    if not gpus:
        return [html.P("GPU: NVML gives none here.")]
    out: list[Any] = []
    for gpu in gpus:
        rows = []
        for column, (title, divisor) in figures.TRACKS.items():
            value = gpu.values.get(column)
            rows.append((title, "-" if value is None else f"{value / divisor:,.4g}"))
        out += [html.H3(f"{shown(gpu.name)} {shown(gpu.uuid)}", style=_HEADING), _facts(rows)]
    return out


def _told(found: LiveWindow) -> list[tuple[str, str]]:
    left = found.failsafe_fires_in_s
    fires = "not armed" if left is None else f"fires in {max(left, 0):,.0f} s"
    rows = [
        ("since", shown(found.since)),
        ("runner", "alive" if found.runner_alive else "NO RUNNER"),
        ("incumbent", "touched" if found.touched else "untouched"),
        ("failsafe", "FIRED" if found.failsafe_fired else fires),
    ]
    if found.restored:
        rows.append(("last restore", shown(found.restored)))
    probe = found.probe
    if probe is not None:
        rows += [
            (f"{shown(probe.phase)} probe", f"{probe.done} of {probe.asked} requests"),
            ("in flight", str(probe.in_flight)),
            ("tokens", f"{probe.tokens:,}"),
            ("rate now", f"{probe.tokens_per_s:,.1f} tokens/s over two seconds"),
        ]
    return rows


def _facts(rows: list[tuple[str, str]]) -> html.Table:
    return html.Table(
        [html.Tr([html.Th(k, style={"textAlign": "left"}), html.Td(v)]) for k, v in rows]
    )


def _states(output: str) -> list[Any]:
    """The states so far: the same figure as on the window's page."""
    if not output:
        return []
    try:
        record = read_window(Path(output))
    except UnusableInput:  # it has written nothing yet
        return []
    return [dcc.Graph(figure=figures.states(record).spec())] if record.spans else []
