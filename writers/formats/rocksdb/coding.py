"""Numbers as RocksDB writes them (util/coding.h), twins of stateproc.readers.rocksdb.format's."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """Groups of seven bits, the lowest first."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def slice_of(data: bytes) -> bytes:
    """Bytes behind their length."""
    return varint(len(data)) + data


def fixed32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def fixed64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def internal_key(key: bytes) -> bytes:
    """A user key with the trailer of a Put with the sequence number 0."""
    return key + b"\x01" + bytes(7)
