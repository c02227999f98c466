"""Compress blocks of tables of format version 2 and later; the reader is stateproc.readers.rocksdb.compression."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import cramjam

from stateproc.readers.rocksdb import compression as kinds
from stateproc.writers.formats.rocksdb.coding import varint

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
        kinds.LZ4, "LZ4", _sized(lambda data: bytes(cramjam.lz4.compress_block(data, store_size=False)))
    ),
    "LZ4HC_COMPRESSION": (
        kinds.LZ4HC, "LZ4HC",
        _sized(lambda data: bytes(cramjam.lz4.compress_block(data, mode="high_compression", store_size=False))),
    ),
    "ZSTD_COMPRESSION": (kinds.ZSTD, "ZSTD", _sized(lambda data: bytes(cramjam.zstd.compress(data)))),
}  # fmt: skip
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
