"""The sub-commands of `lanescope replay`, one a file."""
