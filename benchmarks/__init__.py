"""Measure speed and memory: `python -m benchmarks` runs all of it (see `make bench`)."""
