"""Benchmarks that print tables; nothing here is a test. `python -m benchmarks --help`."""
