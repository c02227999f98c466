"""Limits that Flink sets on what it writes."""

MAX_KEY_GROUPS = 1 << 15
"""The largest max parallelism (KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM)."""
