"""The one look of all figures: colours by meaning, margins, fonts. Pages add light and dark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lanescope.dashboards.figures.plain import Figure

#: Buckets that the bundled profiles name keep their colour in every figure of every page.
BUCKETS = {
    "row_copy": "#e8833a",
    "routed_moe": "#3d7cc9",
    "dense_gemm": "#7a5fc0",
    "attention": "#1c9aa0",
    "bookkeeping": "#ce4f4f",
    "gather_scatter": "#d069a8",
    "elementwise": "#a3a03a",
    "norm_rope_activation": "#3f9f5f",
    "reduction": "#9c7350",
    "sampling": "#63a9d9",
    "kv_cache": "#2f7d6b",
    "communication": "#a54bb8",
    "other": "#7c8794",
    "graph_blocks": "#5d6878",
}
#: For buckets of a user's own profile, in order of name.
SPARE = ("#5a8f29", "#c2185b", "#00838f", "#8d6e63", "#5e35b1", "#ef6c00", "#00695c", "#ad1457")
#: For series that are no buckets, in order.
PALETTE = (
    "#3d7cc9", "#e8833a", "#3f9f5f", "#ce4f4f", "#7a5fc0", "#9c7350", "#d069a8", "#1c9aa0",
    "#a3a03a", "#63a9d9", "#5d6878", "#c2185b",
)  # fmt: skip
IDLE = "#b9c0ca"
WALL = "#3d7cc9"
BUSY = "#3f9f5f"
ALERT = "#d1352b"
MUTED = "#97a1ae"
CLASSES = {"graph": "#3d7cc9", "eager": "#e8833a", "warm-up": "#97a1ae", "not measured": "#c3c9d1"}
CALLS = {
    "graph launch": "#3d7cc9",
    "kernel launch": "#63a9d9",
    "copy": "#e8833a",
    "blocking copy": "#e8833a",
    "memset": "#d9a441",
    "wait": "#d9c27a",
    "event": "#a3a03a",
    "memory": "#a54bb8",
    "range": "#8fa3bd",
}


def bucket_colours(names: Iterable[str]) -> dict[str, str]:
    """A colour a bucket; the same names give the same colours whatever their order."""
    own = sorted({n for n in names if n not in BUCKETS})
    return BUCKETS | {n: SPARE[i % len(SPARE)] for i, n in enumerate(own)} | {"idle": IDLE}


def figure(height: int, **layout: Any) -> Figure:
    """An empty figure in the common look. Text and grid colours come from the page's theme."""
    out = Figure(
        height=height,
        font={"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 13},
        margin={"l": 56, "r": 16, "t": 8, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hoverlabel={"align": "left"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        separators=".,",
    )
    out.update_layout(**layout)
    out.update_xaxes(title={"font": {"size": 12}, "standoff": 8})
    out.update_yaxes(title={"font": {"size": 12}, "standoff": 8})
    return out
