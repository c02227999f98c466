"""Constants, handles and footers of block-based tables (RocksDB: table/format.h, table/format.cc).

A table: data blocks, filter, range deletions, properties, metaindex, index, footer. Numbers are little-endian.

    block      contents, u8 compression, u32 checksum of contents and compression; a handle's size counts the contents
    handle     varint offset, varint size

    footer of versions 1 to 5, 53 bytes            of version 0, 48 bytes (checksums are crc32c)
     0   u8 checksum type                           0   handles of metaindex and index, padded to 40 bytes
     1   handles of metaindex and index,           40   u64 0xDB4775248B80FB57
         padded to 40 bytes
    41   u32 format version
    45   u64 0x88E241B785F4CFF7

    footer of version 6, 53 bytes
     0   u8 checksum type
     1   3E 00 7A 00
     5   u32 checksum of the footer
     9   u32 base context of checksums, which depend on the position of their block
    13   u32 size of the metaindex, which ends in front of its trailer and the footer; it has the index's handle
    41   u32 format version
    45   u64 0x88E241B785F4CFF7
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where
from stateproc.readers.rocksdb.checksums import CHECKSUMS, CRC32C, checksum, context_modifier

FOOTER_SIZE = 53
_FIRST_FOOTER_SIZE = 48
TRAILER_SIZE = 5
"""After every block: u8 compression type, u32 checksum."""
MAX_SEQUENCE = (1 << 56) - 1
MAX_BLOCK = 1 << 31
"""Bytes of a stored block: a value in Flink is a Java array and has less, and large ones have their own block."""
_MAGIC = 0x88E241B785F4CFF7
_LEGACY_MAGIC = 0xDB4775248B80FB57
_EXTENDED_MAGIC = b"\x3e\x00\x7a\x00"
_VERSIONS = range(7)
_TAIL = struct.Struct("<IQ")

DAMAGED = "the file is damaged or no table of RocksDB; use a copy or take the snapshot again"


def damaged(file: str, offset: int, what: str) -> CorruptSnapshot:
    """The error for bytes that RocksDB would not have written."""
    return CorruptSnapshot(what, where=Where(file=file, offset=offset), advice=DAMAGED)


@dataclass(frozen=True, slots=True)
class BlockHandle:
    """The position of a block in its file; ``size`` does not count the trailer."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Footer:
    """A table's last 53 bytes (48 of version 0, which Flink 1.8 to 1.13 write).

    ``index`` None: its handle is in the metaindex (since format version 6). ``context``: base of the checksums'
    modifier by place, 0 for none.
    """

    version: int
    checksum: int
    metaindex: BlockHandle
    index: BlockHandle | None
    context: int


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint of up to 64 bits, and the position after it. Raises ValueError."""
    value = shift = 0
    while at < len(data) and shift <= 63:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            if value >> 64:
                break
            return value, at
        shift += 7
    raise ValueError("a number is cut off or over 64 bits")


def block_handle(data: bytes | memoryview, at: int = 0) -> tuple[BlockHandle, int]:
    """A handle as two varints, and the position after it. Raises ValueError."""
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return BlockHandle(offset, size), at


def read_footer(data: bytes, file: str, size: int, *, verify: bool = True) -> Footer:
    """The footer at the end of ``data``, which is the end of a file of ``size`` bytes.

    Raises CorruptSnapshot, UnsupportedSnapshot.
    """
    raw = data[-FOOTER_SIZE:]
    at = size - FOOTER_SIZE
    if len(raw) >= 8 and int.from_bytes(raw[-8:], "little") == _LEGACY_MAGIC:
        return _first(data[-_FIRST_FOOTER_SIZE:], file, size)
    if len(raw) < FOOTER_SIZE:
        raise damaged(file, 0, f"a table of {size} bytes")
    version, magic = _TAIL.unpack(raw[-12:])
    if magic != _MAGIC:
        raise damaged(file, size - 8, f"a table ends with {raw[-8:].hex(' ')} instead of its magic number")
    if version not in _VERSIONS:
        raise _unsupported(file, size - 12, f"a table of the format version {version}, where 0 to 6 are read")
    kind = raw[0]
    if kind not in CHECKSUMS:
        raise _unsupported(file, at, f"checksums of the unknown type {kind}")
    if version < 6:
        return _checked(Footer(version, kind, *_two_handles(raw, 1, file, at), 0), file, at)
    return _checked(_extended(raw, file, at, kind, verify), file, at)


def _first(raw: bytes, file: str, size: int) -> Footer:
    """The footer of format version 0: two handles, padding, the first magic number; checksums are crc32c."""
    at = size - _FIRST_FOOTER_SIZE
    if at < 0:
        raise damaged(file, 0, f"a table of {size} bytes")
    return _checked(Footer(0, CRC32C, *_two_handles(raw, 0, file, at), 0), file, at)


def _two_handles(raw: bytes, pos: int, file: str, at: int) -> tuple[BlockHandle, BlockHandle]:
    try:
        metaindex, pos = block_handle(raw, pos)
        index, _ = block_handle(raw, pos)
    except ValueError as error:
        raise damaged(file, at, f"the footer is damaged: {error}") from error
    return metaindex, index


def _checked(footer: Footer, file: str, at: int) -> Footer:
    """The footer if its handles lie before it."""
    for handle in (footer.metaindex, footer.index):
        if handle is not None and handle.offset + handle.size + TRAILER_SIZE > at:
            raise damaged(file, at, f"the footer points to byte {handle.offset}, {handle.size} bytes long")
    return footer


def _extended(raw: bytes, file: str, at: int, kind: int, verify: bool) -> Footer:
    """The layout since format version 6: magic, checksum, context, size of the metaindex block before it."""
    if raw[1:5] != _EXTENDED_MAGIC:
        raise damaged(file, at, "the footer lacks the second magic number of format version 6")
    stored, context, length = struct.unpack_from("<III", raw, 5)
    if verify and kind:
        found = checksum(kind, raw[:5] + bytes(4) + raw[9:])
        if (found + context_modifier(context, at)) & 0xFFFFFFFF != stored:
            raise damaged(file, at, "the footer's checksum is wrong")
    start = at - TRAILER_SIZE - length
    if start < 0:
        raise damaged(file, at, f"the footer locates a metaindex of {length} bytes before byte {at}")
    return Footer(6, kind, BlockHandle(start, length), None, context)


def _unsupported(file: str, offset: int, what: str) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        what,
        where=Where(file=file, offset=offset),
        advice="let Flink restore the snapshot and take a canonical savepoint of it",
    )
