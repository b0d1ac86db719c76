"""lanescope: where a decode step's time goes, from Nsight Systems traces of LLM serving engines.

`lanescope.attribute(path)` is the main job; see its docstring.
"""

from __future__ import annotations

from typing import Any

from lanescope._version import __version__

__all__ = ["__version__", "attribute", "compare"]


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import lanescope` and `lanescope --help` are quick."""
    if name == "attribute":
        from lanescope.attribution.attribute import attribute

        return attribute
    if name == "compare":
        from lanescope.attribution.lanes.compare import compare

        return compare
    raise AttributeError(f"module 'lanescope' has no attribute {name!r}")
