"""Tables and logs of RocksDB made by hand, so that each part of them can lie while all checksums are right."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stateproc.readers.rocksdb.checksums import CRC32C, checksum

PUT, RANGE_DELETION = 1, 15
MAGIC = 0x88E241B785F4CFF7
SEPARATOR_SEQUENCE = (1 << 56) - 1

Handle = tuple[int, int]
"""Offset and size of a block, without its trailer."""


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def internal(key: bytes, sequence: int, kind: int = PUT) -> bytes:
    """Return a user key followed by the sequence number and type."""
    return key + (sequence << 8 | kind).to_bytes(8, "little")


def entry(key: bytes, value: bytes, shared: int = 0) -> bytes:
    """An entry of a block; ``key``: what follows the ``shared`` bytes of the key before it."""
    return varint(shared) + varint(len(key)) + varint(len(value)) + key + value


def block(*entries: bytes, restarts: int | None = None) -> bytes:
    """A block with one restart point; ``restarts``: the number of restart points that it claims."""
    return b"".join(entries) + bytes(4) + (1 if restarts is None else restarts).to_bytes(4, "little")


def handle(place: Handle) -> bytes:
    return varint(place[0]) + varint(place[1])


def index_of(places: Sequence[Handle], keys: Sequence[bytes]) -> bytes:
    """Return an index block: the last key and the position of each block."""
    rows = zip(places, keys, strict=True)
    return block(*(entry(internal(key, SEPARATOR_SEQUENCE), handle(place)) for place, key in rows))


def footer_5(metaindex: Handle, index: Handle) -> bytes:
    """The footer of format version 5: type of checksum, two handles, padding, version, magic number."""
    return footer(handle(metaindex) + handle(index))


def footer(handles: bytes, *, kind: int = CRC32C, version: int = 5, magic: int = MAGIC) -> bytes:
    return bytes([kind]) + handles.ljust(40, b"\0") + struct.pack("<IQ", version, magic)


PROPERTIES: Mapping[str, bytes] = {
    "rocksdb.block.based.table.index.type": bytes(4),
    "rocksdb.column.family.name": b"default",
    "rocksdb.comparator": b"leveldb.BytewiseComparator",
    "rocksdb.merge.operator": b"StringAppendOperator",
}
ROWS = {b"\0%03d" % k: b"value %d" % k for k in range(60)}
"""The contents of the correct table: twenty rows in each of three data blocks."""
_STARTS = range(0, 60, 20)


def data_blocks() -> list[bytes]:
    keys = sorted(ROWS)
    return [block(*(entry(internal(key, 7), ROWS[key]) for key in keys[at : at + 20])) for at in _STARTS]


@dataclass(frozen=True)
class Crafted:
    """A table, part by part; parts that are not given are correct.

    data: blocks and their compression types. index: makes the index block of the data blocks' places and last keys.
    named: further meta blocks. handles: further places in the metaindex. footer: made of the places of metaindex and
    index.
    """

    data: Sequence[tuple[bytes, int]] = field(default_factory=lambda: [(raw, 0) for raw in data_blocks()])
    index: Callable[[Sequence[Handle], Sequence[bytes]], bytes] = index_of
    properties: Mapping[str, bytes] = field(default_factory=dict)
    raw_properties: bytes | None = None
    named: Mapping[str, bytes] = field(default_factory=dict)
    handles: Mapping[str, bytes] = field(default_factory=dict)
    raw_metaindex: bytes | None = None
    footer: Callable[[Handle, Handle], bytes] = footer_5

    def __call__(self) -> bytes:
        out = bytearray()

        def add(raw: bytes, kind: int = 0) -> Handle:
            at = len(out)
            stored = raw + bytes([kind])
            out.extend(stored + checksum(CRC32C, stored).to_bytes(4, "little"))
            return at, len(raw)

        places = [add(raw, kind) for raw, kind in self.data]
        keys = sorted(ROWS)
        last = [keys[at + 19] for at in _STARTS][: len(places)]
        index = add(self.index(places, last))
        properties = PROPERTIES | {"rocksdb.num.data.blocks": varint(len(places))} | self.properties
        rows = (entry(name.encode(), properties[name]) for name in sorted(properties))
        meta = {name: handle(add(raw)) for name, raw in self.named.items()}
        meta["rocksdb.properties"] = handle(add(self.raw_properties or block(*rows)))
        meta |= self.handles
        listed = block(*(entry(name.encode(), meta[name]) for name in sorted(meta)))
        metaindex = add(self.raw_metaindex or listed)
        return bytes(out) + self.footer(metaindex, index)

    def but(self, **changes: object) -> Crafted:
        return replace(self, **changes)  # type: ignore[arg-type]


def partitioned(top: Callable[[Handle, Sequence[Handle]], Sequence[Handle]]) -> Crafted:
    """A table with an index in partitions, which are the last data blocks of ``data``.

    ``top``: where the top level says they are, given the place where it will itself lie, and theirs.
    """
    raw = [(data, 0) for data in data_blocks()]
    places = places_of(raw)
    keys = [sorted(ROWS)[at + 19] for at in _STARTS]
    parts = [(index_of([place], [key]), 0) for place, key in zip(places, keys, strict=True)]
    everything = [*raw, *parts]
    all_places = places_of(everything)
    own = (all_places[-1][0] + all_places[-1][1] + 5, len(index_of(all_places[3:], keys)))

    def index(_places: Sequence[Handle], _keys: Sequence[bytes]) -> bytes:
        return index_of(top(own, all_places[3:]), keys)

    properties = {
        "rocksdb.block.based.table.index.type": (2).to_bytes(4, "little"),
        "rocksdb.num.data.blocks": varint(3),
    }
    return Crafted(everything, index, properties=properties)


def places_of(blocks: Sequence[tuple[bytes, int]]) -> list[Handle]:
    """Return the positions of blocks that are written one after another from the beginning of a file."""
    at, found = 0, []
    for raw, _ in blocks:
        found.append((at, len(raw)))
        at += len(raw) + 5
    return found


FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def log_record(content: bytes, kind: int = FULL, *, length: int | None = None) -> bytes:
    """A record of a log: checksum, length, type, content."""
    stored = checksum(CRC32C, bytes([kind]) + content)
    return struct.pack("<IHB", stored, len(content) if length is None else length, kind) + content


def log(records: Sequence[bytes]) -> bytes:
    """Return records one after another; where the next does not fit into a block of 32 KiB, zeros."""
    out = bytearray()
    for record in records:
        left = 32768 - len(out) % 32768
        if len(record) > left:
            out += bytes(left)
        out += record
    return bytes(out)


def new_file(number: int, size: int, smallest: bytes, largest: bytes, *, sequence: int = 7) -> bytes:
    """VersionEdit's kNewFile2: a table at level 0."""
    bounds = b"".join(varint(len(key)) + key for key in (smallest, largest))
    return varint(100) + varint(0) + varint(number) + varint(size) + bounds + varint(0) + varint(sequence)
