"""State files as Flink restores them: raw entries in, bytes out."""
