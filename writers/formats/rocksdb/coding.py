"""Encode numbers as RocksDB does (util/coding.h); the decoders are in stateproc.readers.rocksdb.format."""

from __future__ import annotations


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
