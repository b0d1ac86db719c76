"""From a path to staged tables: `open_trace` is the only way in."""

from lanescope.attribution.ingest.opening import Staged, open_trace

__all__ = ["Staged", "open_trace"]
