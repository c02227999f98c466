"""Read small blocks of a table, entry by entry: the metaindex, properties, range tombstones.

A block (RocksDB: table/block_based/block_builder.cc):

    entries      varint shared, varint unshared, varint length of the value, unshared bytes of the key, value
    restarts     u32 offset of an entry whose key shares nothing, repeated
    u32          number of restarts; the top bit marks a hash index in front of the restarts

    block               key                                      value
    metaindex           rocksdb.properties, rocksdb.index, …     handle of the block
    properties          rocksdb.num.entries, …                   varint, u32, u64 or text
    range deletions     internal key of the first deleted key    the first key after those that are deleted
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.readers.rocksdb.blocks import BlockReader, ChecksumMismatch
from stateproc.readers.rocksdb.compression import NONE
from stateproc.readers.rocksdb.format import MAX_SEQUENCE, TRAILER_SIZE, BlockHandle, damaged, varint

_MAX_KEYS = 1 << 26
GLOBAL_SEQNO = b"rocksdb.external_sst_file.global_seqno"


def entries_of(reader: BlockReader, handle: BlockHandle) -> list[tuple[bytes, bytes]]:
    """All (key, value) of a block. Raises CorruptSnapshot, UnsupportedSnapshot."""
    block = reader.block(handle)
    data = block.plain[: int(block.ends[0])].tobytes()
    return [(key, data[start:end]) for key, start, end in _entries(data, block.file, handle.offset)]


def _entries(data: bytes, file: str, offset: int) -> Iterator[tuple[bytes, int, int]]:
    """Key, start and end of the value: varints shared, unshared, value length; then key tail, value."""
    at, key, total = 0, b"", 0
    while at < len(data):
        try:
            shared, at = varint(data, at)
            unshared, at = varint(data, at)
            length, at = varint(data, at)
        except ValueError as error:
            raise damaged(file, offset, f"an entry of a block is damaged: {error}") from error
        if shared > len(key) or unshared + length > len(data) - at:
            raise damaged(file, offset, "an entry of a block has an impossible length")
        total += shared + unshared
        if total > _MAX_KEYS:
            raise damaged(file, offset, f"the keys of a block take over {_MAX_KEYS} bytes")
        key = key[:shared] + data[at : at + unshared]
        at += unshared
        yield key, at, at + length
        at += length


def property_entries(reader: BlockReader, handle: BlockHandle) -> list[tuple[bytes, bytes]]:
    """The properties block's entries.

    When a file is ingested its global sequence number is written over the one in this block, without a new
    checksum; so the checksum may also be that of the block with the number 0. Raises CorruptSnapshot.
    """
    block = replace(reader, verify=False).block(handle)
    data = block.plain[: int(block.ends[0])].tobytes()
    raw = np.frombuffer(reader.fetch(handle.offset, handle.size + TRAILER_SIZE), dtype=np.uint8)
    found = list(_entries(data, block.file, handle.offset))
    if not _intact(reader, handle, raw):
        ingested = raw.copy()
        for key, start, end in found:
            if key == GLOBAL_SEQNO and raw[handle.size] == NONE:
                ingested[start:end] = 0
        if not _intact(reader, handle, ingested):
            raise damaged(block.file, handle.offset, "the checksum of the table's properties is wrong")
    return [(key, data[start:end]) for key, start, end in found]


def _intact(reader: BlockReader, handle: BlockHandle, raw: npt.NDArray[np.uint8]) -> bool:
    try:
        reader.plain(raw, np.array([0]), np.array([handle.size]), np.array([handle.offset]))
    except ChecksumMismatch:
        return False
    return True


# A table's properties (RocksDB: include/rocksdb/table_properties.h, table/meta_blocks.cc).

_COMPARATOR = "leveldb.BytewiseComparator"
_DATA_BLOCKS = "rocksdb.num.data.blocks"
_NO_COMPARATOR = ("", "nullptr")
BINARY_SEARCH, HASH_SEARCH, TWO_LEVEL, FIRST_KEY = range(4)
INDEX_TYPES = {
    BINARY_SEARCH: "binary search",
    HASH_SEARCH: "hash",
    TWO_LEVEL: "partitioned",
    FIRST_KEY: "first key",
}


@dataclass(frozen=True)
class TableProperties:
    """What a table says about itself. Sizes in bytes; times in seconds since 1970, 0 if not known.

    raw: every property by its name, as bytes. merge_operands, deletions, range_deletions are among entries.
    external_version, global_seqno: only in files written outside of a database and ingested.
    """

    column_family: str | None
    comparator: str
    merge_operator: str
    compression: str
    index_type: int
    index_key_is_user_key: bool
    index_value_is_delta_encoded: bool
    entries: int
    deletions: int
    merge_operands: int
    range_deletions: int
    raw_key_size: int
    raw_value_size: int
    data_size: int
    index_size: int
    filter_size: int
    data_blocks: int
    creation_time: int
    oldest_key_time: int
    newest_key_time: int
    external_version: int
    global_seqno: int | None
    raw: Mapping[str, bytes] = field(hash=False, repr=False, default_factory=dict)

    def sequence_override(self, largest: int | None) -> int | None:
        """The sequence number that all entries of an ingested file have; None: each has its own.

        ``largest``: the file's largest sequence number in the MANIFEST. Raises ValueError if the two do not
        agree, or if neither contains it (GetGlobalSequenceNumber in table/block_based/block_based_table_reader.cc).
        """
        if self.external_version < 2:
            return None
        if largest is None:
            if not self.global_seqno:
                raise ValueError("an ingested file's sequence number is in the MANIFEST only, which is not there")
            return self.global_seqno
        if self.global_seqno and self.global_seqno != largest:
            raise ValueError(f"its global sequence number is {self.global_seqno}, in the MANIFEST {largest}")
        return largest


def parse_properties(entries: Sequence[tuple[bytes, bytes]], file: str, offset: int) -> TableProperties:
    """Properties from their block's entries. Raises CorruptSnapshot, UnsupportedSnapshot."""
    raw = {key.decode("utf-8", "replace"): value for key, value in entries}

    def number(name: str) -> int:
        if name not in raw:
            return 0
        try:
            return varint(raw[name], 0)[0]
        except ValueError as error:
            raise damaged(file, offset, f"the property {name} is damaged: {error}") from error

    def fixed(name: str, width: int) -> int | None:
        if name not in raw:
            return None
        if len(raw[name]) != width:
            raise damaged(file, offset, f"the property {name} has {len(raw[name])} bytes instead of {width}")
        return int.from_bytes(raw[name], "little")

    def text(name: str) -> str:
        return raw.get(name, b"").decode("utf-8", "replace")

    if _DATA_BLOCKS not in raw:
        raise damaged(file, offset, f"the properties of a table lack {_DATA_BLOCKS}")
    index_type = fixed("rocksdb.block.based.table.index.type", 4) or BINARY_SEARCH
    comparator = text("rocksdb.comparator")
    if index_type not in INDEX_TYPES or comparator not in (_COMPARATOR, *_NO_COMPARATOR):
        what = (
            f"an index of the type {index_type}" if index_type not in INDEX_TYPES else f"keys ordered by {comparator}"
        )
        raise UnsupportedSnapshot(
            f"a table with {what}",
            where=Where(file=file, offset=offset),
            advice="let Flink restore the snapshot and take a canonical savepoint of it",
        )
    global_seqno = fixed("rocksdb.external_sst_file.global_seqno", 8)
    if global_seqno is not None and global_seqno > MAX_SEQUENCE:
        raise damaged(file, offset, f"a global sequence number of {global_seqno}")
    return TableProperties(
        column_family=text("rocksdb.column.family.name") or None,
        comparator=comparator,
        merge_operator=text("rocksdb.merge.operator"),
        compression=text("rocksdb.compression"),
        index_type=index_type,
        index_key_is_user_key=number("rocksdb.index.key.is.user.key") != 0,
        index_value_is_delta_encoded=number("rocksdb.index.value.is.delta.encoded") != 0,
        entries=number("rocksdb.num.entries"),
        deletions=number("rocksdb.deleted.keys"),
        merge_operands=number("rocksdb.merge.operands"),
        range_deletions=number("rocksdb.num.range-deletions"),
        raw_key_size=number("rocksdb.raw.key.size"),
        raw_value_size=number("rocksdb.raw.value.size"),
        data_size=number("rocksdb.data.size"),
        index_size=number("rocksdb.index.size"),
        filter_size=number("rocksdb.filter.size"),
        data_blocks=number(_DATA_BLOCKS),
        creation_time=number("rocksdb.creation.time"),
        oldest_key_time=number("rocksdb.oldest.key.time"),
        newest_key_time=number("rocksdb.newest.key.time"),
        external_version=fixed("rocksdb.external_sst_file.version", 4) or 0,
        global_seqno=global_seqno,
        raw=raw,
    )
