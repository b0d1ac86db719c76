"""Figures of an attribution: result in, figure out. Nothing is computed but positions."""

from __future__ import annotations

from lanescope.dashboards.figures import look
from lanescope.dashboards.figures.plain import Figure
from lanescope.dashboards.names import for_plot
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.documents.closeup import Closeup, OddStep, StepCloseup, StepRow

#: A segment of a bar carries its name and figure when it is at least this share of the longest bar.
_LABELLED = 0.045
#: Below this share of the longest bar, in every bar, a bucket has no entry in the legend.
_SMALL = 0.006


def _ms(ns: int) -> float:
    return round(ns / 1e6, 6)


def step_bars(doc: AttributionDocument, closeup: Closeup) -> Figure:
    """Exclusive time by bucket, and idle: they add up to the wall of the mean and of steps."""
    assert doc.steps is not None
    assert doc.steps.idle_ns is not None  # a kernel summary has a page of its own
    bars: list[tuple[str, dict[str, float]]] = [
        (
            "mean",
            {b.bucket: b.exclusive_ms_per_step or 0.0 for b in doc.buckets}
            | {"idle": doc.steps.idle_ns.mean / 1e6},
        )
    ]
    for c in closeup.closeups:
        label = {"median": "p50", "p95": "p95", "slowest": "slowest"}[c.pick]
        bars.append((label, _parts(c.step)))
    order = [b.bucket for b in doc.buckets]
    order += sorted({n for _, parts in bars for n in parts} - set(order) - {"idle"})
    shade = look.bucket_colours(order)
    longest = max(sum(parts.values()) for _, parts in bars) or 1.0
    figure = look.figure(
        90 + 46 * len(bars),
        barmode="stack",
        bargap=0.28,
        margin={"l": 62, "r": 16, "t": 8, "b": 44},
        xaxis={"title": {"text": "ms per step"}, "zeroline": False, "fixedrange": True},
        yaxis={
            "autorange": "reversed",
            "fixedrange": True,
            "ticklen": 6,
            "tickcolor": "rgba(0,0,0,0)",
        },
        legend={"traceorder": "normal"},
        meta={"narrow": {"margin.l": 54}},
        uniformtext={"minsize": 10, "mode": "hide"},
    )
    for name in [*order, "idle"]:
        values = [round(parts.get(name, 0.0), 6) for _, parts in bars]
        labelled = [f"{for_plot(name)} {v:.2f}" if v >= _LABELLED * longest else "" for v in values]
        marker: dict[str, object] = {"color": shade[name], "line": {"width": 0}}
        if name == "idle":
            marker["pattern"] = {"shape": "/", "size": 5, "solidity": 0.35, "fgopacity": 0.6}
        figure.add_bar(
            x=values,
            y=[label for label, _ in bars],
            name=for_plot(name),
            orientation="h",
            marker=marker,
            text=labelled,
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"size": 12} | ({"color": "#fff"} if name != "idle" else {}),
            constraintext="inside",
            showlegend=max(values) >= _SMALL * longest,
            hovertemplate="%{fullData.name}<br>%{x:.3f} ms of the %{y} step<extra></extra>",
        )
    return figure


def _parts(step: StepRow) -> dict[str, float]:
    return {p.bucket: p.exclusive_ns / 1e6 for p in step.parts} | {"idle": step.idle_ns / 1e6}


def steps_over_time(closeup: Closeup) -> Figure:
    """Wall and busy time of the steps in order, coloured by how they ran; odd ones are ringed.

    A bin of several steps shows their mean, and its longest as a thin line.
    """
    several = len(closeup.series) > 1
    figure = look.figure(
        330,
        xaxis={"title": {"text": "step"}, "zeroline": False},
        yaxis={"title": {"text": "ms"}, "rangemode": "tozero", "zeroline": False},
        hovermode="closest",
    )
    seen: set[str] = set()
    for series in closeup.series:
        place = f" p{series.process} gpu{series.device}" if several else ""
        wall = [_ms(v) for v in series.wall_ns]
        figure.add_scatter(
            x=series.step,
            y=wall,
            mode="lines",
            line={"width": 1, "color": look.MUTED},
            hoverinfo="skip",
            showlegend=False,
        )
        if series.steps_per_bin > 1:
            figure.add_scatter(
                x=series.step,
                y=[_ms(v) for v in series.longest_ns],
                mode="lines",
                line={"width": 1, "dash": "dot", "color": look.MUTED},
                name=f"longest of {series.steps_per_bin}{place}",
            )
        for kind, colour in look.CLASSES.items():
            rows = [i for i, c in enumerate(series.step_class) if c == kind]
            if not rows:
                continue
            figure.add_scatter(
                x=[series.step[i] for i in rows],
                y=[wall[i] for i in rows],
                mode="markers",
                marker={"size": 5, "color": colour},
                name=f"wall, {kind}",
                legendgroup=kind,
                showlegend=kind not in seen,
                hovertemplate=f"step %{{x}}{place}<br>wall %{{y:.3f}} ms<extra>{kind}</extra>",
            )
            seen.add(kind)
        figure.add_scatter(
            x=series.step,
            y=[_ms(v) for v in series.busy_ns],
            mode="lines",
            line={"width": 1.5, "color": look.BUSY},
            name="GPU busy",
            legendgroup="busy",
            showlegend="busy" not in seen,
            hovertemplate=f"step %{{x}}{place}<br>busy %{{y:.3f}} ms<extra></extra>",
        )
        seen.add("busy")
    missing = [s for s in closeup.series if s.misses is not None]
    for series in missing[:1]:
        figure.add_scatter(
            x=series.step,
            y=series.misses,
            mode="lines",
            line={"width": 1, "color": look.BUCKETS["row_copy"]},
            name="misses per layer-step (right)",
            yaxis="y2",
            hovertemplate="step %{x}<br>%{y:.2f} misses per layer-step<extra></extra>",
        )
    if missing:
        figure.update_layout(
            margin={"r": 48},
            yaxis2={
                "overlaying": "y",
                "side": "right",
                # in the lower part of the picture, clear of the times
                "range": [0, 2.5 * max(max(s.misses or [0]) for s in missing) or 1],
                "tickmode": "auto",
                "nticks": 5,
                "showgrid": False,
                "zeroline": False,
                "title": {"text": "misses", "font": {"size": 12}},
            },
        )
    if closeup.odd:
        figure.add_scatter(
            x=[o.step for o in closeup.odd],
            y=[_ms(o.wall_ns) for o in closeup.odd],
            mode="markers",
            marker={"size": 13, "symbol": "circle-open", "color": look.ALERT, "line": {"width": 2}},
            customdata=[f"odd-{i}" for i in range(len(closeup.odd))],
            name="odd: click to open",
            hovertemplate="step %{x}<br>wall %{y:.3f} ms<br>click: its kernels<extra></extra>",
        )
    return figure


def odd_bar(odd: OddStep) -> Figure:
    """Where an odd step spent more or less than the median step: a bar a bucket."""
    rows = odd.changes[:8]
    shade = look.bucket_colours(c.bucket for c in rows)
    figure = look.figure(
        70 + 24 * len(rows),
        margin={"l": 130, "r": 16, "t": 4, "b": 40},
        xaxis={"title": {"text": "ms more than the median step"}, "fixedrange": True},
        yaxis={"autorange": "reversed", "fixedrange": True},
        showlegend=False,
    )
    figure.add_bar(
        x=[_ms(c.change_ns) for c in rows],
        y=[for_plot(c.bucket) for c in rows],
        orientation="h",
        marker={"color": [shade[c.bucket] for c in rows]},
        hovertemplate="%{y} %{x:+.3f} ms<extra></extra>",
    )
    return figure


def timeline(close: StepCloseup) -> Figure:
    """One step on its device and its host: a row a track, kernels coloured by bucket."""
    shade = look.bucket_colours([g for g in close.groups if g not in look.CALLS])
    labels = [t.label if t.depth == 0 else "" for t in close.tracks]
    labels = [
        "copies" if t.kind == "copies" and t.depth == 0 else label
        for t, label in zip(close.tracks, labels, strict=True)
    ]
    span = [close.from_ns / 1e6, close.to_ns / 1e6]
    figure = look.figure(
        120 + 34 * max(3, len(close.tracks)),
        barmode="overlay",
        bargap=0.16,
        margin={"l": 92, "r": 12, "t": 8, "b": 44},
        xaxis={
            "title": {"text": "ms from the step's first kernel"},
            "range": span,
            "zeroline": True,
        },
        yaxis={
            "autorange": "reversed",
            "fixedrange": True,
            "tickvals": list(range(len(labels))),
            "ticktext": [for_plot(t) for t in labels],
            "showgrid": False,
            "zeroline": False,
        },
        dragmode="zoom",
        meta={"tools": True, "narrow": {"showlegend": False}},
        hovermode="closest",
    )
    kinds = [close.tracks[t].kind for t in close.track]
    by_trace: dict[tuple[str, str], list[int]] = {}
    for i, kind in enumerate(kinds):
        group = close.groups[close.group[i]]
        drawn: str = "host" if kind in ("api", "wait") else kind
        if kind == "stream" and not close.own[i]:
            drawn, group = "elsewhere", f"not this step: {group}"
        by_trace.setdefault((drawn, group), []).append(i)
    names = [for_plot(n) for n in close.names]
    for (drawn, group), rows in sorted(by_trace.items(), key=lambda r: _trace_order(r[0], r[1])):
        colour = (
            look.CALLS.get(group, look.MUTED)
            if drawn in ("host", "range", "copies")
            else (look.IDLE if drawn == "elsewhere" else shade.get(group, look.MUTED))
        )
        figure.add_bar(
            base=[_ms(close.start_ns[i]) for i in rows],
            x=[_ms(close.duration_ns[i]) for i in rows],
            y=[close.track[i] for i in rows],
            orientation="h",
            marker={"color": colour, "line": {"width": 0}},
            name=for_plot(group),
            showlegend=drawn in ("stream", "elsewhere"),
            text=[
                names[close.name[i]] + (f" (+{close.merged[i] - 1})" if close.merged[i] > 1 else "")
                for i in rows
            ],
            textposition="inside" if drawn == "range" else "none",
            insidetextanchor="start",
            constraintext="none",
            textfont={"size": 11},
            textangle=0,
            hovertemplate="%{text}<br>%{x:.6f} ms from %{base:.6f}<extra>%{fullData.name}</extra>",
        )
    return figure


def _trace_order(key: tuple[str, str], rows: list[int]) -> tuple[int, int, str]:
    drawn, group = key
    place = {"stream": 0, "elsewhere": 1, "copies": 2, "host": 3, "range": 4}[drawn]
    return place, -len(rows), group
