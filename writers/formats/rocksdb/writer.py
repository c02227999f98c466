"""Write a subtask's keyed state as a RocksDB database, which EmbeddedRocksDBStateBackend restores as its own.

Format: org.apache.flink.contrib.streaming.state.snapshot.RocksNativeFullSnapshotStrategy: one column family per state,
named as the state is; the reader is stateproc.readers.rocksdb.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.errors import InvalidOption, Where, WriteFailed
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.keyed_handles import ChangelogHandle, IncrementalHandle, KeyedHandle
from stateproc.metadata.stream_handles import ByteStreamHandle, KeyGroupsHandle, RelativeFileHandle
from stateproc.readers.rocksdb import DatabaseFile, database_files, rocksdb_entries, table_properties
from stateproc.readers.rocksdb.native_database import NotOpened, downloaded_bytes, has_library, native_database
from stateproc.writers.formats.byte_sink import StateFileSink
from stateproc.writers.formats.entry_batches import EntryColumns, cuts, entry_columns, portions
from stateproc.writers.formats.keyed_file import KeyedFileSpec, KeyedFileWriter
from stateproc.writers.formats.order_check import OrderCheck, compare_counts, reading_back
from stateproc.writers.formats.rocksdb.block_builder import OVERHEAD, property_name
from stateproc.writers.formats.rocksdb.manifest import WrittenFamily, current, manifest, options_file
from stateproc.writers.formats.rocksdb.options import TableOptions
from stateproc.writers.formats.rocksdb.table import SstWriter, WrittenTable

# Verification of a RocksDB database that was just written.

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


def verify_rocksdb(file: KeyedFileSpec, handle: KeyedHandle, entries: Longs) -> None:
    """Read a database of RocksDbWriter back and compare its entries with the written ones. Raises WriteFailed.

    All blocks are read and their checksums verified. Where rocksdict is installed, RocksDB itself opens the database,
    too (`check_with_library`). ``entries``: those written, int64 [key groups, states].
    """
    assert isinstance(handle, IncrementalHandle)
    counts, states = np.zeros_like(entries), file.header.names
    first, uri = handle.key_groups.start, file.location.directory_uri
    with reading_back(uri):
        files = database_files(handle, file.location)
        for state_id, name in enumerate(states):
            for batch in rocksdb_entries(files, name, handle.key_groups, prefix_width(file.max_parallelism)):
                np.add.at(counts[:, state_id], batch.key_groups - first, 1)
    compare_counts(counts, entries, first, states, uri)
    if has_library():
        with reading_back(uri):
            tables = [item.source for item in files if item.name.endswith(".sst")]
            compression = table_properties(tables[0]).compression if tables else None
            written = dict(zip(states, entries.sum(axis=0).tolist(), strict=True))
            check_with_library(files, written, uri, compression=compression)


MANIFEST, OPTIONS = 4, 7
_FIRST_TABLE = 8
"""File numbers as RocksDB gives them: no two files have the same."""

_DEFAULT = "default"

LocalFile = tuple[str, ByteStreamHandle | RelativeFileHandle]
"""A file's name in the database, and its handle."""


class RocksDbWriter:
    """Writes one subtask's database from raw entries, with one open table for each state; used as a context.

    Memory is bounded by about 4 MB plus index and filter of each state's open table, or by the options' memory. Left
    with an error, its files are removed.

    Args:
        states: names by state id.
        max_parallelism: the operator's number of key groups, which decides on the width of key prefixes.
        options: how tables are written.

    Raises:
        InvalidOption: a state is called ``default``.
    """

    def __init__(
        self,
        new_file: Callable[[], StateFileSink],
        states: Sequence[str],
        key_groups: range,
        max_parallelism: int,
        options: TableOptions,
    ) -> None:
        if _DEFAULT in states:
            raise InvalidOption(
                f"a state is called {_DEFAULT!r}, as RocksDB calls the column family that Flink leaves empty",
                where=Where(state=_DEFAULT),
                advice="rename the state, or write another format: Flink does not run such a job under RocksDB either",
            )
        self._files = ExitStack()
        self._new_file, self._states, self._key_groups, self._options = new_file, states, key_groups, options
        self._order = OrderCheck(states, key_groups)
        self._prefix = prefix_width(max_parallelism)
        self._numbers = itertools.count(_FIRST_TABLE)
        self._open: dict[int, tuple[SstWriter, StateFileSink]] = {}
        self._tables: list[list[WrittenTable]] = [[] for _ in states]
        self._written: list[LocalFile] = []
        self._created = int(time.time())
        self._at_once = min(options.bytes_at_once(max(len(states), 1)), options.target_file_size)
        self._most_held = options.most_held(max(len(states), 1))
        self.entries: Longs = np.zeros((len(key_groups), len(states)), dtype=np.int64)
        """Entries written so far, int64 [key groups, states]."""

    def __enter__(self) -> RocksDbWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write entries (RAW_ENTRIES) that follow those before in the order of key group, state id and key (unsigned).

        Raises DuplicateKey, InvalidEntries, WriteFailed.
        """
        columns = entry_columns(batch)
        self._order.check(columns)
        for first, last in _runs(columns, self._at_once):
            state_id = int(columns.state_ids[first])
            self._table(state_id).add(columns, first, last)
            self._end_full(state_id)
        np.add.at(self.entries, (columns.key_groups - self._key_groups.start, columns.state_ids), 1)

    def close(self) -> tuple[LocalFile, ...]:
        """Write the end and return the database's files by their local names. Raises WriteFailed."""
        for state_id in sorted(self._open):
            self._end(state_id)
        families = [WrittenFamily(n + 1, name, self._tables[n]) for n, name in enumerate(self._states)]
        name = f"MANIFEST-{MANIFEST:06d}"
        self._small(name, manifest(families, next(self._numbers)))
        self._small("CURRENT", current(name))
        self._small(f"OPTIONS-{OPTIONS:06d}", options_file([_DEFAULT, *self._states], self._options))
        return tuple(self._written)

    def _table(self, state_id: int) -> SstWriter:
        if state_id not in self._open:
            file = self._files.enter_context(self._new_file())
            writer = SstWriter(
                file,
                next(self._numbers),
                state_id + 1,
                self._states[state_id],
                self._prefix,
                self._options,
                self._created,
            )
            self._open[state_id] = writer, file
        return self._open[state_id][0]

    def _end_full(self, state_id: int) -> None:
        """Finish a state's table that has reached its size; the next entry begins another one."""
        writer = self._open[state_id][0]
        full = self._most_held is not None and writer.held >= self._most_held
        if full or writer.size >= self._options.target_file_size:
            self._end(state_id)

    def _end(self, state_id: int) -> None:
        writer, file = self._open.pop(state_id)
        table = writer.finish()
        self._tables[state_id].append(table)
        self._written.append((table.name, file.close()))

    def _small(self, name: str, data: bytes) -> None:
        file = self._files.enter_context(self._new_file())
        file.write(data)
        self._written.append((name, file.close()))


def _runs(columns: EntryColumns, at_once: int) -> Iterator[tuple[int, int]]:
    """(first row, row after the last) of rows of one state, of about ``at_once`` bytes, one row at least."""
    keys, values = columns.keys.offsets, columns.values.offsets
    ends = keys[1:] - keys[0] + values[1:] - values[0] + np.arange(1, len(columns) + 1, dtype=np.int64) * OVERHEAD
    return portions(ends, cuts(columns.state_ids), at_once)


# Keyed state of a subtask as a RocksDB database, with its handle (IncrementalRemoteKeyedStateHandle).

_TYPE, _TYPE_WITHOUT_ID = 11, 5
"""INCREMENTAL_KEY_GROUPS_HANDLE_V2 and INCREMENTAL_KEY_GROUPS_HANDLE in MetadataV2V3SerializerBase."""


@contextmanager
def open_rocksdb(file: KeyedFileSpec) -> Iterator[KeyedFileWriter]:
    """Open a database for writing; left with an error, its files are removed. Raises WriteFailed, InvalidOption.

    RocksDB compresses blocks by options of its own: the header of such a snapshot always says uncompressed.
    """
    names, groups = file.header.names, file.key_groups
    with (
        file.new_file() as meta,
        RocksDbWriter(file.new_file, names, groups, file.max_parallelism, file.rocksdb) as writer,
    ):
        meta.write(file.header.encoded(False))

        def close() -> KeyedHandle:
            private = writer.close()
            streams = [meta.close(), *(stream for _, stream in private)]
            with_id = file.release.has_handle_ids
            return IncrementalHandle(
                type_byte=_TYPE if with_id else _TYPE_WITHOUT_ID,
                checkpoint_id=file.checkpoint_id,
                backend_id=str(uuid.uuid4()),
                first_key_group=groups.start,
                key_group_count=len(groups),
                checkpointed_size=sum(stream.size for stream in streams) if with_id else None,
                meta=streams[0],
                shared=(),
                private=private,
                handle_id=str(uuid.uuid4()) if with_id else None,
            )

        yield KeyedFileWriter(writer.write, close, writer.entries)


def is_rocksdb_handle(handle: KeyedHandle) -> bool:
    """Whether the handle is of a database, without a changelog over it."""
    return not isinstance(handle, KeyGroupsHandle | ChangelogHandle)
