"""RocksDB databases written without RocksDB: tables, MANIFEST, OPTIONS; and their verification."""
