"""The formats in which keyed state can be written: one table row per format."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum

from stateproc.codec.array_types import Longs
from stateproc.errors import InvalidOption
from stateproc.metadata.keyed_handles import KeyedHandle
from stateproc.writers.formats.canonical import is_canonical_handle, open_canonical, verify_canonical
from stateproc.writers.formats.heap import is_heap_handle, open_heap, verify_heap
from stateproc.writers.formats.keyed_file import KeyedFileSpec, KeyedFileWriter
from stateproc.writers.formats.rocksdb.writer import is_rocksdb_handle, open_rocksdb, verify_rocksdb


class OutputFormat(Enum):
    """The name of a format; CANONICAL is restored by every state backend."""

    CANONICAL = "canonical"
    NATIVE_HASHMAP = "native-hashmap"
    NATIVE_ROCKSDB = "native-rocksdb"

    @classmethod
    def of(cls, name: str) -> OutputFormat:
        """Return the format of a name. Raises InvalidOption for an unknown one."""
        known = {item.value: item for item in cls}
        if name not in known:
            raise InvalidOption(f"no format is called {name!r}", advice=f"there are {', '.join(known)}")
        return known[name]


@dataclass(frozen=True)
class KeyedFormat:
    """What writing a format takes.

    Attributes:
        open: opens a subtask's file or database for writing.
        verify: compares a written one with the entries written to it; raises WriteFailed.
        is_handle_of: whether a snapshot's handle is of this format already.
    """

    open: Callable[[KeyedFileSpec], AbstractContextManager[KeyedFileWriter]]
    verify: Callable[[KeyedFileSpec, KeyedHandle, Longs], None]
    is_handle_of: Callable[[KeyedHandle], bool]


KEYED_FORMATS: dict[OutputFormat, KeyedFormat] = {
    OutputFormat.CANONICAL: KeyedFormat(open_canonical, verify_canonical, is_canonical_handle),
    OutputFormat.NATIVE_HASHMAP: KeyedFormat(open_heap, verify_heap, is_heap_handle),
    OutputFormat.NATIVE_ROCKSDB: KeyedFormat(open_rocksdb, verify_rocksdb, is_rocksdb_handle),
}
