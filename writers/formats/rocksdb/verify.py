"""Verification of a RocksDB database that was just written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stateproc.codec.array_types import Longs
from stateproc.errors import Where, WriteFailed
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.readers.rocksdb import DatabaseFile, database_files, rocksdb_entries, table_properties
from stateproc.readers.rocksdb.native_database import NotOpened, downloaded_bytes, has_library, native_database
from stateproc.storage import SnapshotLocation
from stateproc.writers.formats.order_check import compare_counts, reading_back
from stateproc.writers.formats.rocksdb.block_builder import property_name

# Compares a database that was just written with what RocksDB itself reads of it; see `native_database`.
#
# Flink's RocksDB releases are covered by the tests.

MAX_ITERATED_ENTRIES = 1_000_000
"""Entries of a database up to which RocksDB iterates over all of them, which takes it up to a second."""
MAX_ITERATED_BYTES = 256 << 20
"""Bytes of a database up to which RocksDB iterates over its entries."""
MAX_DOWNLOADED_BYTES = 256 << 20
"""Bytes of a database's files on no local disk up to which they are downloaded."""
_ADVICE = "report this as a bug of stateproc, with this message; the canonical format is not affected"


def check_with_library(
    files: Sequence[DatabaseFile], entries: Mapping[str, int], file: str, *, compression: str | None = None
) -> None:
    """Open a database read-only with RocksDB and compare its entries per column family with the written ones.

    RocksDB reads MANIFEST and, of each table, footer, index and properties. In a database of up to
    `MAX_ITERATED_ENTRIES` and `MAX_ITERATED_BYTES` it iterates over all entries, which checks the blocks' checksums; in
    a larger one, and in one compressed with zlib, which rocksdict cannot decompress, it adds up what the properties of
    the tables say. A database of which more than `MAX_DOWNLOADED_BYTES` are on no local disk is not checked. Written
    tables hold whole values and no merge operands, so that iterating needs no merge operator, which rocksdict does not
    have.

    Args:
        files: the database's files.
        entries: the number of entries written, by state name.
        file: the snapshot's directory, for errors.
        compression: of the tables, as their properties name it.

    Raises:
        WriteFailed: RocksDB cannot open the database, or counts other entries.
        MissingFile, CorruptSnapshot: a file is gone or shorter than its handle says.
    """
    if downloaded_bytes(files) > MAX_DOWNLOADED_BYTES:
        return
    size = sum(item.source.size for item in files)
    small = size <= MAX_ITERATED_BYTES and sum(entries.values()) <= MAX_ITERATED_ENTRIES
    iterated = small and compression != property_name("ZLIB_COMPRESSION")
    for state, counted in _counts(files, list(entries), file, iterated=iterated).items():
        if counted != entries[state]:
            raise WriteFailed(
                f"RocksDB finds {counted} entries where {entries[state]} were written",
                where=Where(file=file, state=state),
                advice=_ADVICE,
            )


def _counts(
    files: Sequence[DatabaseFile], states: Sequence[str], file: str, *, iterated: bool
) -> dict[str, int | None]:
    """Entries by state as RocksDB counts them; None where a table's properties cannot be read."""
    try:
        with native_database(files, states) as database:
            count = database.iterated if iterated else database.declared
            return {state: count(state) for state in states}
    except NotOpened as error:
        raise WriteFailed(
            f"RocksDB cannot open the database that was written: {error}", where=Where(file=file), advice=_ADVICE
        ) from error


__all__ = ["check_with_library", "has_library"]


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
