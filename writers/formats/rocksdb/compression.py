"""Blocks compressed as tables since format version 2 hold them; the reader is stateproc.readers.rocksdb.compression."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import cramjam

from stateproc.readers.rocksdb import compression as kinds
from stateproc.writers.formats.rocksdb.coding import varint

_MOST = 0x7FFFFFFF
"""RocksDB leaves larger blocks as they are."""


def _deflated(data: memoryview) -> bytes:
    stream = zlib.compressobj(level=6, wbits=-14)
    return stream.compress(data) + stream.flush()


def _sized(compress: Callable[[memoryview], bytes]) -> Callable[[memoryview], bytes]:
    """All but snappy have the decompressed size in front."""
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
"""By org.rocksdb.CompressionType: the byte behind a block, the name in a table's properties, how it is done."""
NO_COMPRESSION = "NO_COMPRESSION"
COMPRESSIONS = (NO_COMPRESSION, *_COMPRESS)


def property_name(compression: str) -> str:
    """What a table's properties call it."""
    return "NoCompression" if compression == NO_COMPRESSION else _COMPRESS[compression][1]


def compressed(data: memoryview, compression: str) -> tuple[int, bytes | memoryview]:
    """The type byte and the block's bytes; left as they are unless they shrink by an eighth (GoodCompressionRatio)."""
    if compression == NO_COMPRESSION or len(data) > _MOST:
        return kinds.NONE, data
    kind, _, compress = _COMPRESS[compression]
    small = compress(data)
    if len(small) >= len(data) - len(data) // 8:
        return kinds.NONE, data
    return kind, small
