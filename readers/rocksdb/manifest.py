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

import numpy as np
import numpy.typing as npt

from stateproc.errors import SnapshotError, UnsupportedSnapshot, Where
from stateproc.readers.rocksdb.checksums import CRC32C, checksums
from stateproc.readers.rocksdb.format import MAX_SEQUENCE, damaged, varint
from stateproc.readers.rocksdb.key_ranges import KeySpan, overlaps

# RocksDB's log format, in which the MANIFEST is written (db/log_format.h, db/log_reader.cc).

_BLOCK = 32768
_HEADER = struct.Struct("<IHB")
_AT_ONCE = 1 << 12
_TYPE_AT = 6
"""Checksums are of what begins with the type."""
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_RECYCLABLE = 4
"""Types 5 to 8 are 1 to 4 with a u32 log number after the header."""


def log_records(data: bytes, file: str) -> Iterator[tuple[int, bytes]]:
    """The offset and the content of each record. Raises CorruptSnapshot, UnsupportedSnapshot."""
    raw = np.frombuffer(data, np.uint8)
    parts: list[bytes] = []
    begin = after = 0
    problem: SnapshotError | None = None
    while after < len(data) and problem is None:
        fragments, after, problem = _fragments(data, after, file)
        _check(raw, fragments, file)
        for at, start, end, step in fragments:
            if (step in (_FULL, _FIRST)) != (not parts):
                raise damaged(file, at, "the parts of a log record are not in order")
            begin = at if not parts else begin
            parts.append(data[start:end])
            if step in (_FULL, _LAST):
                yield begin, parts[0] if step == _FULL else b"".join(parts)
                parts = []
    if problem is not None:
        raise problem
    if parts:
        raise damaged(file, begin, "the log's last record is cut off")


def _fragments(data: bytes, at: int, file: str) -> tuple[list[tuple[int, int, int, int]], int, SnapshotError | None]:
    """Return the next parts of records, the position after them, and what is wrong there.

    A part is the offset of its header, the start and the end of its content, and its type, 1 to 4.
    """
    found: list[tuple[int, int, int, int]] = []
    while at < len(data) and len(found) < _AT_ONCE:
        left = _BLOCK - at % _BLOCK
        if left < _HEADER.size:
            at += left
            continue
        if len(data) - at < _HEADER.size:
            return found, at, damaged(file, at, "the log ends within a record's header")
        stored, length, kind = _HEADER.unpack_from(data, at)
        if kind == 0 and length == 0 and stored == 0:
            # RocksDB skips zeros as preallocated space; checkpoints copy the log up to its end only.
            return found, at, damaged(file, at, "zeros where a log record should be")
        recyclable = _FULL + _RECYCLABLE <= kind <= _LAST + _RECYCLABLE
        if not recyclable and not _FULL <= kind <= _LAST:
            return (
                found,
                at,
                UnsupportedSnapshot(
                    f"a log record of the type {kind}",
                    where=Where(file=file, offset=at),
                    advice="let Flink restore the snapshot and take a canonical savepoint of it",
                ),
            )
        head = _HEADER.size + (4 if recyclable else 0)
        end = at + head + length
        if head + length > left or end > len(data):
            return found, at, damaged(file, at, f"a log record of {length} bytes does not fit into its block")
        found.append((at, at + head, end, kind - _RECYCLABLE if recyclable else kind))
        at = end
    return found, at, None


def _check(raw: npt.NDArray[np.uint8], fragments: Sequence[tuple[int, int, int, int]], file: str) -> None:
    """Check the checksums of parts in one pass: a long log has thousands of them. Raises CorruptSnapshot."""
    if not fragments:
        return
    at, _, end, _ = np.array(fragments, np.int64).T
    stored = np.zeros(len(at), np.uint32)
    for byte in range(4):
        stored |= raw[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    wrong = np.flatnonzero(checksums(CRC32C, raw, at + _TYPE_AT, np.ascontiguousarray(end)) != stored)
    if len(wrong):
        raise damaged(file, int(at[wrong[0]]), "a log record's checksum is wrong")


_MAX_LEVEL = 1 << 10
_MAX_FILES = 1 << 17
"""Live files of a database: of 64 MiB each, as Flink's are, 8 TiB in one subtask."""
_MAX_FAMILIES = _MAX_GROUP = 1 << 16
"""Column families, one for each state, and changes that take effect together, one for each of these."""
_SAFE_TO_IGNORE = 1 << 13
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
    """One VersionEdit: its bytes, which are read in order, and what they change."""

    __slots__ = ("added", "at", "comparator", "data", "deleted", "dropped", "family", "left", "name")

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.family, self.dropped = 0, False
        self.name: str | None = None
        self.comparator: str | None = None
        self.added: list[LiveFile] = []
        self.deleted: list[tuple[int, int]] = []
        # How many edits are still to come that take effect only together with this one.
        self.left = 0

    def number(self, limit: int = (1 << 64) - 1) -> int:
        at, data = self.at, self.data
        if at < len(data) and (value := data[at]) < 0x80:
            # Most numbers have one byte.
            self.at = at + 1
        else:
            value, self.at = varint(data, at)
        if value > limit:
            raise ValueError(f"the number {value} is over {limit}")
        return value

    def slice(self) -> bytes:
        length = self.number()
        if length > len(self.data) - self.at:
            raise ValueError("a string is cut off")
        self.at += length
        return self.data[self.at - length : self.at]

    def text(self) -> str:
        return self.slice().decode("utf-8", "replace")

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
    group: list[tuple[int, _Edit]] = []
    before = files = 0
    for offset, record in log_records(data, file):
        try:
            edit = _read_edit(record, file, offset)
            if before and edit.left != before - 1:
                raise ValueError(f"{edit.left} changes of a group are left, where {before} were before this one")
            if edit.left > _MAX_GROUP:
                raise ValueError(f"a group of {edit.left} changes")
            before = edit.left
            group.append((offset, edit))
            if before:
                continue
            for place, one in group:
                offset = place
                files += _apply(one, families)
        except ValueError as error:
            raise damaged(file, offset, f"a change of the manifest is damaged: {error}") from error
        if files > _MAX_FILES or len(families) > _MAX_FAMILIES:
            raise damaged(file, offset, f"over {_MAX_FILES} files or {_MAX_FAMILIES} column families in one database")
        group = []
    if group:
        raise damaged(file, group[0][0], "the manifest ends within a group of changes")
    return tuple(
        ColumnFamily(number, family.name, family.comparator, tuple(family.files[key] for key in sorted(family.files)))
        for number, family in sorted(families.items())
    )


def _apply(edit: _Edit, families: dict[int, _Family]) -> int:
    """Apply one change: deletions before additions, as a file may only change its level.

    Returns how many files there are more. Raises ValueError.
    """
    less = 0
    if edit.name is not None:
        if edit.family in families and edit.family != 0:
            raise ValueError(f"column family {edit.family} is added twice")
        less = len(families[edit.family].files) if edit.family in families else 0
        families[edit.family] = _Family(edit.name)
    if edit.dropped:
        dropped = families.pop(edit.family, None)
        return -less - (0 if dropped is None else len(dropped.files))
    family = families.get(edit.family)
    if family is None:
        raise ValueError(f"there is no column family {edit.family}")
    if edit.comparator is not None:
        family.comparator = edit.comparator
    before = len(family.files)
    for key in edit.deleted:
        family.files.pop(key, None)
    for live in edit.added:
        if family.comparator in BYTEWISE and live.smallest.key > live.largest.key:
            raise ValueError("a file's smallest key is greater than its largest")
        family.files[live.level, live.number] = live
    return len(family.files) - before - less


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


def _set(name: str, read: Callable[[_Edit], object]) -> Callable[[_Edit], object]:
    return lambda edit: setattr(edit, name, read(edit))


_FIELDS: dict[int, Callable[[_Edit], object]] = {
    1: _set("comparator", _Edit.text),
    2: _Edit.number,
    3: _Edit.number,
    4: _Edit.number,
    5: lambda edit: (edit.number(), edit.slice()),
    6: lambda edit: edit.deleted.append((edit.number(_MAX_LEVEL), edit.number())),
    7: lambda edit: edit.added.append(_new_file(edit, sequences=False)),
    9: _Edit.number,
    10: _Edit.number,
    100: lambda edit: edit.added.append(_new_file(edit)),
    102: lambda edit: edit.added.append(_new_file(edit, path=True)),
    103: lambda edit: edit.added.append(_new_file(edit, fields=True)),
    200: _set("family", lambda edit: edit.number(1 << 32)),
    201: _set("name", _Edit.text),
    202: _set("dropped", lambda edit: True),
    203: _Edit.number,
    300: _set("left", _Edit.number),
}
"""How each known field (VersionEdit's Tag) is read."""


def _read_edit(record: bytes, file: str, offset: int) -> _Edit:
    """Read a record. Raises ValueError, UnsupportedSnapshot."""
    edit = _Edit(record)
    while edit.at < len(record):
        tag = edit.number()
        read = _FIELDS.get(tag)
        if read is not None:
            read(edit)
        elif tag & _SAFE_TO_IGNORE:
            edit.slice()
        else:
            what = "values in blob files" if tag in (400, 401) else f"the unknown change {tag} of a database"
            raise UnsupportedSnapshot(
                what,
                where=Where(file=file, offset=offset),
                advice="let Flink restore the snapshot and take a canonical savepoint of it",
            )
    return edit
