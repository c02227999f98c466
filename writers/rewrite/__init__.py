"""Existing snapshots: what is carried over as it is, what changes on the way."""
