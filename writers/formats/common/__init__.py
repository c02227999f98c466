"""Shared by the writers of all formats: batches of raw entries, their order, snappy streams, checks of counts."""
