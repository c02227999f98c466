"""Run real Flink: fetch its jars, compile jobs, write fixtures, restore savepoints (see README.md)."""
