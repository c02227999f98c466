"""RocksDB databases written without RocksDB: tables, MANIFEST and what else a native snapshot holds."""
