"""Read heap timers that Flink stores as raw keyed state beside RocksDB."""
