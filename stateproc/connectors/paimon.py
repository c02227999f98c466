"""Paimon: commits that a sink has not made, splits of the source and its enumerator.

Source: ManifestCommittableSerializer, CommitMessageSerializer, FileStoreSourceSplitSerializer,
PendingSplitsCheckpointSerializer.

    commit v2 to v5   i64 identifier (checkpoint), bool, [i64 watermark], [to v4: n x (i32, i64) log offsets], [v4+: n
                      x (utf, utf) properties],
                      i32 message version, n x message
    message           bytes32 partition (i32 arity, BinaryRow), i32 bucket, [v7+: bool, [i32 number of buckets]],
                      v3 to v9: six lists of files (new, deleted, changelog, before, after, changelog of compactions),
                      two of indexes; v1 and v2: one
                      v10+: three lists of files, two of indexes, three of files, two of indexes
    list              n x bytes32 BinaryRow; a file's first fields are name, bytes, rows
    split v1          utf id, Java object stream, i64 records to skip
    enumerator v1     n x bytes32 split, i64 next snapshot (-1: none)

The flag before the watermark is true where there is none. Elements of `streaming_committer_raw_states` are these
commits: the name is that of Flink's committer, the layout is not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Pending, Position
from stateproc.connectors.java_objects import class_name, java_stream
from stateproc.connectors.structures import (
    BYTES,
    I32,
    I64,
    UTF,
    ByVersion,
    Part,
    Structure,
    at_least,
    checked,
    column,
    computed_columns,
    hidden,
    listed,
    null_for,
    optional,
    record,
    rest,
    sized,
    versioned,
)
from stateproc.errors import CorruptSnapshot
from stateproc.wire.cursor import Cursor

_SLOT, _FIRST_SLOT, _LEAST_ROW = 8, 8, 32
_INLINE = 0x80
_FILE_FIELDS = {"file": pa.string(), "bytes": pa.int64(), "rows": pa.int64()}


def file_of(row: bytes) -> FormatRow | None:
    """Return name, bytes and rows of a file's BinaryRow (DataFileMeta); None if the row has another layout.

    Rows of up to 56 fields have 8 bytes of header and null bits, then a slot of 8 bytes per field: a number, or the
    offset (high 32 bits: offset, low: length) of a text; texts of up to 7 bytes are in the slot.
    """
    if len(row) < _LEAST_ROW:
        return None
    slot = row[_FIRST_SLOT : _FIRST_SLOT + _SLOT]
    if slot[-1] & _INLINE:
        text = slot[: slot[-1] & 0x7F]
    else:
        length, offset = struct.unpack("<ii", slot)
        if length < 0 or offset < _LEAST_ROW or offset + length > len(row):
            return None
        text = row[offset : offset + length]
    size, rows = struct.unpack_from("<qq", row, _FIRST_SLOT + _SLOT)
    if size < 0 or rows < 0:
        return None
    try:
        return {"file": text.decode("utf-8"), "bytes": size, "rows": rows}
    except UnicodeDecodeError:
        return None


_FILE = checked(
    record(
        hidden("stored", BYTES), computed_columns(_FILE_FIELDS, lambda row: file_of(row["stored"]) or {"file": None})
    ),
    lambda row: row["file"] is not None,
    "a file of Paimon",
)
_DATA = ("new_files", "deleted_files", "changelog_files")
_COMPACTION = ("compact_before", "compact_after", "compact_changelog_files")
_INDEXES = ("new_index_files", "deleted_index_files")
_COMPACTION_INDEXES = ("compact_new_index_files", "compact_deleted_index_files")
MESSAGE_VERSIONS = range(1, 12)


def _message(version: int) -> Structure:
    files, indexes = listed(_FILE), listed(BYTES)
    if version >= 10:
        lists = [(_DATA, files), (_INDEXES, indexes), (_COMPACTION, files), (_COMPACTION_INDEXES, indexes)]
    else:
        lists = [(_DATA, files), (_COMPACTION, files), (_INDEXES[: 1 if version < 3 else 2], indexes)]
    return record(
        column("partition", checked(BYTES, lambda value: len(value) >= 4, "a partition")),
        column("bucket", I32),
        *([column("total_buckets", optional(I32))] if version >= 7 else []),
        *(column(name, of) for names, of in lists for name in names),
    )


def _messages() -> Structure:
    layouts = ByVersion(MESSAGE_VERSIONS, lambda version: listed(_message(version)))
    # The newest messages have all columns.
    columns = pa.struct([("version", pa.int32()), ("messages", layouts[max(layouts)].arrow_type)])
    return versioned(layouts, "commit messages", columns, value="messages")


_LOG_OFFSETS = column("log_offsets", listed(record(column("bucket", I32), column("offset", I64))))
_PROPERTIES = column("properties", listed(record(column("key", UTF), column("value", UTF))))


def _commit(*parts: Part) -> Structure:
    return record(
        column("identifier", I64),
        column("watermark", optional(I64, absent=True)),
        *parts,
        column("commit", _messages()),
    )


def _pending(row: FormatRow) -> Iterator[Pending]:
    for message in row["commit"]["messages"]:
        bucket = f"bucket {message['bucket']}"
        for name in ("new_files", "changelog_files", "compact_after", "compact_changelog_files"):
            for file in message.get(name) or ():
                yield Pending(
                    "file",
                    file["file"],
                    bytes=file["bytes"],
                    files=1,
                    rows=file["rows"],
                    checkpoint_id=row["identifier"],
                    bucket=bucket,
                )


def _commits(version: int) -> Structure:
    return _commit(*([_LOG_OFFSETS] if version <= 4 else []), *([_PROPERTIES] if version >= 4 else []))


COMMITTER = ConnectorFormat("paimon", FormatRole.COMMITTER, ByVersion(range(2, 6), _commits), pending=_pending)


# The source.

_SPLIT_MAGIC = bytes.fromhex("dec3d2302c19ec66")
_LONG_BLOCK, _BLOCK, _END = 0x7A, 0x77, 0x78
_DATA_SPLIT = "org.apache.paimon.table.source.DataSplit"
_FILES_FROM = (2, 8)
"""Versions of DataSplit of which the lists of files are read."""
_TOTAL_BUCKETS_SINCE = 6
_SPLIT_COLUMNS: dict[str, Any] = {
    "split_class": pa.string(),
    "snapshot_id": pa.int64(),
    "bucket": pa.int32(),
    "bucket_path": pa.string(),
    "files": pa.list_(pa.struct(list(_FILE_FIELDS.items()))),
}


def _split_columns(row: FormatRow) -> FormatRow:
    """Read what DataSplit writes within its Java stream; null where it is another class or version."""
    found: FormatRow = dict.fromkeys(_SPLIT_COLUMNS)
    found["split_class"] = name = _class_of(row["stream"])
    if name != _DATA_SPLIT:
        return found
    block = Cursor(_block(row["stream"]))
    block.take(len(_SPLIT_MAGIC))
    version = block.i32()
    found["snapshot_id"] = block.i64()
    block.bytes32()
    found["bucket"], found["bucket_path"] = block.i32(), block.utf()
    if version in _FILES_FROM:
        found["files"] = _data_files(block, version)
    return found


def _class_of(stream: bytes) -> str | None:
    """Return the class that a stream begins with; None if it is complete nowhere, for other classes than DataSplit.

    DataSplit does not write the fields that its description announces, so its stream is not read as others are.
    """
    cursor = Cursor(stream, pos=6)
    try:
        name = cursor.utf()
    except CorruptSnapshot:
        return None
    return name if name == _DATA_SPLIT else class_name(stream)


def _block(data: bytes) -> bytes:
    """Return the block data that begins with DataSplit's magic number: blocks of up to 1,024 bytes joined."""
    at = data.find(_SPLIT_MAGIC)
    cursor = Cursor(data)
    if at < 5:
        cursor.corrupt("no data of DataSplit")
    cursor.pos = at - 5 if data[at - 5] == _LONG_BLOCK else at - 2
    blocks = []
    while (tag := cursor.u8()) != _END:
        if tag not in (_LONG_BLOCK, _BLOCK):
            cursor.corrupt("more than the data of DataSplit")
        blocks.append(bytes(cursor.take(cursor.i32() if tag == _LONG_BLOCK else cursor.u8())))
    cursor.finish("a DataSplit")
    return b"".join(blocks)


def _data_files(block: Cursor, version: int) -> list[FormatRow] | None:
    if version >= _TOTAL_BUCKETS_SINCE and block.boolean():
        block.i32()
    files = listed(_FILE)
    files.read(block)  # those before the change
    if block.boolean():
        return None  # deletion files of those
    found: list[FormatRow] = files.read(block)
    return found


_SPLIT = record(
    column("split_id", UTF),
    hidden("stream", java_stream(rest(8))),
    computed_columns(_SPLIT_COLUMNS, _split_columns),
    column("records_to_skip", at_least(I64, 0, "a number of records")),
)
_IS_PAIMON = checked(
    _SPLIT, lambda row: (row["split_class"] or "").startswith("org.apache.paimon."), "a split of Paimon"
)


def _positions(row: FormatRow, *, assigned: bool = True) -> Iterator[Position]:
    where = row["bucket_path"] or row["split_id"]
    yield Position(
        f"{where} of snapshot {row['snapshot_id']}",
        "records read",
        str(row["records_to_skip"]),
        assigned=assigned,
    )


def _enumerator_positions(row: FormatRow) -> Iterator[Position]:
    snapshot = row["next_snapshot_id"]
    yield Position("table", "next snapshot", None if snapshot is None else str(snapshot), assigned=False)
    for split in row["splits"]:
        yield from _positions(split, assigned=False)


SPLIT = ConnectorFormat("paimon", FormatRole.SPLIT, {1: _IS_PAIMON}, positions=_positions)
ENUMERATOR = ConnectorFormat(
    "paimon",
    FormatRole.ENUMERATOR,
    {
        1: record(
            column("splits", listed(sized(_IS_PAIMON))),
            column("next_snapshot_id", null_for(at_least(I64, -1, "a snapshot"), -1)),
        )
    },
    positions=_enumerator_positions,
    identifies=lambda row: bool(row["splits"]),
)
