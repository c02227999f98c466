"""Keyed state of a subtask as a canonical file, with its handle (KeyGroupsSavepointStateHandle)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stateproc.codec.array_types import Longs
from stateproc.metadata.handles import CANONICAL_TYPE, KeyedHandle, KeyGroupsHandle
from stateproc.writers.formats.canonical.verify import verify_canonical
from stateproc.writers.formats.canonical.writer import CanonicalWriter
from stateproc.writers.formats.keyed_file import KeyedFileSpec, KeyedFileWriter


@contextmanager
def open_canonical(file: KeyedFileSpec) -> Iterator[KeyedFileWriter]:
    """Open a canonical file for writing; left with an error, the file is removed. Raises WriteFailed."""
    with file.new_file() as sink:
        writer = CanonicalWriter(
            sink,
            file.header.encoded(file.compressed),
            file.header.names,
            file.key_groups,
            file.max_parallelism,
            compressed=file.compressed,
        )

        def close() -> KeyedHandle:
            offsets = writer.close()
            return KeyGroupsHandle(CANONICAL_TYPE, file.key_groups.start, offsets, sink.close())

        yield KeyedFileWriter(writer.write, close, writer.entries)


def verify_canonical_file(file: KeyedFileSpec, handle: KeyedHandle, entries: Longs) -> None:
    """Compare a written file with the entries that were written to it. Raises WriteFailed."""
    assert isinstance(handle, KeyGroupsHandle)
    verify_canonical(
        handle, file.location, entries, file.header.names, file.max_parallelism, compressed=file.compressed
    )


def is_canonical_handle(handle: KeyedHandle) -> bool:
    """Whether the handle's file is in this format."""
    return isinstance(handle, KeyGroupsHandle) and handle.type_byte == CANONICAL_TYPE
