"""Compute checksums of blocks (RocksDB: table/format.cc, util/crc32c.h), of contents and compression byte.

0    none
1    crc32c, masked: rotated right by 15 bits, plus 0xA282EAD8
2    xxhash of 32 bits
3    the lower half of xxhash of 64 bits
4    the lower half of xxh3 of the contents, XOR last byte * 0x6B9083D9
"""

from __future__ import annotations

import numpy as np
import xxhash

from stateproc.codec.array_types import Bytes, Longs, Words
from stateproc.codec.native.jit import crc32c_word, exported, load_le32, load_le64, load_u8
from stateproc.codec.native.library import has_crc32c

NONE, CRC32C, XXHASH32, XXHASH64, XXH3 = range(5)
CHECKSUMS = {NONE: "none", CRC32C: "crc32c", XXHASH32: "xxhash", XXHASH64: "xxhash64", XXH3: "xxh3"}
_LAST_BYTE_FACTOR = 0x6B9083D9


def _crc_tables() -> Words:
    """Eight tables, so that eight bytes are taken at a time (slicing by 8)."""
    tables = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        tables[0, byte] = value
    for level in range(1, 8):
        previous = tables[level - 1]
        tables[level] = (previous >> 8) ^ tables[0][previous & 0xFF]
    return tables


_TABLES = _crc_tables()
_HAS_INSTRUCTION = has_crc32c()


@exported
def crc32c_all(source: int, starts: Longs, ends: Longs, tables: int, out: Words) -> None:
    """Masked CRC-32C of each range [start, end) of the bytes at ``source``, which the caller has checked."""
    for k in range(len(starts)):
        at, stop = source + starts[k], source + ends[k]
        crc = np.int64(0xFFFFFFFF)
        if _HAS_INSTRUCTION:
            while at + 8 <= stop:
                crc = crc32c_word(crc, np.int64(load_le64(at)))
                at += 8
        while at + 8 <= stop:
            low = crc ^ load_le32(at)
            high = load_le32(at + 4)
            crc = (
                load_le32(tables + 7168 + ((low & 0xFF) << 2))
                ^ load_le32(tables + 6144 + (((low >> 8) & 0xFF) << 2))
                ^ load_le32(tables + 5120 + (((low >> 16) & 0xFF) << 2))
                ^ load_le32(tables + 4096 + (((low >> 24) & 0xFF) << 2))
                ^ load_le32(tables + 3072 + ((high & 0xFF) << 2))
                ^ load_le32(tables + 2048 + (((high >> 8) & 0xFF) << 2))
                ^ load_le32(tables + 1024 + (((high >> 16) & 0xFF) << 2))
                ^ load_le32(tables + (((high >> 24) & 0xFF) << 2))
            )
            at += 8
        while at < stop:
            crc = (crc >> 8) ^ load_le32(tables + (((crc ^ load_u8(at)) & 0xFF) << 2))
            at += 1
        crc ^= 0xFFFFFFFF
        out[k] = ((crc >> 15) | (crc << 17)) + 0xA282EAD8


def checksums(kind: int, data: Bytes, starts: Longs, ends: Longs) -> Words:
    """The checksum of each range of ``data`` (a block with its compression byte), as RocksDB stores it."""
    out = np.zeros(len(starts), dtype=np.uint32)
    if kind == CRC32C:
        crc32c_all(data.ctypes.data, starts, ends, _TABLES.ctypes.data, out)
    elif kind != NONE:
        view = data.data
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        out[:] = [_xxhash(kind, view[start:end]) for start, end in pairs]
    return out


def checksum(kind: int, data: bytes) -> int:
    """The checksum of all of ``data``."""
    raw = np.frombuffer(data, dtype=np.uint8)
    return int(checksums(kind, raw, np.array([0]), np.array([len(raw)]))[0])


def _xxhash(kind: int, data: memoryview) -> int:
    if kind == XXHASH32:
        return int(xxhash.xxh32_intdigest(data))
    if kind == XXHASH64:
        return int(xxhash.xxh64_intdigest(data)) & 0xFFFFFFFF
    if not len(data):
        return 0
    # XXH3 leaves out the compression byte, which is mixed in afterwards.
    low = int(xxhash.xxh3_64_intdigest(data[:-1])) & 0xFFFFFFFF
    return low ^ (data[-1] * _LAST_BYTE_FACTOR & 0xFFFFFFFF)


def context_modifier(context: int, offset: int) -> int:
    """What format version 6 adds to the checksum of a block at ``offset`` (ChecksumModifierForContext)."""
    return (context ^ ((offset & 0xFFFFFFFF) + (offset >> 32))) & 0xFFFFFFFF if context else 0
