"""Figures of a captured window: record in, figure out. Time is seconds from the first receipt."""

from __future__ import annotations

from datetime import UTC, datetime

from lanescope.dashboards.figures import look
from lanescope.dashboards.figures.plain import Figure
from lanescope.dashboards.names import for_plot
from lanescope.schemas.documents.windowrecord import GpuSeries, ProbeRecord, Span, WindowRecord

PARTS = {"experiment": "#3d7cc9", "restore": "#3f9f5f", "offline": "#97a1ae", "whole": "#e8833a"}
PHASES = {"control": "#3d7cc9", "profiled": "#e8833a"}
#: NVML columns that are drawn: heading, divisor
TRACKS = {
    "sm_clock_mhz": ("SM clock, MHz", 1),
    "power_mw": ("power, W", 1e3),
    "temperature_c": ("temperature, °C", 1),
    "gpu_util_percent": ("GPU busy, %", 1),
    "memory_used_bytes": ("memory, GB", 1e9),
    # NVML's rx is what the GPU receives: rows on their way from the host
    "pcie_rx_kb_per_s": ("from host, GB/s", 1e6),
    "pcie_tx_kb_per_s": ("to host, GB/s", 1e6),
    "throttle_reasons": ("throttle reasons", 1),
}


def _clock(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns / 1e9, UTC):%H:%M:%S}"


def _told(span: Span) -> str:
    end = "not ended" if span.to_ns is None else f"{(span.to_ns - span.from_ns) / 1e9:.3f} s"
    words = [for_plot(span.name), f"{_clock(span.from_ns)} UTC, {end}"]
    return "<br>".join(words + ([for_plot(span.note)] if span.note else []))


def states(record: WindowRecord) -> Figure:
    """The states one below the other, then the stretches over several of them."""
    spans, zero = record.spans, record.from_ns or 0
    last = max([s.to_ns or s.from_ns for s in spans], default=zero)
    rows = {name: i for i, name in enumerate(dict.fromkeys(s.name for s in spans))}
    figure = look.figure(
        100 + 22 * len(rows),
        barmode="overlay",
        bargap=0.25,
        margin={"l": 150, "r": 16, "t": 8, "b": 44},
        meta={"narrow": {"margin.l": 118}},
        xaxis={"title": {"text": "seconds from the first state"}, "zeroline": False},
        yaxis={
            "autorange": "reversed",
            "tickvals": list(rows.values()),
            "ticktext": [for_plot(name) for name in rows],
            "showgrid": False,
            "zeroline": False,
        },
    )
    groups = [(part, True) for part in PARTS] + [("failed or open", False)]
    for part, ok in groups:
        mine = [s for s in spans if s.ok == ok and (not ok or s.part == part)]
        if not mine:
            continue
        ends = [s.to_ns if s.to_ns is not None else last for s in mine]
        figure.add_bar(
            y=[rows[s.name] for s in mine],
            base=[round((s.from_ns - zero) / 1e9, 6) for s in mine],
            x=[round((end - s.from_ns) / 1e9, 6) for s, end in zip(mine, ends, strict=True)],
            orientation="h",
            name={"whole": "over several states"}.get(part, part),
            marker={"color": PARTS[part] if ok else look.ALERT,
                    # a state of a few milliseconds is still seen
                    "line": {"width": 1.5, "color": PARTS[part] if ok else look.ALERT}},
            text=[_told(s) for s in mine],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    return figure


def requests(probes: list[ProbeRecord]) -> Figure:
    """Every request of the probes: time to its first token over its decode rate."""
    figure = look.figure(
        300,
        xaxis={"title": {"text": "decode rate, tokens/s"}, "zeroline": False},
        yaxis={"title": {"text": "time to first token, ms"}, "rangemode": "tozero"},
    )
    for probe in probes:
        rows = [r for r in probe.requests if r.ttft_ns is not None and r.decode_tokens_per_s]
        figure.add_scatter(
            x=[r.decode_tokens_per_s for r in rows],
            y=[round((r.ttft_ns or 0) / 1e6, 6) for r in rows],
            mode="markers",
            name=f"{for_plot(probe.phase)} probe",
            marker={"size": 9, "color": PHASES.get(probe.phase, look.MUTED), "opacity": 0.85},
            text=[f"{for_plot(r.prompt_id)}, {r.concurrency} at a time" for r in rows],
            hovertemplate="%{text}<br>%{x:.1f} tokens/s, first after %{y:.1f} ms<extra></extra>",
        )
    return figure


def gaps(probes: list[ProbeRecord]) -> Figure:
    """How long the client waited between chunks, in either probe, as shares of the chunks."""
    figure = look.figure(
        280,
        barmode="overlay",
        bargap=0,
        xaxis={"title": {"text": "gap between chunks, ms"}},
        yaxis={"title": {"text": "share of the gaps, %"}},
    )
    for probe in probes:
        found = probe.gaps
        if found is None:
            continue
        total, width = sum(found.count), found.width_ms
        filled = [i for i, n in enumerate(found.count) if n]
        figure.add_bar(
            x=[round((i + 0.5) * width, 6) for i in filled],
            y=[round(100 * found.count[i] / total, 6) for i in filled],
            width=[width] * len(filled),
            customdata=[found.count[i] for i in filled],
            name=f"{for_plot(probe.phase)} probe",
            marker={"color": PHASES.get(probe.phase, look.MUTED), "line": {"width": 0}},
            opacity=0.6,
            hovertemplate="%{x:.2f} ms: %{customdata} gaps, %{y:.1f} %<extra></extra>",
        )
    return figure


def gpu(record: WindowRecord) -> Figure | None:
    """NVML's columns one below the other over the window's time; None where there is no sample."""
    zero = record.from_ns or 0
    drawn = [c for c in TRACKS if any(_known(s, c) for s in record.gpu)]
    if not drawn:
        return None
    height = 1 / len(drawn)
    figure = look.figure(
        90 + 96 * len(drawn),
        margin={"l": 62, "r": 16, "t": 8, "b": 44},
        xaxis={"title": {"text": "seconds from the first state"},
               "anchor": "free", "position": 0, "zeroline": False},
        hovermode="x",
    )  # fmt: skip
    uuids = list(dict.fromkeys(s.uuid for s in record.gpu))
    for row, column in enumerate(drawn):
        title, divisor = TRACKS[column]
        axis = "yaxis" if row == 0 else f"yaxis{row + 1}"
        top = 1 - row * height
        figure.update_layout(
            **{axis: {"domain": [top - 0.72 * height, top - 0.06 * height], "zeroline": False,
                    "nticks": 4, "rangemode": "tozero" if column.startswith("pcie") else "normal"}}
        )  # fmt: skip
        figure.add_annotation(
            text=title, x=0, xref="paper", y=top, yref="paper", showarrow=False,
            xanchor="left", yanchor="middle", font={"size": 12},
        )  # fmt: skip
        for number, uuid in enumerate(uuids):
            figure.add_scatter(
                **_line(record, column, uuid, zero, divisor),
                yaxis="y" if row == 0 else f"y{row + 1}",
                mode="lines+markers",
                name=for_plot(uuid),
                legendgroup=str(number),
                showlegend=row == 0 and len(uuids) > 1,
                line={"width": 1.4, "color": look.PALETTE[number % len(look.PALETTE)]},
                marker={"size": 4},
                hovertemplate=f"%{{y:,.4~g}} ({title})<extra></extra>",
            )
    _shade_probes(figure, record, zero)
    return figure


def _known(series: GpuSeries, column: str) -> bool:
    values = [v for v in series.columns.get(column, []) if v is not None]
    # throttle reasons are bits: a row of zeros says nothing that the table does not
    return bool(values) and (column != "throttle_reasons" or any(values))


def _line(
    record: WindowRecord, column: str, uuid: str, zero: int, divisor: float
) -> dict[str, list[float | None]]:
    """One GPU's samples of a column; a break between the probes."""
    x: list[float | None] = []
    y: list[float | None] = []
    for series in record.gpu:
        values = series.columns.get(column, [])
        if series.uuid != uuid or not values:
            continue
        if x:
            x.append(None)
            y.append(None)
        x += [round((t - zero) / 1e9, 6) for t in series.unix_ns]
        y += [None if v is None else round(v / divisor, 6) for v in values]
    return {"x": x, "y": y}


def _shade_probes(figure: Figure, record: WindowRecord, zero: int) -> None:
    for span in record.spans:
        phase = span.name.removesuffix("_probe")
        if phase in PHASES and span.to_ns is not None:
            figure.add_shape(
                type="rect", xref="x", yref="paper", y0=0, y1=1, layer="below", line={"width": 0},
                x0=round((span.from_ns - zero) / 1e9, 6), x1=round((span.to_ns - zero) / 1e9, 6),
                fillcolor=PHASES[phase], opacity=0.09,
            )  # fmt: skip
