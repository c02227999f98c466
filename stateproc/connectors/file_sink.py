"""FileSink, StreamingFileSink and the filesystem connector of SQL: buckets of writers, committables, compaction.

Source: FileWriterBucketStateSerializer, BucketStateSerializer, FileSinkCommittableSerializer,
OutputStreamBasedPartFileWriter's serializers of in-progress and pending files, CompactorRequestSerializer,
CompactorOperator.RemainingRequestsSerializer.

    committable v1, v2    i32 0x1E765C80, [v2: utf bucket], bool, [versioned pending file], bool, [versioned
                          in-progress file that is to
                          be deleted], [v2: bool, [utf compacted file that is to be deleted]]
    bucket v1 to v3       i32 0x1E764B79, versioned bucket id, utf bucket path, i64 creation time of the in-progress
                          file (max: none), bool, [versioned in-progress file; v1: recoverable], [v1, v2: i32 version,
                          n x (i64 checkpoint, n x bytes32 pending file)]
    pending file v1, v2   i32 0x2C853C89, [v2: bool, [utf target, i64 size]], versioned recoverable
    in-progress v1, v2    i32 0xB3A4073D, [v2: bool, [utf target]], versioned recoverable
    remaining requests    i32 0xA946BE83, n x (i64 checkpoint, versioned list of requests)
    request               i32 0x2FC61E19, utf bucket, versioned lists of committables to compact and to pass on
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Pending
from stateproc.connectors.recoverables import RECOVERABLE_PARTS, recoverable_columns
from stateproc.connectors.structures import (
    BYTES,
    I32,
    I64,
    LE_I32,
    LONG_COUNT,
    UTF,
    Part,
    Structure,
    column,
    computed,
    constant,
    hidden,
    listed,
    merged,
    null_for,
    optional,
    record,
    sized,
    text,
    versioned,
)
from stateproc.errors import CorruptSnapshot
from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

_COMMITTABLE_MAGIC, _BUCKET_MAGIC = 0x1E765C80, 0x1E764B79
_PENDING_MAGIC, _IN_PROGRESS_MAGIC = 0x2C853C89, 0xB3A4073D
_REQUESTS_MAGIC, _REQUEST_MAGIC = 0xA946BE83, 0x2FC61E19
_NO_TIME = (1 << 63) - 1
_LE_TEXT = text(LE_I32)


def _magic(number: int) -> Part:
    signed = number - (1 << 32) if number >= 1 << 31 else number
    return constant(I32, signed, f"{number:08X}, the magic number of a file sink's state")


def versioned_structure(versions: Mapping[int, Structure]) -> Structure:
    """Describe i32 version, bytes32 of a record in that version, which the row keeps as ``_version``."""
    filled = {version: sized(of) for version, of in versions.items()}
    return versioned(filled, "a state", _columns_of(versions), name="_version")


def _versioned_list(versions: Mapping[int, Structure]) -> Structure:
    """Describe i32 version, i32 n, n x bytes32 of a record in that version; the rows keep it as ``_version``."""
    filled = {version: listed(sized(of)) for version, of in versions.items()}
    columns = pa.struct([("items", pa.list_(_columns_of(versions)))])
    return versioned(filled, "states", columns, name="_version", value="items")


def _columns_of(versions: Mapping[int, Structure]) -> pa.DataType:
    return reduce(merged, (of.arrow_type for of in versions.values()))


def _part_files(magic: int, *described: Part) -> dict[int, Structure]:
    file = column("file", optional(record(column("path", UTF), *described)))
    return {1: record(_magic(magic), *RECOVERABLE_PARTS), 2: record(_magic(magic), file, *RECOVERABLE_PARTS)}


_PENDING_FILES = _part_files(_PENDING_MAGIC, column("size", LONG_COUNT))
_IN_PROGRESS_FILES = _part_files(_IN_PROGRESS_MAGIC)
_PENDING, _IN_PROGRESS = versioned_structure(_PENDING_FILES), versioned_structure(_IN_PROGRESS_FILES)

_FILES = (column("pending_file", optional(_PENDING)), column("in_progress_to_clean_up", optional(_IN_PROGRESS)))
_COMMITTABLES = {
    1: record(_magic(_COMMITTABLE_MAGIC), *_FILES),
    2: record(
        _magic(_COMMITTABLE_MAGIC), column("bucket", UTF), *_FILES, column("compacted_to_clean_up", optional(UTF))
    ),
}


def _pending_file(row: FormatRow, kind: str, **more: Any) -> Pending:
    described = row.get("file") or {}
    size = described.get("size")
    return Pending(
        "file",
        described.get("path") or row["target"] or "a file of an unknown file system",
        kind,
        temporary=row["temporary"],
        bytes=row["bytes"] if size is None else size,
        files=1,
        upload_id=row["upload_id"],
        **more,
    )


def _committable_pending(row: FormatRow) -> Iterator[Pending]:
    bucket = row.get("bucket")
    if row["pending_file"] is not None:
        yield _pending_file(row["pending_file"], "to commit", bucket=bucket)
    if row["in_progress_to_clean_up"] is not None:
        yield _pending_file(row["in_progress_to_clean_up"], "to clean up", bucket=bucket)
    if row.get("compacted_to_clean_up") is not None:
        yield Pending("file", row["compacted_to_clean_up"], "to clean up", bucket=bucket)


COMMITTABLE = ConnectorFormat("file sink", FormatRole.COMMITTABLE, _COMMITTABLES, pending=_committable_pending)


# Writers.


def _bucket_name(row: FormatRow) -> str | None:
    """Return the bucket id if it is a text (SimpleVersionedStringSerializer, version 1: i32 length, UTF-8)."""
    cursor = Cursor(row["bucket_id"])
    if row["bucket_id_version"] != 1:
        return None
    try:
        name: str = _LE_TEXT.read(cursor)
        cursor.finish("the bucket id")
    except CorruptSnapshot:
        return None
    return name


def _pending_by_checkpoint() -> Structure:
    """Describe pending files of versions 1 and 2: i32 version of all, n x (i64 checkpoint, n x bytes32)."""
    layouts = {
        version: listed(record(column("checkpoint_id", I64), column("files", listed(sized(file)))))
        for version, file in _PENDING_FILES.items()
    }

    def read(cursor: Cursor) -> list[FormatRow]:
        at = cursor.pos
        version = cursor.i32()
        if version not in layouts:
            cursor.corrupt(f"pending files of version {version}", at=at)
        return [{"_version": version, **row} for row in layouts[version].read(cursor)]

    def write(out: Output, rows: Sequence[FormatRow]) -> None:
        version = rows[0]["_version"] if rows else max(layouts)
        out.i32(version)
        layouts[version].write(out, rows)

    return Structure(merged(layouts[1].arrow_type, layouts[2].arrow_type), read, write, 8)


def _recoverables_by_checkpoint() -> Structure:
    """Describe pending files of version 1, recoverables: i32 version of all, n x (i64 checkpoint, n x bytes32)."""
    stored = listed(record(column("checkpoint_id", I64), column("files", listed(BYTES))))

    def read(cursor: Cursor) -> list[FormatRow]:
        version = cursor.i32()
        return [{**row, "files": [_recoverable(version, data) for data in row["files"]]} for row in stored.read(cursor)]

    def write(out: Output, rows: Sequence[FormatRow]) -> None:
        files = [file for row in rows for file in row["files"]]
        out.i32(files[0]["recoverable_version"] if files else 1)
        stored.write(out, [{**row, "files": [file["recoverable"] for file in row["files"]]} for row in rows])

    return Structure(
        pa.list_(pa.struct([("checkpoint_id", pa.int64()), ("files", pa.list_(_RECOVERABLE_TYPE))])), read, write, 8
    )


def _recoverable(version: int, data: bytes) -> FormatRow:
    row: FormatRow = {"recoverable_version": version, "recoverable": data}
    return row | recoverable_columns(row)


_RECOVERABLE = record(*RECOVERABLE_PARTS)
_RECOVERABLE_TYPE = _RECOVERABLE.arrow_type


def _bucket(version: int) -> Structure:
    """Describe a writer's bucket; files of version 1 are recoverables alone."""
    pending: list[Part] = []
    if version < 3:
        files = _recoverables_by_checkpoint() if version == 1 else _pending_by_checkpoint()
        pending.append(column("pending_files", files))
    return record(
        _magic(_BUCKET_MAGIC),
        hidden("bucket_id_version", I32),
        hidden("bucket_id", BYTES),
        computed("bucket", pa.string(), _bucket_name),
        column("bucket_path", UTF),
        column("in_progress_creation_time", null_for(I64, _NO_TIME)),
        column("in_progress_file", optional(_RECOVERABLE if version == 1 else _IN_PROGRESS)),
        *pending,
    )


def _bucket_pending(row: FormatRow) -> Iterator[Pending]:
    for checkpoint in row.get("pending_files") or ():
        for file in checkpoint["files"]:
            yield _pending_file(file, "to commit", bucket=row["bucket"], checkpoint_id=checkpoint["checkpoint_id"])
    if row["in_progress_file"] is not None:
        yield _pending_file(row["in_progress_file"], "in progress", bucket=row["bucket"])


WRITER = ConnectorFormat(
    "file sink",
    FormatRole.WRITER,
    {version: _bucket(version) for version in (1, 2, 3)},
    pending=_bucket_pending,
)


# Compaction.

_LIST = _versioned_list(_COMMITTABLES)
_REQUEST = {
    1: record(_magic(_REQUEST_MAGIC), column("bucket", UTF), column("to_compact", _LIST), column("to_pass_on", _LIST))
}
_REQUESTS = record(
    _magic(_REQUESTS_MAGIC),
    column("checkpoints", listed(record(column("checkpoint_id", I64), column("requests", _versioned_list(_REQUEST))))),
)


def _requests_pending(row: FormatRow) -> Iterator[Pending]:
    for checkpoint in row["checkpoints"]:
        for request in checkpoint["requests"]["items"]:
            for committable in (*request["to_compact"]["items"], *request["to_pass_on"]["items"]):
                for pending in _committable_pending(committable):
                    identifier = checkpoint["checkpoint_id"]
                    yield pending if identifier < 0 else replace(pending, checkpoint_id=identifier)


COMPACTION = ConnectorFormat("file sink", FormatRole.COMPACTION, {1: _REQUESTS}, pending=_requests_pending)
