"""The table of handle types that a changelog may contain as its materialized part: files of key groups, databases."""

from __future__ import annotations

from stateproc.metadata.backend import KeyedHeader
from stateproc.metadata.handles import IncrementalHandle, KeyGroupsHandle
from stateproc.readers.canonical.splits import CANONICAL
from stateproc.readers.common.header_reader import MAX_HEADER
from stateproc.readers.common.key_groups_file import (
    key_groups_bytes,
    key_groups_handle,
    key_groups_header,
    key_groups_ranges,
    key_groups_source,
)
from stateproc.readers.common.keyed_file import HandleBackend, KeyedFile, StateLayout
from stateproc.readers.common.layout_detection import is_canonical
from stateproc.readers.heap.splits import HEAP
from stateproc.readers.rocksdb.splits import ROCKSDB, incremental_handle
from stateproc.storage import ByteSource, open_handle


def _key_groups_layout(file: KeyedFile) -> StateLayout:
    handle = key_groups_handle(file)
    return CANONICAL if is_canonical(handle.type_byte, handle.offsets, file.source, file.ranges) else HEAP


def _meta_source(file: KeyedFile) -> ByteSource:
    return open_handle(incremental_handle(file).meta, file.location)


def _meta_header(file: KeyedFile) -> KeyedHeader:
    return file.shared.headers.whole(file.source.read_all(MAX_HEADER), file.source.name)


MATERIALIZED_BACKENDS: dict[type, HandleBackend] = {
    KeyGroupsHandle: HandleBackend(
        layout=_key_groups_layout,
        header=key_groups_header,
        data_bytes=key_groups_bytes,
        source=key_groups_source,
        ranges=key_groups_ranges,
    ),
    IncrementalHandle: HandleBackend(
        layout=lambda _: ROCKSDB,
        header=_meta_header,
        data_bytes=lambda file: file.handle.stored_bytes,
        source=_meta_source,
        databases=lambda file: (incremental_handle(file),),
    ),
}
