"""Writers: from raw entries and encoded elements to the state files that Flink restores, and their commit."""
