"""From an incremental handle to its header and its database's files.

Format: org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle, as RocksIncrementalSnapshotStrategy
and RocksNativeFullSnapshotStrategy (and ForSt's counterparts) write it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stateproc.errors import CorruptSnapshot, Where
from stateproc.metadata.backend import KeyedHeader, read_keyed_header
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.metadata.stream_handles import StreamHandle
from stateproc.readers.header_reader import MAX_HEADER, read_whole_header
from stateproc.readers.rocksdb.database import DatabaseFile
from stateproc.storage import SnapshotLocation, open_handle

_NO_NAME = re.compile(r"[/\\\x00]|^\.{0,2}$")
"""Not the local name of a file: a database that RocksDB opens is made of files of these names."""


@dataclass(frozen=True)
class RocksDbDatabase:
    """One subtask's database: header, the key groups it answers for, and its files."""

    header: KeyedHeader
    key_groups: range
    files: tuple[DatabaseFile, ...]


def database_files(handle: IncrementalHandle, location: SnapshotLocation) -> tuple[DatabaseFile, ...]:
    """The files of the handle's database, still untouched. Raises CorruptSnapshot, UnsupportedSnapshot."""
    handles: dict[str, StreamHandle] = {}
    for name, stream in (*handle.shared, *handle.private):
        if _NO_NAME.search(name):
            raise CorruptSnapshot(
                f"{name!r} is no name of a RocksDB file",
                where=Where(file=location.metadata_uri, offset=handle.offset),
                advice="Flink writes plain names only; do not trust this snapshot",
            )
        if handles.setdefault(name, stream) != stream:
            raise CorruptSnapshot(
                f"two files of one database have the local name {name!r}",
                where=Where(file=location.metadata_uri, offset=handle.offset),
                advice="_metadata is damaged; use a copy or take the snapshot again",
            )
    return tuple(DatabaseFile(name, open_handle(stream, location)) for name, stream in handles.items())


def open_database(handle: IncrementalHandle, location: SnapshotLocation) -> RocksDbDatabase:
    """Read the header and find the files. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile."""
    meta = open_handle(handle.meta, location)
    header = read_whole_header(meta.read_all(MAX_HEADER), meta.name, read_keyed_header)
    return RocksDbDatabase(header, handle.key_groups, database_files(handle, location))
