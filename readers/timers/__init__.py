"""Read heap timers that Flink stores as raw keyed state next to RocksDB. May import readers.common and heap."""
