"""Keyed state of a subtask as a RocksDB database, with its handle (IncrementalRemoteKeyedStateHandle)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from stateproc.codec.array_types import Longs
from stateproc.metadata.handles import ChangelogHandle, KeyedHandle, KeyGroupsHandle
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.writers.formats.keyed_file import KeyedFileSpec, KeyedFileWriter
from stateproc.writers.formats.rocksdb.verify import verify_rocksdb
from stateproc.writers.formats.rocksdb.writer import RocksDbWriter

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


def verify_rocksdb_database(file: KeyedFileSpec, handle: KeyedHandle, entries: Longs) -> None:
    """Compare a written database with the entries that were written to it. Raises WriteFailed."""
    assert isinstance(handle, IncrementalHandle)
    verify_rocksdb(handle, file.location, entries, file.header.names, file.max_parallelism)


def is_rocksdb_handle(handle: KeyedHandle) -> bool:
    """Whether the handle is of a database, without a changelog over it."""
    return not isinstance(handle, KeyGroupsHandle | ChangelogHandle)
