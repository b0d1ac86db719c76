"""lanescope: where a decode step's time goes, from Nsight Systems traces of LLM serving engines."""

from lanescope._version import __version__

__all__ = ["__version__"]
