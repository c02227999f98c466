"""Keyed state of a subtask as a native heap file, with its handle (KeyGroupsStateHandle)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from stateproc.codec.array_types import Longs
from stateproc.metadata.handles import CANONICAL_TYPE, KeyedHandle, KeyGroupsHandle
from stateproc.writers.formats.heap.verify import verify_heap
from stateproc.writers.formats.heap.writer import HeapWriter
from stateproc.writers.formats.keyed_file import KeyedFileSpec, KeyedFileWriter

_TYPE, _TYPE_WITHOUT_ID = 12, 3
"""KEY_GROUPS_HANDLE_V2 and KEY_GROUPS_HANDLE in MetadataV2V3SerializerBase."""


@contextmanager
def open_heap(file: KeyedFileSpec) -> Iterator[KeyedFileWriter]:
    """Open a native heap file for writing; left with an error, the file is removed. Raises WriteFailed."""
    with file.new_file() as sink:
        writer = HeapWriter(
            sink,
            file.header.encoded(file.compressed),
            file.states,
            file.key_groups,
            file.context,
            compressed=file.compressed,
        )

        def close() -> KeyedHandle:
            offsets, stream = writer.close(), sink.close()
            if not file.release.has_handle_ids:
                return KeyGroupsHandle(_TYPE_WITHOUT_ID, file.key_groups.start, offsets, stream)
            return KeyGroupsHandle(_TYPE, file.key_groups.start, offsets, stream, str(uuid.uuid4()))

        yield KeyedFileWriter(writer.write, close, writer.entries)


def verify_heap_file(file: KeyedFileSpec, handle: KeyedHandle, entries: Longs) -> None:
    """Compare a written file with the entries that were written to it. Raises WriteFailed."""
    assert isinstance(handle, KeyGroupsHandle)
    verify_heap(handle, file.location, entries, file.states, file.context, compressed=file.compressed)


def is_heap_handle(handle: KeyedHandle) -> bool:
    """Whether the handle's file is in this format."""
    return isinstance(handle, KeyGroupsHandle) and handle.type_byte != CANONICAL_TYPE
