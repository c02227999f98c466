"""Read the MANIFEST: which files make up a database, by column family and level.

The log (RocksDB: db/log_format.h) is divided into blocks of 32 KiB; fewer than 7 bytes at the end of one are zeros:

    u32 masked crc32c of type and content, u16 length, u8 type, content
    type    1 whole record, 2 its first part, 3 a middle one, 4 the last; 5 to 8 the same with a u32 log number in front

A record is a version edit (db/version_edit.cc): varint tag and its fields, repeated:

    5           compaction pointer: varint level, slice
    6           deleted file: varint level, varint number
    7           new file: varint level, number and size, slices smallest and largest
    100         as 7, then varint smallest and largest sequence number
    102         as 100, with a varint path id after the number
    103         as 100, then varint tag and slice until tag 1
    200, 201    column family of the edit (varint), added family (slice: its name)
    202, 203    dropped family, greatest id of a family (varint)
    300         varint number of edits that follow in the group
    8192        this bit: a slice that may be skipped

A slice is a varint length and bytes; smallest and largest are internal keys. See docs/formats/rocksdb.md for all tags.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.readers.rocksdb.checksums import CRC32C, checksum
from stateproc.readers.rocksdb.format import MAX_SEQUENCE, damaged, varint
from stateproc.readers.rocksdb.key_ranges import KeySpan, overlaps

# RocksDB's log format, in which the MANIFEST is written (db/log_format.h, db/log_reader.cc).

_BLOCK = 32768
_HEADER = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_RECYCLABLE = 4
"""Types 5 to 8 are 1 to 4 with a u32 log number after the header."""


def log_records(data: bytes, file: str) -> Iterator[tuple[int, bytes]]:
    """The offset and the content of each record. Raises CorruptSnapshot, UnsupportedSnapshot."""
    parts: list[bytes] = []
    at = begin = 0
    while at < len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER.size:
            at += left
            continue
        if len(data) - at < _HEADER.size:
            raise damaged(file, at, "the log ends within a record's header")
        stored, length, kind = _HEADER.unpack_from(data, at)
        if kind == 0 and length == 0 and stored == 0:
            # RocksDB skips zeros as preallocated space; checkpoints copy the log up to its end only.
            raise damaged(file, at, "zeros where a log record should be")
        recyclable = _FULL + _RECYCLABLE <= kind <= _LAST + _RECYCLABLE
        if not recyclable and not _FULL <= kind <= _LAST:
            raise UnsupportedSnapshot(
                f"a log record of the type {kind}",
                where=Where(file=file, offset=at),
                advice="let Flink restore the snapshot and take a canonical savepoint of it",
            )
        head = _HEADER.size + (4 if recyclable else 0)
        if head + length > left or at + head + length > len(data):
            raise damaged(file, at, f"a log record of {length} bytes does not fit into its block")
        if checksum(CRC32C, data[at + 6 : at + head + length]) != stored:
            raise damaged(file, at, "a log record's checksum is wrong")
        content = data[at + head : at + head + length]
        step = kind - _RECYCLABLE if recyclable else kind
        if (step in (_FULL, _FIRST)) != (not parts):
            raise damaged(file, at, "the parts of a log record are not in order")
        begin = at if not parts else begin
        parts.append(content)
        if step in (_FULL, _LAST):
            yield begin, b"".join(parts)
            parts = []
        at += head + length
    if parts:
        raise damaged(file, begin, "the log's last record is cut off")


_MAX_LEVEL = 1 << 10
_MAX_FILES = 1 << 17
"""Live files of a database: of 64 MiB each, as Flink's are, 8 TiB in one subtask."""
_SAFE_TO_IGNORE = 1 << 13
_IN_GROUP = 300
_GROUP_TAG = b"\xac\x02"
"""The varint of the field that says how many changes of a group follow: a record without it is a change by itself."""
_PATH_ID = 65
BYTEWISE = ("", "leveldb.BytewiseComparator")
"""The comparator of Flink databases, as manifests name it or not."""


@dataclass(frozen=True, slots=True)
class KeyBound:
    """A key of a table's boundary with its sequence number and type."""

    key: bytes
    sequence: int
    kind: int


@dataclass(frozen=True, slots=True)
class LiveFile:
    """One sst file of a column family. ``size`` in bytes; the bounds are inclusive.

    ``largest_sequence``: of all its entries; None in manifests of the oldest releases.
    """

    number: int
    level: int
    size: int
    smallest: KeyBound
    largest: KeyBound
    largest_sequence: int | None

    @property
    def name(self) -> str:
        return f"{self.number:06d}.sst"

    def overlaps(self, wanted: Sequence[KeySpan]) -> bool:
        """Whether it may hold keys, or tombstones of keys, of these spans."""
        return overlaps(wanted, self.smallest.key, self.largest.key)


@dataclass
class _Family:
    name: str
    comparator: str = ""
    files: dict[tuple[int, int], LiveFile] = field(default_factory=dict)


@dataclass(frozen=True)
class ColumnFamily:
    """A column family and its live files, by level and number."""

    id: int
    name: str
    comparator: str
    files: tuple[LiveFile, ...]


class _Edit:
    """The fields of one VersionEdit, read in order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, limit: int = (1 << 64) - 1) -> int:
        if self.at < len(self.data) and (byte := self.data[self.at]) < 0x80:
            # Most numbers have one byte.
            value, self.at = byte, self.at + 1
        else:
            value, self.at = varint(self.data, self.at)
        if value > limit:
            raise ValueError(f"the number {value} is over {limit}")
        return value

    def slice(self) -> bytes:
        length = self.number()
        if length > len(self.data) - self.at:
            raise ValueError("a string is cut off")
        self.at += length
        return self.data[self.at - length : self.at]

    def bound(self) -> KeyBound:
        key = self.slice()
        if len(key) < 8:
            raise ValueError("a key without a sequence number")
        trailer = int.from_bytes(key[-8:], "little")
        return KeyBound(key[:-8], trailer >> 8, trailer & 0xFF)

    def sequence(self) -> int:
        # Files without any entry have the largest 64-bit number as their smallest.
        return min(self.number(), MAX_SEQUENCE)


def read_manifest(data: bytes, file: str) -> tuple[ColumnFamily, ...]:
    """The column families of a database and their live files. Raises CorruptSnapshot, UnsupportedSnapshot."""
    families: dict[int, _Family] = {0: _Family("default")}
    group: list[tuple[int, bytes]] = []
    before = 0
    for offset, record in log_records(data, file):
        group.append((offset, record))
        try:
            left = _left_in_group(record, file, offset) if before or _GROUP_TAG in record else 0
            if before and left != before - 1:
                raise ValueError(f"{left} changes of a group are left, where {before} were before this one")
            before = left
            if left:
                continue
            for place, edit in group:
                offset = place
                _apply(edit, families, file, place)
        except ValueError as error:
            raise damaged(file, offset, f"a change of the manifest is damaged: {error}") from error
        if sum(len(family.files) for family in families.values()) > _MAX_FILES:
            raise damaged(file, offset, f"over {_MAX_FILES} files in one database")
        group = []
    if group:
        raise damaged(file, group[0][0], "the manifest ends within a group of changes")
    return tuple(
        ColumnFamily(number, family.name, family.comparator, tuple(family.files[key] for key in sorted(family.files)))
        for number, family in sorted(families.items())
    )


def _left_in_group(record: bytes, file: str, offset: int) -> int:
    """How many changes are still to come that take effect only together with this one."""
    left = 0

    def note(_edit: _Edit, remaining: int) -> None:
        nonlocal left
        left = remaining

    _walk(_Edit(record), file, offset, {**_SKIPPED, _IN_GROUP: lambda edit: note(edit, edit.number())})
    return left


def _apply(record: bytes, families: dict[int, _Family], file: str, offset: int) -> None:
    """Apply one change: deletions before additions, as a file may only change its level."""
    family_id = 0
    added: list[LiveFile] = []
    deleted: list[tuple[int, int]] = []
    name: str | None = None
    comparator: str | None = None
    dropped = False

    def set_family(edit: _Edit) -> None:
        nonlocal family_id
        family_id = edit.number(1 << 32)

    def set_comparator(edit: _Edit) -> None:
        nonlocal comparator
        comparator = edit.slice().decode("utf-8", "replace")

    def add_family(edit: _Edit) -> None:
        nonlocal name
        name = edit.slice().decode("utf-8", "replace")

    def drop_family(_edit: _Edit) -> None:
        nonlocal dropped
        dropped = True

    changes: dict[int, Callable[[_Edit], object]] = {
        1: set_comparator,
        6: lambda edit: deleted.append((edit.number(_MAX_LEVEL), edit.number())),
        7: lambda edit: added.append(_new_file(edit, sequences=False)),
        100: lambda edit: added.append(_new_file(edit)),
        102: lambda edit: added.append(_new_file(edit, path=True)),
        103: lambda edit: added.append(_new_file(edit, fields=True)),
        200: set_family,
        201: add_family,
        202: drop_family,
    }
    _walk(_Edit(record), file, offset, {**_SKIPPED, **changes})
    if name is not None:
        if family_id in families and family_id != 0:
            raise ValueError(f"column family {family_id} is added twice")
        families[family_id] = _Family(name)
    if dropped:
        families.pop(family_id, None)
        return
    if family_id not in families:
        raise ValueError(f"there is no column family {family_id}")
    family = families[family_id]
    if comparator is not None:
        family.comparator = comparator
    for key in deleted:
        family.files.pop(key, None)
    for live in added:
        if family.comparator in BYTEWISE and live.smallest.key > live.largest.key:
            raise ValueError("a file's smallest key is greater than its largest")
        family.files[live.level, live.number] = live


def _new_file(edit: _Edit, *, sequences: bool = True, path: bool = False, fields: bool = False) -> LiveFile:
    """kNewFile, kNewFile2, kNewFile3, kNewFile4."""
    level, number = edit.number(_MAX_LEVEL), edit.number()
    if path:
        edit.number()
    size = edit.number()
    smallest, largest = edit.bound(), edit.bound()
    largest_sequence = None
    if sequences:
        edit.sequence()
        largest_sequence = edit.sequence()
    while fields and (tag := edit.number()) != 1:
        if tag & 64 and tag != _PATH_ID:
            raise ValueError(f"a file has the unknown field {tag}")
        edit.slice()
    return LiveFile(number, level, size, smallest, largest, largest_sequence)


_SKIPPED: dict[int, Callable[[_Edit], object]] = {
    1: lambda edit: edit.slice(),
    2: lambda edit: edit.number(),
    3: lambda edit: edit.number(),
    4: lambda edit: edit.number(),
    5: lambda edit: (edit.number(), edit.slice()),
    6: lambda edit: (edit.number(), edit.number()),
    7: lambda edit: _new_file(edit, sequences=False),
    9: lambda edit: edit.number(),
    10: lambda edit: edit.number(),
    100: _new_file,
    102: lambda edit: _new_file(edit, path=True),
    103: lambda edit: _new_file(edit, fields=True),
    200: lambda edit: edit.number(),
    201: lambda edit: edit.slice(),
    202: lambda edit: None,
    203: lambda edit: edit.number(),
    _IN_GROUP: lambda edit: edit.number(),
}
"""How each known field (VersionEdit's Tag) is passed over."""


def _walk(edit: _Edit, file: str, offset: int, changes: dict[int, Callable[[_Edit], object]]) -> None:
    """Call the function of each field. Raises ValueError, UnsupportedSnapshot."""
    while edit.at < len(edit.data):
        tag = edit.number()
        if tag in changes:
            changes[tag](edit)
        elif tag & _SAFE_TO_IGNORE:
            edit.slice()
        else:
            what = "values in blob files" if tag in (400, 401) else f"the unknown change {tag} of a database"
            raise UnsupportedSnapshot(
                what,
                where=Where(file=file, offset=offset),
                advice="let Flink restore the snapshot and take a canonical savepoint of it",
            )
