"""One migration a file, `v<number>_<what>.py`; each names its predecessor."""
