"""Small blocks of a table, entry by entry: the metaindex, properties, range tombstones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stateproc.readers.rocksdb.blocks import BlockReader, ChecksumMismatch
from stateproc.readers.rocksdb.format import TRAILER_SIZE, BlockHandle, damaged, varint

_MAX_KEYS = 1 << 28
GLOBAL_SEQNO = b"rocksdb.external_sst_file.global_seqno"


def entries_of(reader: BlockReader, handle: BlockHandle) -> list[tuple[bytes, bytes]]:
    """All (key, value) of a block. Raises CorruptSnapshot, UnsupportedSnapshot."""
    block = reader.block(handle)
    data = block.plain[: int(block.ends[0])].tobytes()
    return [(key, data[start:end]) for key, start, end in _entries(data, block.file, handle.offset)]


def _entries(data: bytes, file: str, offset: int) -> Iterator[tuple[bytes, int, int]]:
    """Key, start and end of the value: varints shared, unshared, value length; then key tail, value."""
    at, key, total = 0, b"", 0
    while at < len(data):
        try:
            shared, at = varint(data, at)
            unshared, at = varint(data, at)
            length, at = varint(data, at)
        except ValueError as error:
            raise damaged(file, offset, f"an entry of a block is damaged: {error}") from error
        if shared > len(key) or unshared + length > len(data) - at:
            raise damaged(file, offset, "an entry of a block has an impossible length")
        total += shared + unshared
        if total > _MAX_KEYS:
            raise damaged(file, offset, f"the keys of a block take over {_MAX_KEYS} bytes")
        key = key[:shared] + data[at : at + unshared]
        at += unshared
        yield key, at, at + length
        at += length


def property_entries(reader: BlockReader, handle: BlockHandle) -> list[tuple[bytes, bytes]]:
    """The properties block's entries.

    When a file is ingested its global sequence number is written over the one in this block, without a new
    checksum; so the checksum may also be that of the block with the number 0.
    """
    reader.check_handle(handle)
    raw = bytearray(reader.fetch(handle.offset, handle.size + TRAILER_SIZE))
    starts, sizes, offsets = np.array([0]), np.array([handle.size]), np.array([handle.offset])
    try:
        reader.plain(np.frombuffer(bytes(raw), dtype=np.uint8), starts, sizes, offsets)
    except ChecksumMismatch as mismatch:
        at = raw.find(GLOBAL_SEQNO)
        value = at + len(GLOBAL_SEQNO)
        if at < 0 or value + 8 > handle.size:
            raise damaged(
                reader.file, handle.offset, "the checksum of the table's properties is wrong"
            ) from mismatch
        raw[value : value + 8] = bytes(8)
        try:
            reader.plain(np.frombuffer(bytes(raw), dtype=np.uint8), starts, sizes, offsets)
        except ChecksumMismatch as second:
            raise damaged(
                reader.file, handle.offset, "the checksum of the table's properties is wrong"
            ) from second
    return entries_of(_unverified(reader), handle)


def _unverified(reader: BlockReader) -> BlockReader:
    return BlockReader(reader.source, reader.footer, reader.tail, False)
