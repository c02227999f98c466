"""Open one sst file and read its index (RocksDB: table/block_based/block_based_table_reader.cc).

The file's structure is at the head of `rocksdb.format`. The index (index_builder.cc) is a block whose entries are:

    varint shared, varint unshared, [varint length of the value], unshared bytes of the key, value
    key      at least the last key of a data block: an internal key, or a user key if a property says so
    value    handle of the block; with delta encoding, and if the key shares bytes with the one before, the signed
             difference of the sizes alone (zigzag varint), because blocks are adjacent

With delta encoding there is no length of the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stateproc.codec.array_types import Bytes, Longs
from stateproc.codec.native.jit import copy_bytes, exported, kernel, load_u8
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.readers.rocksdb.blocks import BlockReader, ChecksumMismatch, PlainBlocks, Tail
from stateproc.readers.rocksdb.format import TRAILER_SIZE, BlockHandle, block_handle, damaged, read_footer
from stateproc.readers.rocksdb.key_ranges import KeySpan
from stateproc.readers.rocksdb.merge_cursors import compare
from stateproc.readers.rocksdb.meta_blocks import (
    FIRST_KEY,
    TWO_LEVEL,
    TableProperties,
    entries_of,
    parse_properties,
    property_entries,
)
from stateproc.storage import ByteSource
from stateproc.storage.ranges import DEFAULT_GAP

# A table's index: where its data blocks are, and up to which key each reaches.
#
# Format: RocksDB table/block_based/index_builder.cc, IndexValue in table/format.cc.

_MOST_KEYS, _EXPANSION = 64 << 20, 16
"""Keys share their beginnings: all of them may take so much, and so many times the bytes of the blocks."""
OK, BAD, GROW = 0, 1, 2


@dataclass(frozen=True)
class Index:
    """Block ``k`` is at ``offsets[k]`` with ``sizes[k]`` bytes; its keys are at most ``separator(k)``.

    Separators are user keys: ``keys[key_starts[k]:key_ends[k]]``, in ascending order.
    """

    offsets: Longs
    sizes: Longs
    keys: Bytes
    key_starts: Longs
    key_ends: Longs

    def __len__(self) -> int:
        return len(self.offsets)

    def separator(self, k: int) -> bytes:
        return self.keys[self.key_starts[k] : self.key_ends[k]].tobytes()

    def within(self, start: bytes, stop: bytes | None) -> slice:
        """The blocks that may hold keys from ``start`` up to ``stop`` (exclusive; None: the end)."""
        first = self._first(lambda key: key >= start)
        # A block begins after (or, among versions of one key, at) the separator before it.
        last = len(self) if stop is None else min(self._first(lambda key: key >= stop) + 1, len(self))
        return slice(first, max(first, last))

    def within_any(self, spans: Sequence[KeySpan]) -> Longs:
        """The positions of the blocks that may hold keys of any of the spans, ascending."""
        wanted = np.zeros(len(self), dtype=np.bool_)
        for start, stop in spans:
            wanted[self.within(start, stop)] = True
        return np.flatnonzero(wanted)

    def _first(self, reached: Any) -> int:
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if reached(self.separator(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    @property
    def nbytes(self) -> int:
        """The bytes that the index of a whole table takes."""
        return int(self.offsets.nbytes + self.sizes.nbytes + self.keys.nbytes + self.key_ends.nbytes)

    def part(self, blocks: slice | Longs) -> Index:
        return Index(
            self.offsets[blocks], self.sizes[blocks], self.keys, self.key_starts[blocks], self.key_ends[blocks]
        )


def _read_top(reader: BlockReader, handle: BlockHandle, properties: TableProperties) -> Index:
    """The entries of the index block. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile."""
    partitioned = properties.index_type == TWO_LEVEL
    top = _parse(reader.block(handle), properties, partitions=partitioned)
    # PlainBlocks in ascending order without overlap: so the work is bounded by the file's size, whatever an index says.
    # What an index points to was written before it, so there are no circles.
    reader.check(top.offsets, top.sizes, handle.offset)
    if not partitioned:
        _check_whole(reader, handle, top, properties)
    return top


def _read_partitions(
    reader: BlockReader, handle: BlockHandle, properties: TableProperties, top: Index, wanted: Sequence[KeySpan]
) -> Index:
    """The entries of the partitions that may hold keys of these spans. Raises what `_read_top` raises."""
    chosen = top.part(top.within_any(wanted))
    if not len(chosen):
        return chosen
    parts = []
    for blocks in spans(chosen.offsets, chosen.sizes, 1 << 20):
        read = reader.parts(chosen.offsets[blocks], chosen.sizes[blocks])
        parts += [_parse(some, properties, partitions=False) for some in read]
    bases = np.cumsum([0, *(len(part.keys) for part in parts)])
    whole = Index(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.key_starts + base for part, base in zip(parts, bases, strict=False)]),
        np.concatenate([part.key_ends + base for part, base in zip(parts, bases, strict=False)]),
    )
    reader.check(whole.offsets, whole.sizes, int(top.offsets[0]))
    if len(chosen) == len(top):
        _check_whole(reader, handle, whole, properties)
    return whole.part(whole.within_any(wanted))


def _check_whole(reader: BlockReader, handle: BlockHandle, index: Index, properties: TableProperties) -> None:
    """Refuse an index that leaves out blocks: without these the table would seem to hold less."""
    if len(index) != properties.data_blocks:
        what = f"an index of {len(index)} blocks, where the table's properties contain {properties.data_blocks}"
        raise damaged(reader.file, handle.offset, what)
    if len(index) and index.offsets[0] != 0:
        raise damaged(reader.file, handle.offset, f"a table whose first block is at byte {index.offsets[0]}")


def spans(offsets: Longs, sizes: Longs, limit: int, gap: int = DEFAULT_GAP) -> list[slice]:
    """Runs of blocks to read with one request each: of at most ``limit`` bytes or one block, and without gaps of over
    ``gap`` bytes."""
    ends = offsets + sizes
    breaks = np.append(np.flatnonzero(offsets[1:] - ends[:-1] > gap) + 1, len(offsets))
    found, at = [], 0
    while at < len(offsets):
        stop = int(np.searchsorted(ends, offsets[at] + limit, side="right"))
        stop = min(stop, int(breaks[np.searchsorted(breaks, at, side="right")]))
        stop = max(at + 1, stop)
        found.append(slice(at, stop))
        at = stop
    return found


def _parse(blocks: PlainBlocks, properties: TableProperties, *, partitions: bool) -> Index:
    """The entries of index blocks."""
    capacity = int((blocks.ends - blocks.starts).sum()) // 3 + 1
    offsets, sizes = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    key_offsets = np.zeros(capacity + 1, np.int64)
    most = _MOST_KEYS + _EXPANSION * len(blocks.plain)
    key_bytes = min(64 * capacity + 1024, most)
    trailer = 0 if properties.index_key_is_user_key else 8
    first_key = properties.index_type == FIRST_KEY and not partitions
    while True:
        keys = np.empty(key_bytes, dtype=np.uint8)
        scratch = np.empty(len(blocks.plain) + 16, dtype=np.uint8)
        outcome, n, bad = scan_index(
            blocks.plain.ctypes.data,
            blocks.starts,
            blocks.ends,
            properties.index_value_is_delta_encoded,
            first_key,
            trailer,
            scratch.ctypes.data,
            keys.ctypes.data,
            key_bytes,
            offsets,
            sizes,
            key_offsets,
        )
        if outcome != GROW:
            break
        if key_bytes == most:
            raise damaged(blocks.file, int(blocks.offsets[bad]), f"an index whose keys take over {most} bytes")
        key_bytes = min(4 * key_bytes, most)
    if outcome == BAD:
        raise damaged(blocks.file, int(blocks.offsets[bad]), "an entry of an index is damaged")
    # Copies, because an index is kept longer than buffers for whatever number of entries.
    key_offsets = key_offsets[: n + 1].copy()
    return Index(offsets[:n].copy(), sizes[:n].copy(), keys[: key_offsets[n]].copy(), key_offsets[:n], key_offsets[1:])


@kernel
def _number(at: int, stop: int) -> tuple[int, int]:
    """An unsigned varint below 2^62, and the address after it; -1 if it is cut off or larger."""
    value = np.int64(0)
    shift = 0
    while at < stop and shift <= 56:
        byte = load_u8(at)
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return (value if value < (1 << 62) else np.int64(-1)), at
        shift += 7
    return np.int64(-1), at


@exported
def scan_index(
    plain: int,
    starts: Longs,
    ends: Longs,
    delta: bool,
    first_key: bool,
    trailer: int,
    scratch: int,
    keys: int,
    key_bytes: int,
    offsets: Longs,
    sizes: Longs,
    key_offsets: Longs,
) -> tuple[int, int, int]:
    """Parse index blocks; returns (outcome, number of entries, block reached).

    delta: values have no length, and follow from the one before where their key shares bytes with its.
    first_key: the block's first key follows the handle. trailer: bytes after the user key in keys. scratch:
    space for one key, as large as all blocks. offsets, sizes, key_offsets: int64 per entry, at most one entry
    per 3 bytes of blocks.
    """
    n, used, last = 0, 0, 0
    for block in range(len(starts)):
        at, stop = plain + starts[block], plain + ends[block]
        length = np.int64(0)
        offset, size = np.int64(0), np.int64(0)
        while at < stop:
            shared, at = _number(at, stop)
            unshared, at = _number(at, stop)
            if shared < 0 or unshared < 0:
                return BAD, n, block
            value_size = np.int64(0)
            if not delta:
                value_size, at = _number(at, stop)
            if value_size < 0 or shared > length or unshared > stop - at or value_size > stop - at - unshared:
                return BAD, n, block
            copy_bytes(scratch + shared, at, unshared)
            length = shared + unshared
            at += unshared
            value_stop = stop if delta else at + value_size
            if delta and shared != 0:
                change, at = _number(at, value_stop)
                if change < 0:
                    return BAD, n, block
                offset = offset + size + 5
                size += (change >> 1) ^ -(change & 1)
            else:
                offset, at = _number(at, value_stop)
                size, at = _number(at, value_stop)
            if offset < 0 or size < 0:
                return BAD, n, block
            if first_key:
                skipped, at = _number(at, value_stop)
                if skipped < 0 or skipped > value_stop - at:
                    return BAD, n, block
                at += skipped
            if not delta:
                at = value_stop
            user = length - trailer
            if user < 0 or n >= len(offsets):
                return BAD, n, block
            if n > 0 and offset < offsets[n - 1] + sizes[n - 1] + 5:
                return BAD, n, block  # blocks do not overlap, so there are not more of them than fit into the file
            if n > 0 and compare(keys + last, used - last, scratch, user) > 0:
                return BAD, n, block  # keys out of order would be looked for in vain
            if user > key_bytes - used:
                return GROW, n, block
            copy_bytes(keys + used, scratch, user)
            last = used
            used += user
            offsets[n] = offset
            sizes[n] = size
            key_offsets[n + 1] = used
            n += 1
    return OK, n, 0


_TAIL_BYTES = 32 << 10
_MAX_TABLE = 1 << 46
_FILTERS = ("fullfilter.", "partitionedfilter.", "filter.")
"""What the names of blocks with filters begin with (BlockBasedTable::kFullFilterBlockPrefix and its neighbours)."""


@dataclass(frozen=True)
class SstTable:
    """An open table: properties and the places of its index and its range tombstones."""

    reader: BlockReader
    properties: TableProperties
    index_handle: BlockHandle
    tombstones_handle: BlockHandle | None
    filter_handles: tuple[BlockHandle, ...] = ()

    @property
    def file(self) -> str:
        return self.reader.file

    @cached_property
    def top(self) -> Index:
        """The index, or where its partitions are. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile."""
        return _read_top(self.reader, self.index_handle, self.properties)

    @property
    def held_bytes(self) -> int:
        """The bytes that the open table takes, with its index. Raises what ``top`` raises."""
        return len(self.reader.tail.data) + self.top.nbytes

    def index(self, wanted: Sequence[KeySpan] = ((b"", None),)) -> Index:
        """The blocks that may hold keys of these spans; of a partitioned index, only those partitions are read.

        Raises what ``top`` raises.
        """
        if self.properties.index_type == TWO_LEVEL:
            return _read_partitions(self.reader, self.index_handle, self.properties, self.top, wanted)
        return self.top.part(self.top.within_any(wanted))


def open_table(source: ByteSource, *, verify: bool = True) -> SstTable:
    """Open an sst file with one read of its last 32 KiB, usually. ``verify``: check all checksums.

    Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    if source.size > _MAX_TABLE:
        raise damaged(source.name, source.size, f"a table of {source.size} bytes")
    start = max(0, source.size - _TAIL_BYTES)
    tail = Tail(start, source.read(start, source.size - start))
    footer = read_footer(tail.data, source.name, source.size, verify=verify)
    reader = BlockReader(source, footer, tail, verify)
    handles = _metaindex(reader, footer.metaindex)
    if "rocksdb.compression_dict" in handles:
        raise UnsupportedSnapshot(
            "a table compressed with a dictionary",
            where=Where(file=source.name, offset=handles["rocksdb.compression_dict"].offset),
            advice="let Flink restore the snapshot and take a canonical savepoint of it",
        )
    named = handles.get("rocksdb.properties") or handles.get("rocksdb.stats")
    if named is None:
        raise damaged(source.name, footer.metaindex.offset, "a table without properties")
    properties = parse_properties(property_entries(reader, named), source.name, named.offset)
    index = footer.index or handles.get("rocksdb.index")
    if index is None:
        raise damaged(source.name, footer.metaindex.offset, "a table without an index")
    filters = tuple(handle for name, handle in handles.items() if name.startswith(_FILTERS))
    return SstTable(reader, properties, index, handles.get("rocksdb.range_del"), filters)


def table_properties(source: ByteSource, *, verify: bool = True) -> TableProperties:
    """The properties of an sst file. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile."""
    return open_table(source, verify=verify).properties


def check_filters(source: ByteSource, *, verify: bool = True) -> None:
    """Check the checksums of a table's filters, which reading its entries does not need.

    Of a filter in partitions its index is checked. Raises CorruptSnapshot, UnsupportedSnapshot, MissingFile.
    """
    table = open_table(source, verify=verify)
    reader = table.reader
    for handle in table.filter_handles:
        reader.check_handle(handle)
        raw = np.frombuffer(reader.fetch(handle.offset, handle.size + TRAILER_SIZE), dtype=np.uint8)
        try:
            reader.plain(raw, np.array([0]), np.array([handle.size]), np.array([handle.offset]))
        except ChecksumMismatch as error:
            raise damaged(reader.file, error.offset, "the checksum of a filter is wrong") from error


def _metaindex(reader: BlockReader, handle: BlockHandle) -> dict[str, BlockHandle]:
    """The handles of the meta blocks by name; of filters and other blocks nobody needs here, too."""
    handles: dict[str, BlockHandle] = {}
    for name, value in entries_of(reader, handle):
        try:
            handles[name.decode("utf-8", "replace")] = block_handle(value)[0]
        except ValueError as error:
            raise damaged(reader.file, handle.offset, f"the metaindex is damaged: {error}") from error
    return handles
