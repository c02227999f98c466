"""One sst file (RocksDB: table/block_based/block_based_table_reader.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.readers.rocksdb.blocks import BlockReader, ChecksumMismatch, Tail
from stateproc.readers.rocksdb.format import TRAILER_SIZE, BlockHandle, block_handle, damaged, read_footer
from stateproc.readers.rocksdb.index import Index, read_index
from stateproc.readers.rocksdb.key_ranges import KeySpan
from stateproc.readers.rocksdb.meta_blocks import entries_of, property_entries
from stateproc.readers.rocksdb.properties import TableProperties, parse_properties
from stateproc.storage import ByteSource

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

    def index(self, wanted: Sequence[KeySpan] = ((b"", None),)) -> Index:
        """The blocks that may hold keys of these spans. Raises CorruptSnapshot, UnsupportedSnapshot."""
        return read_index(self.reader, self.index_handle, self.properties, wanted)


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
