"""Write MANIFEST and CURRENT of a database that has tables only (RocksDB: db/version_edit.cc, db/log_writer.cc).

The reader is stateproc.readers.rocksdb.manifest. All tables are in the last level, where each column family's files do
not overlap and nothing is to compact.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from stateproc.readers.rocksdb.checksums import CRC32C, checksum
from stateproc.readers.rocksdb.native_database import family_name
from stateproc.writers.formats.rocksdb.coding import internal_key, slice_of, varint
from stateproc.writers.formats.rocksdb.table import COMPARATOR, WrittenTable

LAST_LEVEL = 6
"""Flink's databases have seven levels."""
_BLOCK, _HEADER = 32768, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
# Fields of a change (VersionEdit's Tag), and of a file within one (NewFileCustomTag).
_COMPARATOR, _LOG_NUMBER, _NEXT_FILE, _LAST_SEQUENCE, _PREVIOUS_LOG = 1, 2, 3, 4, 9
_NEW_FILE, _FAMILY, _ADD_FAMILY, _MAX_FAMILY = 103, 200, 201, 203
_END, _OLDEST_ANCESTER_TIME, _FILE_CREATION_TIME = 1, 5, 6


@dataclass(frozen=True)
class WrittenFamily:
    """A column family and its tables, by key."""

    id: int
    name: str
    tables: Sequence[WrittenTable]


def manifest(families: Sequence[WrittenFamily], next_file: int) -> bytes:
    """Return a MANIFEST of the column families and an empty ``default`` (0). next_file: above all file numbers."""
    comparator = varint(_COMPARATOR) + slice_of(COMPARATOR.encode())
    records = [
        comparator,
        _numbers({_LOG_NUMBER: 0, _PREVIOUS_LOG: 0, _NEXT_FILE: next_file, _LAST_SEQUENCE: 0,
                  _MAX_FAMILY: max((family.id for family in families), default=0)}),
    ]  # fmt: skip
    for family in families:
        added = _numbers({_LOG_NUMBER: 0, _FAMILY: family.id})
        records.append(comparator + added + varint(_ADD_FAMILY) + slice_of(family_name(family.name)))
    for family in families:
        records += [_new_file(table) + _numbers({_FAMILY: family.id}) for table in family.tables]
    return _log(records)


def current(manifest_name: str) -> bytes:
    """Return CURRENT, which names the valid MANIFEST."""
    return f"{manifest_name}\n".encode()


def _numbers(fields: dict[int, int]) -> bytes:
    return b"".join(varint(tag) + varint(value) for tag, value in fields.items())


def _new_file(table: WrittenTable) -> bytes:
    """kNewFile4."""
    bounds = slice_of(internal_key(table.smallest)) + slice_of(internal_key(table.largest))
    sequences = varint(0) + varint(0)
    created = slice_of(varint(table.created))
    return (
        _numbers({_NEW_FILE: LAST_LEVEL}) + varint(table.number) + varint(table.size) + bounds + sequences
        + varint(_OLDEST_ANCESTER_TIME) + created + varint(_FILE_CREATION_TIME) + created + varint(_END)
    )  # fmt: skip


def _log(records: Sequence[bytes]) -> bytes:
    """Write records in blocks of 32 KB; a record that does not fit into a block is split."""
    out = bytearray()
    for record in records:
        at, begun = 0, False
        while True:
            free = _BLOCK - len(out) % _BLOCK
            if free < _HEADER:
                out += bytes(free)
                free = _BLOCK
            fragment = record[at : at + free - _HEADER]
            at += len(fragment)
            ended = at == len(record)
            kind = (_LAST if ended else _MIDDLE) if begun else (_FULL if ended else _FIRST)
            content = bytes([kind]) + fragment
            out += struct.pack("<IH", checksum(CRC32C, content), len(fragment)) + content
            begun = True
            if ended:
                break
    return bytes(out)
