"""One outside thing a file: container engine, processes, nsys, timers, probe, metrics, NVML."""
