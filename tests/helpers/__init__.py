"""What tests share: paths, fixtures, comparison of values, builders of bytes, and programs that run Flink or RocksDB.

Nothing here is collected as a test. Helpers may import stateproc and each other, but no test module.
"""
