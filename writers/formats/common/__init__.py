"""What several file writers share: batches of raw entries, their order, snappy streams."""
