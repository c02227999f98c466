"""What file systems need to go on with a file or to commit it (RecoverableWriter), within the state of file sinks.

All numbers are little-endian, texts UTF-8.

    local     LocalRecoverableSerializer: i32 0x1E744B57, i64 offset, i32, i32 lengths, target, temporary file
    S3        S3RecoverableSerializer: i32 0x98761432, i32 length, object, i32 length, upload id, i32 n, n x (i32
              part, i32 length,
              etag), i64 bytes in parts, i32 length, object with the incomplete part (length 0: none), i64 its length
              (-1: none)
    Hadoop    HadoopRecoverableSerializer: i32 0xD7436C5E, i64 offset, i32, i32 lengths, target, temporary file
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Versioned
from stateproc.connectors.structures import (
    BYTES,
    I32,
    LE_I32,
    LE_I64,
    Part,
    Structure,
    at_least,
    column,
    computed_columns,
    constant,
    hidden,
    listed,
    null_for,
    record,
    text,
)
from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

_LOCAL_MAGIC, _S3_MAGIC, _HADOOP_MAGIC = 0x1E744B57, 0x98761432, 0xD7436C5E
_LE_TEXT = text(LE_I32)


def _magic(number: int) -> Part:
    signed = number - (1 << 32) if number >= 1 << 31 else number
    return constant(LE_I32, signed, f"{number:08X}, the magic number of a recoverable")


def _file(magic: int) -> Structure:
    """Describe a file by offset, target and temporary name, with both lengths before the names."""

    def read(cursor: Cursor) -> FormatRow:
        lengths = LE_I32.read(cursor), LE_I32.read(cursor)
        names = []
        for length in lengths:
            at = cursor.pos
            if length < 0:
                cursor.corrupt(f"negative length {length}", at=at)
            try:
                names.append(str(cursor.take(length, "a file name"), "utf-8"))
            except UnicodeDecodeError:
                cursor.corrupt("not UTF-8", at=at)
        return {"target": names[0], "temporary": names[1]}

    def write(out: Output, row: FormatRow) -> None:
        names = row["target"].encode(), row["temporary"].encode()
        for name in names:
            LE_I32.write(out, len(name))
        for name in names:
            out.raw(name)

    fields = (pa.field("target", pa.string()), pa.field("temporary", pa.string()))
    both = Part(fields, lambda cursor, row: row.update(read(cursor)), write, 8)
    return record(_magic(magic), column("offset", at_least(LE_I64, 0, "an offset")), both)


_PART = record(column("part", LE_I32), column("etag", _LE_TEXT))
_NO_TEXT = Structure(
    pa.string(),
    lambda cursor: _LE_TEXT.read(cursor) or None,
    lambda out, value: _LE_TEXT.write(out, value or ""),
    4,
)
_S3 = record(
    _magic(_S3_MAGIC),
    column("target", _LE_TEXT),
    column("upload_id", _LE_TEXT),
    column("parts", listed(_PART, LE_I32)),
    column("bytes_in_parts", at_least(LE_I64, 0, "a size")),
    column("incomplete_object", _NO_TEXT),
    column("incomplete_object_length", null_for(at_least(LE_I64, -1, "a size"), -1)),
)

LOCAL = ConnectorFormat("local", FormatRole.RECOVERABLE, {1: _file(_LOCAL_MAGIC)})
S3 = ConnectorFormat("s3", FormatRole.RECOVERABLE, {1: _S3})
HADOOP = ConnectorFormat("hadoop", FormatRole.RECOVERABLE, {1: _file(_HADOOP_MAGIC)})
RECOVERABLES = (LOCAL, S3, HADOOP)

_SHOWN: dict[str, Any] = {
    "file_system": pa.string(),
    "target": pa.string(),
    "temporary": pa.string(),
    "bytes": pa.int64(),
    "upload_id": pa.string(),
    "parts": pa.int32(),
}


def recoverable_columns(row: FormatRow) -> FormatRow:
    """Return what is known of a row's ``recoverable`` in its ``recoverable_version``."""
    item = Versioned(row["recoverable_version"], row["recoverable"])
    for known in RECOVERABLES:
        found = known.read(item)
        if found is not None:
            size = found.get("offset")
            if known is S3:
                size = found["bytes_in_parts"] + (found["incomplete_object_length"] or 0)
            return {
                "file_system": known.name,
                "target": found["target"],
                "temporary": found.get("temporary") or found.get("incomplete_object"),
                "bytes": size,
                "upload_id": found.get("upload_id"),
                "parts": len(found["parts"]) if "parts" in found else None,
            }
    return dict.fromkeys(_SHOWN)


RECOVERABLE_PARTS: tuple[Part, ...] = (
    hidden("recoverable_version", I32),
    hidden("recoverable", BYTES),
    computed_columns(_SHOWN, recoverable_columns),
)
"""A versioned recoverable: file system, target, temporary file, bytes, upload; null if the file system is not known."""
