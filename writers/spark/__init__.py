"""Spark's part: entries shuffled in blocks, written by tasks, committed by the driver."""
