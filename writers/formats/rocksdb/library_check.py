"""Compares a database that was just written with what RocksDB itself reads of it; see `native_database`.

Flink's RocksDB releases are covered by the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stateproc.errors import Where, WriteFailed
from stateproc.readers.rocksdb import DatabaseFile
from stateproc.readers.rocksdb.native_database import NotOpened, downloaded_bytes, has_library, native_database
from stateproc.writers.formats.rocksdb.compression import property_name

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
