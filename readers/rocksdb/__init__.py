"""RocksDB databases in snapshots: sst files read directly, by ranged reads, without RocksDB."""

from stateproc.readers.rocksdb.database import (
    DatabaseFile,
    column_families,
    database_files,
    family_files,
    open_database,
)
from stateproc.readers.rocksdb.db_iterator import rocksdb_entries
from stateproc.readers.rocksdb.splits import RocksDbSplit, key_group_sizes, rocksdb_splits, split_key_groups
from stateproc.readers.rocksdb.statistics import StateStatistics, TableStatistics, database_statistics, new_tables
from stateproc.readers.rocksdb.table import open_table, table_properties

__all__ = [
    "DatabaseFile",
    "RocksDbSplit",
    "StateStatistics",
    "TableStatistics",
    "column_families",
    "database_files",
    "database_statistics",
    "family_files",
    "key_group_sizes",
    "new_tables",
    "open_database",
    "open_table",
    "rocksdb_entries",
    "rocksdb_splits",
    "split_key_groups",
    "table_properties",
]
