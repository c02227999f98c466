"""Kernel that encodes raw entries as data blocks of a table (RocksDB: table/block_based/block_builder.cc).

A block is entries, each ``varint shared, varint unshared, varint value length, key's tail, value``, then the offsets of
its restarts (u32 each) and their number. At a restart, every 16 entries, a key shares no prefix.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import cramjam
import numpy as np

from stateproc.codec.array_types import Ints, Longs
from stateproc.codec.encoding.kernels import put_varint
from stateproc.codec.native.jit import copy_bytes, exported, load_u8, store_8, store_32, store_64
from stateproc.readers.rocksdb import compression as kinds

# Registers: the start of the open block, the end of the bytes, the open block's number of restarts, the entries since
# the last of them, the last entry's key group (-1: none), the number of closed blocks.
START, POS, RESTARTS, RUN, GROUP, CLOSED = 0, 1, 2, 3, 4, 5
REGISTERS = 6
RESTART_INTERVAL = 16
TRAILER = 8
"""After each user key: u64 little-endian ``sequence << 8 | type``."""
PUT = 1
"""A Put with the sequence number 0, as compactions write entries that no RocksDB snapshot distinguishes."""
OVERHEAD = 15 + TRAILER + 8
"""Most bytes of an entry besides prefix, key and value: three varints, a restart, a block's end."""
LEAST_ENTRY = 3 + TRAILER


@exported
def close_block(out: int, restarts: Longs, reg: Longs, ends: Longs, rows: Longs, row: int) -> None:
    """End the open block, whose last entry is ``row``, with its restarts and their number."""
    pos = reg[POS]
    for k in range(reg[RESTARTS]):
        store_32(out + pos, restarts[k])
        pos += 4
    store_32(out + pos, reg[RESTARTS])
    pos += 4
    ends[reg[CLOSED]] = pos
    rows[reg[CLOSED]] = row
    reg[CLOSED] += 1
    reg[START] = reg[POS] = pos
    reg[RESTARTS] = reg[RUN] = 0


@exported
def encode_blocks(
    first: int,
    last: int,
    groups: Ints,
    keys: int,
    key_offsets: Longs,
    values: int,
    value_offsets: Longs,
    prefix: int,
    block_size: int,
    before: int,
    before_size: int,
    out: int,
    restarts: Longs,
    reg: Longs,
    ends: Longs,
    rows: Longs,
) -> None:
    """Encode rows ``first`` to ``last`` (exclusive), which are in order, as blocks of about ``block_size`` bytes.

    before: the key, without prefix, of the entry before the first. out: address of a buffer for the open block up to
    ``reg[POS]`` and, for each row, OVERHEAD + ``prefix`` bytes besides key and value. restarts: int64, of the open
    block. ends, rows: int64, for each closed block its end in ``out`` and the row of its last entry, -1 for the entry
    before. An entry that is larger than a block has a block of its own.
    """
    for row in range(first, last):
        group = np.int64(groups[row])
        key, size = keys + key_offsets[row], key_offsets[row + 1] - key_offsets[row]
        value_size = value_offsets[row + 1] - value_offsets[row]
        used = reg[POS] - reg[START]
        if used > 0 and used + 4 * reg[RESTARTS] + 4 + LEAST_ENTRY + prefix + size + value_size > block_size:
            close_block(out, restarts, reg, ends, rows, row - 1 if row > first else -1)
        shared = np.int64(0)
        if reg[RESTARTS] == 0 or reg[RUN] == RESTART_INTERVAL:
            restarts[reg[RESTARTS]] = reg[POS] - reg[START]
            reg[RESTARTS] += 1
            reg[RUN] = 0
        elif group == reg[GROUP]:
            n = min(size, before_size)
            while shared < n and load_u8(key + shared) == load_u8(before + shared):
                shared += 1
            shared += prefix
        at = put_varint(out + reg[POS], shared)
        at = put_varint(at, prefix + size + TRAILER - shared)
        at = put_varint(at, value_size)
        if shared == 0:
            for k in range(prefix):
                store_8(at, (group >> (8 * (prefix - 1 - k))) & 0xFF)
                at += 1
            shared = np.int64(prefix)
        copy_bytes(at, key + shared - prefix, size + prefix - shared)
        at += size + prefix - shared
        store_64(at, PUT)
        copy_bytes(at + TRAILER, values + value_offsets[row], value_size)
        reg[POS] = at + TRAILER + value_size - out
        reg[RUN] += 1
        reg[GROUP] = group
        before, before_size = key, size


# Encode numbers as RocksDB does (util/coding.h); the decoders are in stateproc.readers.rocksdb.format.


def varint(value: int) -> bytes:
    """Encode a number in groups of seven bits, the lowest first."""
    if value < 1 << 7:
        return bytes((value,))
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if value < 1 << 28 and value >= 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14 & 127 | 128, value >> 21))
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def slice_of(data: bytes) -> bytes:
    """Return the bytes after their length."""
    return varint(len(data)) + data


def fixed32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def fixed64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def internal_key(key: bytes) -> bytes:
    """Return a user key with the trailer of a Put with the sequence number 0."""
    return key + b"\x01" + bytes(7)


# Compress blocks of tables of format version 2 and later; the reader is stateproc.readers.rocksdb.compression.

_MOST = 0x7FFFFFFF
"""RocksDB does not compress larger blocks."""


def _deflated(data: memoryview) -> bytes:
    stream = zlib.compressobj(level=6, wbits=-14)
    return stream.compress(data) + stream.flush()


def _sized(compress: Callable[[memoryview], bytes]) -> Callable[[memoryview], bytes]:
    """All but snappy are preceded by the decompressed size."""
    return lambda data: varint(len(data)) + compress(data)


_COMPRESS: dict[str, tuple[int, str, Callable[[memoryview], bytes]]] = {
    "SNAPPY_COMPRESSION": (kinds.SNAPPY, "Snappy", lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "ZLIB_COMPRESSION": (kinds.ZLIB, "Zlib", _sized(_deflated)),
    "LZ4_COMPRESSION": (
        kinds.LZ4,
        "LZ4",
        _sized(lambda data: bytes(cramjam.lz4.compress_block(data, store_size=False))),
    ),
    "LZ4HC_COMPRESSION": (
        kinds.LZ4HC,
        "LZ4HC",
        _sized(lambda data: bytes(cramjam.lz4.compress_block(data, mode="high_compression", store_size=False))),
    ),
    "ZSTD_COMPRESSION": (kinds.ZSTD, "ZSTD", _sized(lambda data: bytes(cramjam.zstd.compress(data)))),
}
"""By org.rocksdb.CompressionType: the byte after a block, the name in a table's properties, the function."""
NO_COMPRESSION = "NO_COMPRESSION"
COMPRESSIONS = (NO_COMPRESSION, *_COMPRESS)


def property_name(compression: str) -> str:
    """Return the name of a compression in a table's properties."""
    return "NoCompression" if compression == NO_COMPRESSION else _COMPRESS[compression][1]


def compressed(data: memoryview, compression: str) -> tuple[int, bytes | memoryview]:
    """Return type byte and bytes of a block, compressed if it shrinks by an eighth (GoodCompressionRatio)."""
    if compression == NO_COMPRESSION or len(data) > _MOST:
        return kinds.NONE, data
    kind, _, compress = _COMPRESS[compression]
    small = compress(data)
    if len(small) >= len(data) - len(data) // 8:
        return kinds.NONE, data
    return kind, small
