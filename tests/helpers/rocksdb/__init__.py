"""Databases for tests, and the RocksDB of Flink's releases as a reference."""
