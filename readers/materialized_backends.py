"""The table of handle types that a changelog may contain as its materialized part: files of key groups, databases."""

from __future__ import annotations

from collections.abc import Sequence

from stateproc.metadata.backend import KeyedHeader
from stateproc.metadata.handles import CANONICAL_TYPE, IncrementalHandle, KeyGroupsHandle
from stateproc.readers.canonical.reader import CANONICAL
from stateproc.readers.header_reader import MAX_HEADER
from stateproc.readers.heap.reader import HEAP
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.key_groups_file import (
    key_groups_bytes,
    key_groups_handle,
    key_groups_header,
    key_groups_ranges,
    key_groups_source,
)
from stateproc.readers.keyed_file import HandleBackend, KeyedFile, StateLayout
from stateproc.readers.rocksdb.splits import ROCKSDB, incremental_handle
from stateproc.storage import ByteSource, open_handle, read_ranges
from stateproc.storage.ranges import is_remote

# Whether a KeyGroups file of handle type 3 or 12 holds canonical entries or native heap state.
#
# The handle does not say: RocksDB wrote canonical entries under these types up to 1.15, heap backends their own
# format. Every key group of a heap file begins with its i32 number; a canonical one with a state id and a length.

_NUMBER = 4
_GAP = 2 << 10
"""Little key groups share a request; all that is read of 32,768 of them stays under 64 MiB."""
_LENGTH_SHIFT = 16
"""The number is read as a canonical state id of 0 and the upper half of a key's length."""


def is_canonical(type_byte: int, offsets: Sequence[int], source: ByteSource, ranges: Sequence[KeyGroupRange]) -> bool:
    """True for canonical entries. ``ranges``: the non-empty key groups of ``offsets`` (0 is an empty canonical one)."""
    if type_byte == CANONICAL_TYPE or not ranges:
        return True
    if any(offset == 0 for offset in offsets):
        return True
    if any(item.stop - item.start < _NUMBER for item in ranges):
        return True
    conclusive = next(filter(_is_conclusive, ranges), None)
    if conclusive is not None:
        return not _begins_with_number(source.read(conclusive.start, _NUMBER), conclusive)
    if not is_remote(source):
        return not all(_begins_with_number(source.read(item.start, _NUMBER), item) for item in ranges)
    # Most canonical files are known by the first key group.
    for items in (ranges[:1], ranges[1:]):
        heads = read_ranges(source, [(item.start, _NUMBER) for item in items], _GAP)
        if not all(_begins_with_number(head, item) for head, item in zip(heads, items, strict=True)):
            return True
    return False


def _is_conclusive(item: KeyGroupRange) -> bool:
    """Whether canonical entries that begin with the key group's number would have a key longer than the key group."""
    return item.key_group << _LENGTH_SHIFT > item.stop - item.start


def _begins_with_number(head: bytes | memoryview, item: KeyGroupRange) -> bool:
    return int.from_bytes(head, "big") == item.key_group


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
