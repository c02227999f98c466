"""Write tables (sst files) as RocksDB does (table/block_based/block_based_table_builder.cc).

    data blocks, [filter], index, properties, metaindex, footer

each block followed by its compression (u8) and the masked CRC-32C of both (u32). Format version 4, which the RocksDB of
Flink 1.13 (5.17) reads as well as those of 1.14 to 2.x (6.20, 8.10); version 5 adds only another default of filters.
The reader is stateproc.readers.rocksdb.table.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stateproc.codec.array_types import Ints, Longs, Words
from stateproc.codec.native.jit import exported, kernel, load_le32, load_u8, store_8
from stateproc.readers.rocksdb.checksums import CRC32C, checksums
from stateproc.readers.rocksdb.format import FOOTER_SIZE
from stateproc.writers.formats.byte_sink import ByteSink
from stateproc.writers.formats.entry_batches import EntryColumns
from stateproc.writers.formats.rocksdb import block_builder as builder
from stateproc.writers.formats.rocksdb.block_builder import compressed, fixed32, property_name, slice_of, varint
from stateproc.writers.formats.rocksdb.options import TableOptions

# Build bloom filters of tables, in the format that every RocksDB reads (util/bloom_impl.h, LegacyLocalityBloomImpl).
#
# A filter is an odd number of cache lines of 64 bytes; a key's hash chooses the line and the bits in it. They are
# followed by the number of probes (one byte) and the number of lines (u32).

FILTER_POLICY = "rocksdb.BuiltinBloomFilter"
_LINE = 64
_SEED, _M = 0xBC9F1D34, 0xC6A4A793
_MASK = 0xFFFFFFFF


@kernel
def _hash(data: int, n: int) -> int:
    """BloomHash in util/hash.h: 32 bits; the bytes after the last whole word count with their signs."""
    h = _SEED ^ ((n * _M) & _MASK)
    at, stop = data, data + n
    while at + 4 <= stop:
        h = (((h + load_le32(at)) & _MASK) * _M) & _MASK
        h ^= h >> 16
        at += 4
    left = stop - at
    if left > 0:
        for k in range(left):
            byte = np.int64(load_u8(at + k))
            h = (h + ((byte - 256 if byte > 127 else byte) << (8 * k))) & _MASK
        h = (h * _M) & _MASK
        h ^= h >> 24
    return h


@exported
def hash_keys(
    first: int, last: int, groups: Ints, keys: int, key_offsets: Longs, prefix: int, buffer: int, out: Words
) -> None:
    """Hash the keys of rows ``first`` to ``last`` with their prefixes; ``buffer`` holds the longest of them."""
    for row in range(first, last):
        group = np.int64(groups[row])
        size = key_offsets[row + 1] - key_offsets[row]
        for k in range(prefix):
            store_8(buffer + k, (group >> (8 * (prefix - 1 - k))) & 0xFF)
        for k in range(size):
            store_8(buffer + prefix + k, np.int64(load_u8(keys + key_offsets[row] + k)))
        out[row - first] = _hash(buffer, size + prefix)


@exported
def _set_bits(hashes: Words, lines: int, probes: int, bits: int) -> None:
    for k in range(len(hashes)):
        h = np.int64(hashes[k])
        line = bits + (h % lines) * _LINE
        delta = ((h >> 17) | (h << 15)) & _MASK
        for _ in range(probes):
            bit = h & (8 * _LINE - 1)
            at = line + (bit >> 3)
            store_8(at, np.int64(load_u8(at)) | (1 << (bit & 7)))
            h = (h + delta) & _MASK


def bloom_filter(hashes: npt.NDArray[np.uint32], bits_per_key: float) -> bytes:
    """Return a filter of the keys with these hashes."""
    lines = -(-int(len(hashes) * bits_per_key) // (8 * _LINE)) or 1
    lines += 1 - lines % 2
    probes = min(30, max(1, int(bits_per_key * 0.69)))
    bits = np.zeros(lines * _LINE, dtype=np.uint8)
    _set_bits(hashes, lines, probes, bits.ctypes.data)
    return bits.tobytes() + bytes([probes]) + lines.to_bytes(4, "little")


FORMAT_VERSION = 4
MERGE_OPERATOR = "StringAppendTESTOperator"
"""The name of ``stringappendtest``, the merge operator in Flink's column families."""
COMPARATOR = "leveldb.BytewiseComparator"
_MAGIC = 0x88E241B785F4CFF7
_RAW = b"\0"
_TRAILERS = [bytes([kind, 0, 0, 0, 0]) for kind in range(8)]
"""After a block: the type of its compression, and four bytes for its checksum."""


@dataclass(frozen=True)
class WrittenTable:
    """A table as a MANIFEST describes it. ``size`` in bytes, ``created`` in seconds since 1970."""

    number: int
    size: int
    smallest: bytes
    largest: bytes
    created: int

    @property
    def name(self) -> str:
        return f"{self.number:06d}.sst"


class SstWriter:
    """Writes one table; it buffers the open block, the index and, for a filter, four bytes per key.

    prefix: width of the key-group prefix. created: seconds since 1970.
    """

    def __init__(
        self, sink: ByteSink, number: int, family_id: int, family: str, prefix: int, options: TableOptions, created: int
    ) -> None:
        self._sink, self._number, self._family_id, self._family = sink, number, family_id, family
        self._prefix, self._options, self._created = prefix, options, created
        self.size = 0
        self._out = np.empty(0, dtype=np.uint8)
        self._reg = np.zeros(builder.REGISTERS, dtype=np.int64)
        self._reg[builder.GROUP] = -1
        blocks = options.block_size // (builder.LEAST_ENTRY * builder.RESTART_INTERVAL) + 2
        self._restarts = np.zeros(blocks, dtype=np.int64)
        self._smallest: bytes | None = None
        self._last_key, self._last = b"", np.empty(0, dtype=np.uint8)
        self._index, self._index_restarts = bytearray(), [0]
        self._hashes: list[npt.NDArray[np.uint32]] = []
        self._entries = self._blocks = self._key_bytes = self._value_bytes = 0

    @property
    def held(self) -> int:
        """Bytes of index and filter that are buffered until the table is finished."""
        return len(self._index) + 4 * len(self._index_restarts) + sum(item.nbytes for item in self._hashes)

    def add(self, columns: EntryColumns, first: int, last: int) -> None:
        """Append rows ``first`` to ``last`` (exclusive; one at least), all of this table's state."""
        keys, values, reg = columns.keys, columns.values, self._reg
        key_bytes = int(keys.offsets[last] - keys.offsets[first])
        value_bytes = int(values.offsets[last] - values.offsets[first])
        n = last - first
        self._reserve(key_bytes + value_bytes + n * (builder.OVERHEAD + self._prefix))
        ends, rows = np.empty(n + 1, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
        reg[builder.CLOSED] = 0
        builder.encode_blocks(
            first,
            last,
            columns.key_groups,
            keys.address,
            keys.offsets,
            values.address,
            values.offsets,
            self._prefix,
            self._options.block_size,
            self._last.ctypes.data,
            len(self._last),
            self._out.ctypes.data,
            self._restarts,
            reg,
            ends,
            rows,
        )
        if self._options.bloom_bits_per_key is not None:
            self._hashes.append(self._hashed(columns, first, last))
        if self._smallest is None:
            self._smallest = self._key(columns, first)
        self._emit_blocks(ends, [self._last_key if row < 0 else self._key(columns, row) for row in self._closed(rows)])
        self._last_key = self._key(columns, last - 1)
        self._last = np.frombuffer(self._last_key, dtype=np.uint8)[self._prefix :]
        self._entries += n
        self._key_bytes += key_bytes + n * (self._prefix + builder.TRAILER)
        self._value_bytes += value_bytes

    def finish(self) -> WrittenTable:
        """Write the rest. The sink stays open."""
        assert self._smallest is not None
        self._reserve(4 * len(self._restarts) + 4)
        ends, rows = np.empty(1, dtype=np.int64), np.empty(1, dtype=np.int64)
        self._reg[builder.CLOSED] = 0
        builder.close_block(self._out.ctypes.data, self._restarts, self._reg, ends, rows, -1)
        self._emit_blocks(ends, [self._last_key])
        data_size, filter_size = self.size, 0
        meta: dict[bytes, bytes] = {}
        if self._options.bloom_bits_per_key is not None:
            bits = bloom_filter(np.concatenate(self._hashes), self._options.bloom_bits_per_key)
            filter_size = len(bits)
            meta[b"fullfilter." + FILTER_POLICY.encode()] = self._emit_block(bits)
        index = bytes(self._index) + b"".join(map(fixed32, [*self._index_restarts[:-1], len(self._index_restarts) - 1]))
        index_handle = self._emit_block(index)
        properties = self._properties(data_size, len(index) + 5, filter_size)
        meta[b"rocksdb.properties"] = self._emit_block(block(properties))
        footer = bytes([CRC32C]) + self._emit_block(block(meta)) + index_handle
        self._emit(footer.ljust(FOOTER_SIZE - 12, b"\0") + struct.pack("<IQ", FORMAT_VERSION, _MAGIC))
        return WrittenTable(self._number, self.size, self._smallest, self._last_key, self._created)

    def _reserve(self, more: int) -> None:
        """Move the open block to the front of the buffer, and make the buffer ``more`` bytes longer than it."""
        reg = self._reg
        start, held = int(reg[builder.START]), int(reg[builder.POS] - reg[builder.START])
        size = held + more + 4 * len(self._restarts) + 4
        out = np.empty(size, dtype=np.uint8) if len(self._out) < size else self._out
        out[:held] = self._out[start : start + held].copy()
        self._out = out
        reg[builder.START], reg[builder.POS] = 0, held

    def _closed(self, rows: npt.NDArray[np.int64]) -> list[int]:
        found: list[int] = rows[: self._reg[builder.CLOSED]].tolist()
        return found

    def _key(self, columns: EntryColumns, row: int) -> bytes:
        return int(columns.key_groups[row]).to_bytes(self._prefix, "big") + columns.keys.row(row)

    def _hashed(self, columns: EntryColumns, first: int, last: int) -> npt.NDArray[np.uint32]:
        offsets = columns.keys.offsets
        buffer = np.empty(self._prefix + int(np.diff(offsets[first : last + 1]).max()), dtype=np.uint8)
        out = np.empty(last - first, dtype=np.uint32)
        hash_keys(first, last, columns.key_groups, columns.keys.address, offsets, self._prefix, buffer.ctypes.data, out)
        return out

    def _emit_blocks(self, ends: npt.NDArray[np.int64], last_keys: list[bytes]) -> None:
        """Write the blocks that end at ``ends``, and add each to the index under its last key."""
        parts: list[bytes | memoryview] = []
        starts, stops = [], []
        at = begin = 0
        data, compression = self._out.data, self._options.compression
        for end, key in zip(ends[: len(last_keys)].tolist(), last_keys, strict=True):
            kind, content = compressed(data[begin:end], compression)
            parts += [content, _TRAILERS[kind]]
            starts.append(at)
            stops.append(at + len(content) + 1)
            self._index += b"\0" + slice_of(key) + varint(self.size + at) + varint(len(content))
            self._index_restarts.append(len(self._index))
            at, begin = at + len(content) + 5, end
        self._blocks += len(last_keys)
        self._emit(with_checksums(parts, starts, stops))

    def _emit_block(self, content: bytes) -> bytes:
        """Write a block uncompressed and return its handle."""
        handle = varint(self.size) + varint(len(content))
        self._emit(with_checksums([content, _RAW, bytes(4)], [0], [len(content) + 1]))
        return handle

    def _emit(self, data: bytes | bytearray) -> None:
        if data:
            self._sink.write(memoryview(data))
            self.size += len(data)

    def _properties(self, data_size: int, index_size: int, filter_size: int) -> Mapping[bytes, bytes]:
        """TableProperties, as table/meta_blocks.cc writes them."""
        numbers = {
            "column.family.id": self._family_id,
            "creation.time": self._created,
            "data.size": data_size,
            "deleted.keys": 0,
            "file.creation.time": self._created,
            "filter.size": filter_size,
            "fixed.key.length": 0,
            "format.version": 0,
            "index.key.is.user.key": 1,
            "index.size": index_size,
            "index.value.is.delta.encoded": 1,
            "merge.operands": 0,
            "num.data.blocks": self._blocks,
            "num.entries": self._entries,
            "num.range-deletions": 0,
            "oldest.key.time": self._created,
            "original.file.number": self._number,
            "raw.key.size": self._key_bytes,
            "raw.value.size": self._value_bytes,
        }
        texts = {
            "block.based.table.prefix.filtering": "0",
            "block.based.table.whole.key.filtering": "1",
            "column.family.name": self._family,
            "comparator": COMPARATOR,
            "compression": property_name(self._options.compression),
            "merge.operator": MERGE_OPERATOR,
            "prefix.extractor.name": "nullptr",
            "property.collectors": "[]",
        }
        if self._options.bloom_bits_per_key is not None:
            texts["filter.policy"] = FILTER_POLICY
        raw = {name: varint(value) for name, value in numbers.items()}
        raw |= {name: text.encode("utf-8", "replace") for name, text in texts.items()}
        raw["block.based.table.index.type"] = fixed32(0)
        return {f"rocksdb.{name}".encode(): value for name, value in raw.items()}


def block(entries: Mapping[bytes, bytes]) -> bytes:
    """Return a small block with its entries in order, without shared prefixes."""
    content, restarts = bytearray(), []
    for key in sorted(entries):
        restarts.append(len(content))
        content += b"\0" + varint(len(key)) + varint(len(entries[key])) + key + entries[key]
    return bytes(content) + b"".join(map(fixed32, [*restarts, len(restarts)]))


def with_checksums(parts: list[Any], starts: list[int], stops: list[int]) -> bytearray:
    """Concatenate the parts, and store each range's masked CRC-32C in the four bytes after it."""
    out = bytearray().join(parts)
    if starts:
        raw = np.frombuffer(out, dtype=np.uint8)
        found = checksums(CRC32C, raw, np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64))
        places = np.array(stops, dtype=np.int64)[:, None] + np.arange(4)
        raw[places] = found.astype("<u4").view(np.uint8).reshape(-1, 4)
    return out
