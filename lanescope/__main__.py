"""`python -m lanescope` is the command `lanescope`."""

from lanescope.profiler.cli.main import main

if __name__ == "__main__":
    main()
