"""Write MANIFEST and CURRENT of a database that has tables only (RocksDB: db/version_edit.cc, db/log_writer.cc).

    MANIFEST: blocks of 32 KB of fragments: u32 masked CRC-32C, u16 length, u8 kind (1 full, 2 first, 3 middle, 4 last)
    record, a version edit: fields of varint tag and value: comparator, numbers, a column family, or a table
        (level, number, size, smallest and largest key)
    CURRENT: the name of the MANIFEST and a line feed

All tables are in the last level, where each column family's files do not overlap and nothing is to compact. See
docs/formats/rocksdb.md; the reader is stateproc.readers.rocksdb.manifest.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stateproc.readers.rocksdb.checksums import CRC32C, checksum
from stateproc.readers.rocksdb.native_database import family_name
from stateproc.writers.formats.rocksdb.block_builder import internal_key, slice_of, varint
from stateproc.writers.formats.rocksdb.options import TableOptions
from stateproc.writers.formats.rocksdb.table import COMPARATOR, FORMAT_VERSION, MERGE_OPERATOR, WrittenTable

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
    most = max((family.id for family in families), default=0)
    numbers = {_LOG_NUMBER: 0, _PREVIOUS_LOG: 0, _NEXT_FILE: next_file, _LAST_SEQUENCE: 0, _MAX_FAMILY: most}
    records = [comparator, _numbers(numbers)]
    for family in families:
        added = _numbers({_LOG_NUMBER: 0, _FAMILY: family.id})
        records.append(comparator + added + varint(_ADD_FAMILY) + slice_of(family_name(family.name)))
    for family in families:
        records += [_new_file(table) + _numbers({_FAMILY: family.id}) for table in family.tables]
    return write_log(records)


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
    file = _numbers({_NEW_FILE: LAST_LEVEL}) + varint(table.number) + varint(table.size) + bounds + sequences
    return file + varint(_OLDEST_ANCESTER_TIME) + created + varint(_FILE_CREATION_TIME) + created + varint(_END)


def write_log(records: Sequence[bytes]) -> bytes:
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


# Write the OPTIONS file of a database, for RocksDB's tools; Flink itself does not read it.

_COMPRESSIONS = {
    "NO_COMPRESSION": "kNoCompression",
    "SNAPPY_COMPRESSION": "kSnappyCompression",
    "ZLIB_COMPRESSION": "kZlibCompression",
    "LZ4_COMPRESSION": "kLZ4Compression",
    "LZ4HC_COMPRESSION": "kLZ4HCCompression",
    "ZSTD_COMPRESSION": "kZSTD",
}


def options_file(families: Sequence[str], options: TableOptions) -> bytes:
    """Return an OPTIONS file for the column families of these names, ``default`` first."""
    sections = [_section("Version", {"rocksdb_version": "6.20.3", "options_file_version": "1.1"})]
    sections.append(_section("DBOptions", {"create_if_missing": "true", "avoid_flush_during_shutdown": "true"}))
    levels = ":".join(_COMPRESSIONS[name] for name in options.compression_per_level)
    family = {
        "comparator": COMPARATOR,
        "merge_operator": MERGE_OPERATOR,
        "num_levels": "7",
        "compression": _COMPRESSIONS[options.compression],
        "compression_per_level": levels,
        "target_file_size_base": str(options.target_file_size),
        "max_bytes_for_level_base": str(options.max_size_level_base),
        "level_compaction_dynamic_level_bytes": str(options.dynamic_level_size).lower(),
        "table_factory": "BlockBasedTable",
    }
    bits = options.bloom_bits_per_key
    table = {
        "format_version": str(FORMAT_VERSION),
        "checksum": "kCRC32c",
        "block_size": str(options.block_size),
        "metadata_block_size": str(options.metadata_block_size),
        "filter_policy": "nullptr" if bits is None else f"bloomfilter:{bits}:false",
    }
    for name in families:
        sections.append(_section(f'CFOptions "{_escaped(name)}"', family))
        sections.append(_section(f'TableOptions/BlockBasedTable "{_escaped(name)}"', table))
    return ("# This is a RocksDB option file.\n\n" + "\n".join(sections)).encode("utf-8", "replace")


def _section(head: str, values: Mapping[str, str]) -> str:
    return "".join([f"[{head}]\n", *(f"  {key}={value}\n" for key, value in values.items())])


def _escaped(name: str) -> str:
    """EscapeOptionString in util/string_util.cc, for names with characters of its own grammar."""
    special = {"\\": "\\\\", "#": "\\#", ":": "\\:", "\r": "\\r", "\n": "\\n"}
    return "".join(special.get(letter, letter) for letter in name)
