"""FileSource: splits of files (FileSourceSplitSerializer)."""

from __future__ import annotations

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow
from stateproc.wire.cursor import Cursor

_NO_OFFSET = -1


def read_split(cursor: Cursor) -> FormatRow:
    """Read version 1 as written today, with the file's modification time (epoch ms) and size."""
    return _read_split(cursor, file_status=True)


def read_split_without_file_status(cursor: Cursor) -> FormatRow:
    """Read version 1 as its first releases write it, without modification time and size."""
    return _read_split(cursor, file_status=False)


def _read_split(cursor: Cursor, *, file_status: bool) -> FormatRow:
    return {
        "split_id": cursor.utf(),
        "path": _read_path(cursor),
        "offset": _read_size(cursor),
        "length": _read_size(cursor),
        "file_modification_time": cursor.i64() if file_status else None,
        "file_size": cursor.i64() if file_status else None,
        "hosts": [cursor.utf() for _ in range(cursor.count("hosts", 2))],
        **_read_position(cursor),
    }


def _read_size(cursor: Cursor) -> int:
    at = cursor.pos
    size = cursor.i64()
    if size < 0:
        cursor.corrupt(f"offset or length {size}", at=at)
    return size


def _read_position(cursor: Cursor) -> FormatRow:
    """Read CheckpointedPosition; offset -1 means that the reader has no offset."""
    if not cursor.boolean():
        return {"reader_offset": None, "records_after_offset": None}
    offset, records = cursor.i64(), cursor.i64()
    if offset < _NO_OFFSET or records < 0:
        cursor.corrupt(f"reader position {offset}, {records}")
    return {"reader_offset": None if offset == _NO_OFFSET else offset, "records_after_offset": records}


def _read_path(cursor: Cursor) -> str | None:
    """org.apache.flink.core.fs.Path: presence flag, then the components of its URI."""
    if not cursor.boolean():
        return None
    scheme, user, host = (_read_nullable(cursor) for _ in range(3))
    port = cursor.i32()
    path, query, fragment = (_read_nullable(cursor) for _ in range(3))
    authority = (
        None
        if host is None
        else "".join([f"{user}@" if user is not None else "", host, f":{port}" if port >= 0 else ""])
    )
    return "".join(
        [
            f"{scheme}:" if scheme is not None else "",
            f"//{authority}" if authority is not None else "",
            path or "",
            f"?{query}" if query is not None else "",
            f"#{fragment}" if fragment is not None else "",
        ]
    )


def _read_nullable(cursor: Cursor) -> str | None:
    return cursor.fstr() if cursor.boolean() else None


_COLUMNS = pa.struct(
    [
        ("split_id", pa.string()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("file_modification_time", pa.int64()),
        ("file_size", pa.int64()),
        ("hosts", pa.list_(pa.string())),
        ("reader_offset", pa.int64()),
        ("records_after_offset", pa.int64()),
    ]
)

SPLIT = ConnectorFormat("file", FormatRole.SPLIT, _COLUMNS, {1: read_split})
SPLIT_WITHOUT_FILE_STATUS = ConnectorFormat(
    "file, without modification time and size", FormatRole.SPLIT, _COLUMNS, {1: read_split_without_file_status}
)
