"""RocksDB's log format, in which the MANIFEST is written (db/log_format.h, db/log_reader.cc)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.readers.rocksdb.checksums import CRC32C, checksum
from stateproc.readers.rocksdb.format import damaged

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
