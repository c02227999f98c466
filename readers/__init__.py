"""Readers: from the files of a snapshot to raw entries and Arrow batches, one module per way state is stored."""
