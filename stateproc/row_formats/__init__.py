"""Rows of Arrow batches as JSON, CSV, Parquet and Arrow IPC. May import codec and errors."""
