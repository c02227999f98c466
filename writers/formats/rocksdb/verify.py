"""A database that was written, read back: each state's entries in each key group, all blocks' checksums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.readers.rocksdb import database_files, rocksdb_entries
from stateproc.storage import SnapshotLocation
from stateproc.writers.formats.common.entry_batches import Longs
from stateproc.writers.formats.common.read_back import compare_counts, reading_back


def verify_rocksdb(
    handle: IncrementalHandle, location: SnapshotLocation, entries: Longs, states: Sequence[str], max_parallelism: int
) -> None:
    """Check a database of RocksDbWriter: as many entries of each state in each key group as ``entries``, int64
    [key groups, states], says. Raises WriteFailed.
    """
    found = np.zeros_like(entries)
    first = handle.key_groups.start
    with reading_back(location.directory_uri):
        files = database_files(handle, location)
        for state_id, name in enumerate(states):
            for batch in rocksdb_entries(files, name, handle.key_groups, prefix_width(max_parallelism)):
                np.add.at(found[:, state_id], batch.key_groups - first, 1)
    compare_counts(found, entries, first, states, location.directory_uri)
