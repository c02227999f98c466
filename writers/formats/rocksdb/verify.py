"""Verification of a RocksDB database that was just written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.readers.rocksdb import database_files, rocksdb_entries, table_properties
from stateproc.storage import SnapshotLocation
from stateproc.writers.formats.common.read_back import compare_counts, reading_back
from stateproc.writers.formats.rocksdb.library_check import check_with_library, has_library


def verify_rocksdb(
    handle: IncrementalHandle, location: SnapshotLocation, entries: Longs, states: Sequence[str], max_parallelism: int
) -> None:
    """Read a database of RocksDbWriter back and compare its entries per key group and state with the written ones.

    All blocks are read and their checksums verified. Where rocksdict is installed, RocksDB itself opens the database,
    too (`check_with_library`).

    Args:
        handle: the database.
        location: the snapshot's directory.
        entries: the entries written, int64 [key groups, states].
        states: names by state id.
        max_parallelism: the operator's number of key groups, which decides on the width of key prefixes.

    Raises:
        WriteFailed: the database cannot be read, or its entries are not those written.
    """
    counts = np.zeros_like(entries)
    first, file = handle.key_groups.start, location.directory_uri
    with reading_back(file):
        files = database_files(handle, location)
        for state_id, name in enumerate(states):
            for batch in rocksdb_entries(files, name, handle.key_groups, prefix_width(max_parallelism)):
                np.add.at(counts[:, state_id], batch.key_groups - first, 1)
    compare_counts(counts, entries, first, states, file)
    if has_library():
        with reading_back(file):
            tables = [item.source for item in files if item.name.endswith(".sst")]
            compression = table_properties(tables[0]).compression if tables else None
            written = dict(zip(states, entries.sum(axis=0).tolist(), strict=True))
            check_with_library(files, written, file, compression=compression)
