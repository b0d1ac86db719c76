"""Many traces at once: one dataset, one outcome a trace, whichever engine does the work."""
