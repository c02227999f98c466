"""FileSource: splits of files (FileSourceSplitSerializer), and the enumerator's (PendingSplitsCheckpointSerializer).

The enumerator's numbers are little-endian: i32 0xDEADBEEF, i32 split version, i32 n, i32 m, n times (i32 length,
split), m times (i32 length, UTF-8 path that was enumerated already).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Position
from stateproc.connectors.structures import (
    I32,
    I64,
    LE_I32,
    LONG_COUNT,
    UTF,
    Part,
    Structure,
    at_least,
    checked,
    column,
    computed,
    hidden,
    is_text,
    listed,
    null_for,
    optional,
    record,
    sized,
    text,
)
from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

_NO_OFFSET = -1
ENUMERATOR_MAGIC = 0xDEADBEEF

_FSTR = checked(
    Structure(pa.string(), Cursor.fstr, Output.fstr), lambda value: value is None or is_text(value), "a text"
)
_NULLABLE = optional(_FSTR)
_PATH = checked(
    optional(
        record(
            *(column(name, _NULLABLE) for name in ("scheme", "user", "host")),
            column("port", I32),
            *(column(name, _NULLABLE) for name in ("path", "query", "fragment")),
        )
    ),
    lambda uri: uri is not None and uri["path"] is not None,
    "the path of a file",
)
"""org.apache.flink.core.fs.Path: the components of its URI."""


def _uri(row: FormatRow) -> str:
    parts = row["uri"]
    authority = None
    if parts["host"] is not None:
        user = f"{parts['user']}@" if parts["user"] is not None else ""
        authority = f"{user}{parts['host']}{':' + str(parts['port']) if parts['port'] >= 0 else ''}"
    return "".join(
        [
            f"{parts['scheme']}:" if parts["scheme"] is not None else "",
            f"//{authority}" if authority is not None else "",
            parts["path"],
            f"?{parts['query']}" if parts["query"] is not None else "",
            f"#{parts['fragment']}" if parts["fragment"] is not None else "",
        ]
    )


_POSITION = record(
    column("offset", null_for(at_least(I64, _NO_OFFSET, "an offset"), _NO_OFFSET)),
    column("records", at_least(I64, 0, "a number of records")),
)
"""CheckpointedPosition; offset -1 means that the reader has no offset."""


def _of_position(name: str) -> Any:
    return lambda row: None if row["reader_position"] is None else row["reader_position"][name]


def _split(*file_status: Part) -> Structure:
    return record(
        column("split_id", checked(UTF, bool, "the id of a split")),
        hidden("uri", _PATH),
        computed("path", pa.string(), _uri),
        column("offset", LONG_COUNT),
        column("length", LONG_COUNT),
        *file_status,
        column("hosts", listed(UTF)),
        hidden("reader_position", optional(_POSITION)),
        computed("reader_offset", pa.int64(), _of_position("offset")),
        computed("records_after_offset", pa.int64(), _of_position("records")),
    )


_WITH_STATUS = _split(column("file_modification_time", I64), column("file_size", I64))
_WITHOUT_STATUS = _split(
    computed("file_modification_time", pa.int64(), lambda row: None),
    computed("file_size", pa.int64(), lambda row: None),
)


def _positions(row: FormatRow, *, assigned: bool = True) -> Iterator[Position]:
    offset, records = row["reader_offset"], row["records_after_offset"]
    read = None
    if records is not None:
        read = f"{records} records" if offset is None else f"byte {offset} + {records} records"
    start, end = row["offset"], row["offset"] + row["length"]
    split = f"{row['path']} ({start} to {end})"
    yield Position(split, "file and records read", read or f"byte {start}", stops_at=f"byte {end}", assigned=assigned)


def _enumerator(split: Structure) -> Structure:
    """Describe PendingSplitsCheckpoint: both numbers come before the splits and paths."""
    one, path = sized(split, LE_I32), text(LE_I32)

    def read(cursor: Cursor) -> FormatRow:
        if LE_I32.read(cursor) & 0xFFFFFFFF != ENUMERATOR_MAGIC or LE_I32.read(cursor) != 1:
            cursor.corrupt("not the checkpoint of a FileSource's enumerator", at=0)
        splits, paths = LE_I32.read(cursor), LE_I32.read(cursor)
        if min(splits, paths) < 0 or (splits + paths) * 4 > cursor.remaining:
            cursor.corrupt(f"{splits} splits and {paths} paths with {cursor.remaining} bytes left")
        return {
            "splits": [one.read(cursor) for _ in range(splits)],
            "already_processed_paths": [path.read(cursor) for _ in range(paths)],
        }

    def write(out: Output, row: FormatRow) -> None:
        splits, paths = row["splits"], row["already_processed_paths"]
        for number in (ENUMERATOR_MAGIC - (1 << 32), 1, len(splits), len(paths)):
            LE_I32.write(out, number)
        for item in splits:
            one.write(out, item)
        for item in paths:
            path.write(out, item)

    columns = [("splits", pa.list_(split.arrow_type)), ("already_processed_paths", pa.list_(pa.string()))]
    return Structure(pa.struct(columns), read, write, 16)


def _enumerator_positions(row: FormatRow) -> Iterator[Position]:
    for split in row["splits"]:
        yield from _positions(split, assigned=False)


_OLD = "file, without modification time and size"
SPLIT = ConnectorFormat("file", FormatRole.SPLIT, {1: _WITH_STATUS}, positions=_positions)
SPLIT_WITHOUT_FILE_STATUS = ConnectorFormat(_OLD, FormatRole.SPLIT, {1: _WITHOUT_STATUS}, positions=_positions)
"""Version 1 as its first releases write it."""
ENUMERATOR = ConnectorFormat(
    "file", FormatRole.ENUMERATOR, {1: _enumerator(_WITH_STATUS)}, positions=_enumerator_positions
)
ENUMERATOR_WITHOUT_FILE_STATUS = ConnectorFormat(
    _OLD, FormatRole.ENUMERATOR, {1: _enumerator(_WITHOUT_STATUS)}, positions=_enumerator_positions
)
