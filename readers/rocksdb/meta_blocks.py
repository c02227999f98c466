"""Small blocks of a table, entry by entry: the metaindex, properties, range tombstones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from stateproc.readers.rocksdb.blocks import BlockReader, ChecksumMismatch
from stateproc.readers.rocksdb.compression import NONE
from stateproc.readers.rocksdb.format import TRAILER_SIZE, BlockHandle, damaged, varint

_MAX_KEYS = 1 << 26
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
    checksum; so the checksum may also be that of the block with the number 0. Raises CorruptSnapshot.
    """
    block = replace(reader, verify=False).block(handle)
    data = block.plain[: int(block.ends[0])].tobytes()
    raw = np.frombuffer(reader.fetch(handle.offset, handle.size + TRAILER_SIZE), dtype=np.uint8)
    found = list(_entries(data, block.file, handle.offset))
    if not _intact(reader, handle, raw):
        ingested = raw.copy()
        for key, start, end in found:
            if key == GLOBAL_SEQNO and raw[handle.size] == NONE:
                ingested[start:end] = 0
        if not _intact(reader, handle, ingested):
            raise damaged(block.file, handle.offset, "the checksum of the table's properties is wrong")
    return [(key, data[start:end]) for key, start, end in found]


def _intact(reader: BlockReader, handle: BlockHandle, raw: npt.NDArray[np.uint8]) -> bool:
    try:
        reader.plain(raw, np.array([0]), np.array([handle.size]), np.array([handle.offset]))
    except ChecksumMismatch:
        return False
    return True
