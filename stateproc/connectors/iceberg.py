"""Iceberg: manifests that a sink has not committed, splits of the source and its enumerator.

Source: DeltaManifestsSerializer, IcebergCommittableSerializer, IcebergSourceSplitSerializer,
IcebergEnumeratorStateSerializer.

    manifests v2      bytes32 data manifest, bytes32 delete manifest (either may be empty), n x utf data file that the
                      deletes refer to
    manifests v1      the data manifest
    manifest          C2 01, utf Avro schema, the record in Avro's binary encoding
    committable v1    utf job id, utf operator id, i64 checkpoint, bytes32 (empty, or i32 version, bytes32 manifests)
    split v3, v2      i32 file offset, i64 record offset, n x JSON of a scan task (v3: i32 length, UTF-8; v2: utf)
    split v1          Java object stream of IcebergSourceSplit
    enumerator v1, v2 bool, [i32 1, bytes32 (bool, [i64 snapshot], bool, [i64 time])], i32 split version, n x (bytes32
                      split, utf status),
                      [v2: n x i32 numbers of splits]

FlinkSink (v1) keeps SortedMap<checkpoint, versioned manifests> in `iceberg-files-committer-state`; IcebergSink (v2)
has committables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Pending, Position, Versioned
from stateproc.connectors.java_objects import class_name, java_object, java_stream
from stateproc.connectors.structures import (
    BYTES,
    COUNT,
    I32,
    I64,
    TEXT,
    UTF,
    Part,
    Structure,
    checked,
    column,
    computed_columns,
    constant,
    hidden,
    is_text,
    listed,
    optional,
    record,
    rest,
    sized,
    versioned,
)
from stateproc.errors import SnapshotError
from stateproc.wire.cursor import Cursor
from stateproc.wire.java_stream import JavaArray, JavaObject

_MANIFEST_HEADER = b"\xc2\x01"
_MANIFEST_TYPE = pa.struct(
    [
        ("path", pa.string()),
        ("length", pa.int64()),
        ("content", pa.string()),
        ("snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("added_files", pa.int64()),
        ("added_rows", pa.int64()),
        ("existing_files", pa.int64()),
        ("deleted_files", pa.int64()),
    ]
)
_CONTENTS = {0: "DATA", 1: "DELETES"}
_NAMES = {
    "path": ("manifest_path",),
    "length": ("manifest_length",),
    "content": ("content",),
    "snapshot_id": ("added_snapshot_id",),
    "sequence_number": ("sequence_number",),
    "added_files": ("added_files_count", "added_data_files_count"),
    "added_rows": ("added_rows_count",),
    "existing_files": ("existing_files_count", "existing_data_files_count"),
    "deleted_files": ("deleted_files_count", "deleted_data_files_count"),
}
"""Column → the fields of GenericManifestFile, of newer and older releases."""


def manifest(data: bytes) -> FormatRow | None:
    """Return the manifest file that bytes describe; None if they are empty or cannot be read."""
    # Lazy: start-up.
    from stateproc.codec.avro_schema import parse_schema
    from stateproc.codec.kryo.avro import AvroBinary

    if not data:
        return None
    cursor = Cursor(data, pos=len(_MANIFEST_HEADER))
    try:
        schema = parse_schema(cursor.utf())
        found = AvroBinary(cursor, schema).read(schema.root, 0).fields
        cursor.finish("the manifest")
    except (SnapshotError, ValueError, AttributeError):
        return None
    row = {name: next((found[field] for field in fields if field in found), None) for name, fields in _NAMES.items()}
    row["content"] = _CONTENTS.get(row["content"] or 0)
    for name, value in row.items():
        if name not in ("path", "content"):
            row[name] = _number(value)
    return row if isinstance(row["path"], str) else None


def _manifest(name: str, of: Structure) -> tuple[Part, ...]:
    stored = checked(of, lambda data: not data or data.startswith(_MANIFEST_HEADER), "a manifest of Iceberg")
    return hidden(f"{name}_stored", stored), computed_columns(
        {name: _MANIFEST_TYPE}, lambda row: {name: manifest(row[f"{name}_stored"])}
    )


_MANIFESTS: Mapping[int, Structure] = {
    1: checked(
        record(*_manifest("data_manifest", rest())),
        lambda row: row["data_manifest"] is not None,
        "a manifest of Iceberg",
    ),
    2: record(
        *_manifest("data_manifest", BYTES),
        *_manifest("delete_manifest", BYTES),
        column("referenced_data_files", listed(UTF)),
    ),
}


def _pending(row: FormatRow) -> Iterator[Pending]:
    for name in ("data_manifest", "delete_manifest"):
        if not row.get(f"{name}_stored"):
            continue
        found = row[name] or {}
        yield Pending(
            "manifest",
            found.get("path") or "a manifest that cannot be read",
            bytes=found.get("length"),
            files=found.get("added_files"),
            rows=found.get("added_rows"),
            bucket=(found.get("content") or "").lower() or None,
        )


def _says_more(row: FormatRow) -> bool:
    return bool(row["data_manifest"] or row.get("delete_manifest"))


MANIFESTS = ConnectorFormat("iceberg", FormatRole.MANIFESTS, _MANIFESTS, pending=_pending, identifies=_says_more)
_NO_MANIFESTS: FormatRow = {"data_manifest": None, "delete_manifest": None, "referenced_data_files": None}


def _committed(row: FormatRow) -> FormatRow:
    cursor = Cursor(row["manifests"])
    if not cursor.remaining:
        return _NO_MANIFESTS
    found = MANIFESTS.read(Versioned(cursor.i32(), cursor.bytes32()))
    return found or cursor.corrupt("not the manifests of Iceberg", at=0)


_HEX_ID = checked(UTF, lambda value: len(value) == 32 and all(digit in "0123456789abcdef" for digit in value), "an id")


def _committable_pending(row: FormatRow) -> Iterator[Pending]:
    if row["manifests"]:
        for pending in _pending(row):
            yield replace(pending, checkpoint_id=row["checkpoint_id"])


COMMITTABLE = ConnectorFormat(
    "iceberg",
    FormatRole.COMMITTABLE,
    {
        1: record(
            column("job_id", _HEX_ID),
            column("operator_id", _HEX_ID),
            column("checkpoint_id", I64),
            hidden("manifests", BYTES),
            computed_columns({field.name: field.type for field in MANIFESTS.arrow_type}, _committed),
        )
    },
    pending=_committable_pending,
)


# The source.

_TASK_TYPE = pa.list_(
    pa.struct([("file", pa.string()), ("start", pa.int64()), ("length", pa.int64()), ("record_count", pa.int64())])
)


def _read_tasks(cursor: Cursor, row: FormatRow) -> None:
    row["tasks"] = [_json_task(cursor, text) for text in row["task_texts"]]
    if not row["tasks"]:
        cursor.corrupt("a split without files")


def _json_task(cursor: Cursor, text: str) -> FormatRow:
    try:
        task = json.loads(text)
        file = task["data-file"]
        numbers = {"start": task.get("start"), "length": task.get("length"), "record_count": file.get("record-count")}
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        cursor.corrupt("not the JSON of a scan task")
    path = str(file.get("file-path"))
    if not is_text(path):
        cursor.corrupt("not the path of a file")
    return {"file": path, **{name: _number(value) for name, value in numbers.items()}}


def _json_split(text: Structure) -> Structure:
    tasks = Part((pa.field("tasks", _TASK_TYPE),), _read_tasks, lambda out, row: None)
    return record(column("file_offset", COUNT), column("record_offset", I64), hidden("task_texts", listed(text)), tasks)


_SPLIT_CLASS = "org.apache.iceberg.flink.source.split.IcebergSourceSplit"


def _is_java_split(data: bytes) -> bool:
    return _SPLIT_CLASS.encode() in data[:80] and class_name(data) == _SPLIT_CLASS


def _java_split(row: FormatRow) -> FormatRow:
    """Read the fields of IcebergSourceSplit; null where the stream has others."""
    split = java_object(row["stream"])
    fields = split.fields if isinstance(split, JavaObject) else {}
    tasks = _field(fields.get("task"), "tasks") or ()
    return {
        "file_offset": _number(fields.get("fileOffset")),
        "record_offset": _number(fields.get("recordOffset")),
        "tasks": [_java_task(task) for task in tasks],
    }


def _field(value: Any, name: str) -> Any:
    """Return a field of an object: a boxed number as number, an array as its values."""
    found = value.fields.get(name) if isinstance(value, JavaObject) else None
    if isinstance(found, JavaArray):
        return found.values
    return (
        found.fields.get("value") if isinstance(found, JavaObject) and found.class_name == "java.lang.Long" else found
    )


def _number(value: Any) -> int | None:
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def _java_task(task: Any) -> FormatRow:
    whole = _field(task, "fileScanTask") or task
    file = _field(whole, "file")
    length, path = _number(_field(task, "len")), _field(file, "filePath")
    return {
        "file": path if isinstance(path, str) and is_text(path) else None,
        "start": _number(_field(task, "offset")) or 0,
        "length": _number(_field(file, "fileSizeInBytes")) if length is None else length,
        "record_count": _number(_field(file, "recordCount")),
    }


_SPLITS: Mapping[int, Structure] = {
    1: record(
        hidden("stream", checked(java_stream(rest()), _is_java_split, "a Java stream of an IcebergSourceSplit")),
        computed_columns({"file_offset": pa.int32(), "record_offset": pa.int64(), "tasks": _TASK_TYPE}, _java_split),
    ),
    2: _json_split(UTF),
    3: _json_split(TEXT),
}


def _positions(row: FormatRow, *, assigned: bool = True) -> Iterator[Position]:
    tasks, at = row["tasks"], row["file_offset"]
    file = tasks[at]["file"] if at is not None and 0 <= at < len(tasks) else None
    name = next((task["file"] for task in tasks), None)
    split = f"{len(tasks)} files from {name}"
    position = f"file {at + 1} of {len(tasks)} + {row['record_offset']} records: {file}" if file else None
    yield Position(split, "file and record", position, assigned=assigned)


SPLIT = ConnectorFormat("iceberg", FormatRole.SPLIT, _SPLITS, positions=_positions)
_STATUSES = ("UNASSIGNED", "ASSIGNED", "COMPLETED")
_ENUMERATED = record(
    constant(I32, 1, "the version of an enumerator's position"),
    column("position", sized(record(column("snapshot_id", optional(I64)), column("timestamp_ms", optional(I64))))),
)


def _pending_splits() -> Structure:
    """Describe the splits that no reader has: i32 split version, n x (bytes32 split, utf status)."""
    status = checked(UTF, lambda value: value in _STATUSES, "the status of a split")
    layouts = {
        version: listed(record(column("split", sized(split)), column("status", status)))
        for version, split in _SPLITS.items()
    }
    item = pa.struct([("split", SPLIT.arrow_type), ("status", pa.string())])
    columns = pa.struct([("split_version", pa.int32()), ("splits", pa.list_(item))])
    return versioned(layouts, "splits", columns, name="split_version", value="splits")


def _of(name: str) -> Callable[[FormatRow], Any]:
    return lambda row: ((row["enumerated"] or {}).get("position") or {}).get(name)


def _enumerator(*history: Part) -> Structure:
    return record(
        hidden("enumerated", optional(_ENUMERATED)),
        computed_columns(
            {"snapshot_id": pa.int64(), "timestamp_ms": pa.int64()},
            lambda row: {name: _of(name)(row) for name in ("snapshot_id", "timestamp_ms")},
        ),
        column("pending", _pending_splits()),
        *history,
    )


def _enumerator_positions(row: FormatRow) -> Iterator[Position]:
    snapshot = None if row["snapshot_id"] is None else f"after {row['snapshot_id']}"
    yield Position("table", "snapshot", snapshot, assigned=False)
    for item in row["pending"]["splits"]:
        yield from _positions(item["split"], assigned=False)


ENUMERATOR = ConnectorFormat(
    "iceberg",
    FormatRole.ENUMERATOR,
    {1: _enumerator(), 2: _enumerator(column("enumeration_split_count_history", listed(I32)))},
    positions=_enumerator_positions,
    identifies=lambda row: row["enumerated"] is not None or bool(row["pending"]["splits"]),
)
