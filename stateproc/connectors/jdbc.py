"""JDBC: XA transactions of a sink, splits of the source and its enumerator.

Source: JdbcCommitableSerializer, JdbcWriterStateSerializer, TransactionId, JdbcSourceSplitSerializer,
JdbcSourceEnumStateSerializer.

    committable v1    i32 format 202, u8 length, global id, u8 length, branch qualifier, padding
    writer v2         n x transaction that hangs, n x transaction that is prepared, padding
    transaction       u8 length, 16 bytes job id, i32 subtask, i32 subtasks, i64 checkpoint, i32 attempts, padding
    split v0          utf id, utf SQL, bytes32 Java stream of the parameters, bytes32 Java stream of CheckpointedOffset
    enumerator v0     n x split that is complete, n x that is read, n x that no reader has, bytes32 Java stream of the
                      user's state

Padding is zeros up to the size of the buffer that Flink wrote from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Pending, Position
from stateproc.connectors.java_objects import java_object, java_stream, java_texts
from stateproc.connectors.structures import (
    BYTES,
    I32,
    I64,
    U8,
    UTF,
    Part,
    Structure,
    at_least,
    bytes_of,
    checked,
    column,
    computed,
    computed_columns,
    converted,
    fixed_bytes,
    hidden,
    listed,
    record,
    rest,
    sized,
)
from stateproc.wire.java_stream import JavaObject

_FORMAT = 202
_LONGEST_ID = 64
_GLOBAL_ID_BYTES, _QUALIFIER_BYTES = 34, 13
_PADDING = hidden("padding", checked(rest(), lambda data: not any(data), "padding of zeros"))


def _hex(of: Structure) -> Structure:
    return converted(of, pa.string(), bytes.hex, bytes.fromhex)


_ID = _hex(checked(bytes_of(U8), lambda data: 0 < len(data) <= _LONGEST_ID, "an id of up to 64 bytes"))
_COMMITTABLE = record(
    column("format_id", checked(I32, lambda value: value == _FORMAT, "the format of an XID of Flink")),
    column("global_transaction_id", _ID),
    column("branch_qualifier", _ID),
    _PADDING,
)


def _committable_pending(row: FormatRow) -> Iterator[Pending]:
    yield Pending("XID", f"{row['format_id']}:{row['global_transaction_id']}:{row['branch_qualifier']}")


COMMITTABLE = ConnectorFormat("jdbc xa", FormatRole.COMMITTABLE, {1: _COMMITTABLE}, pending=_committable_pending)


def _xid(row: FormatRow) -> str:
    """Return the XID as databases and logs show it: format, global id, qualifier; the ids are padded."""
    subtask, subtasks = (row[name].to_bytes(4, "big") for name in ("subtask", "subtasks"))
    global_id = (bytes.fromhex(row["job_id"]) + subtask).ljust(_GLOBAL_ID_BYTES, b"\0")
    qualifier = (subtasks + row["checkpoint_id"].to_bytes(8, "big")).ljust(_QUALIFIER_BYTES, b"\0")
    return f"{_FORMAT}:{global_id.hex()}:{qualifier.hex()}"


_TRANSACTION = sized(
    record(
        column("job_id", _hex(fixed_bytes(16))),
        column("subtask", at_least(I32, 0, "a subtask")),
        column("subtasks", at_least(I32, 0, "a number of subtasks")),
        column("checkpoint_id", at_least(I64, 0, "a checkpoint")),
        column("attempts", at_least(I32, 0, "a number of attempts")),
        computed("xid", pa.string(), _xid),
        _PADDING,
    ),
    U8,
)


def _writer_pending(row: FormatRow) -> Iterator[Pending]:
    for name, status in (("prepared", "to commit"), ("hanging", "to clean up")):
        for transaction in row[name]:
            yield Pending("XID", transaction["xid"], status, checkpoint_id=transaction["checkpoint_id"])


WRITER = ConnectorFormat(
    "jdbc xa",
    FormatRole.WRITER,
    {2: record(column("hanging", listed(_TRANSACTION)), column("prepared", listed(_TRANSACTION)), _PADDING)},
    pending=_writer_pending,
    identifies=lambda row: bool(row["hanging"] or row["prepared"]),
)


# The source.

_OFFSET_CLASS = "CheckpointedOffset"


def _offset(row: FormatRow) -> FormatRow:
    value = java_object(row["offset_stream"])
    fields = value.fields if isinstance(value, JavaObject) and value.class_name.endswith(_OFFSET_CLASS) else {}
    found = (fields.get("offset"), fields.get("recordsAfterOffset"))
    offset, records = (value if type(value) is int else None for value in found)
    return {"offset": None if offset == -1 else offset, "records_after_offset": records}


def _split_parts() -> tuple[Part, ...]:
    return (
        column("split_id", UTF),
        column("sql", UTF),
        hidden("parameters_stream", java_stream(BYTES)),
        computed("parameters", pa.list_(pa.string()), lambda row: java_texts(row["parameters_stream"])),
        hidden("offset_stream", java_stream(BYTES)),
        computed_columns({"offset": pa.int64(), "records_after_offset": pa.int64()}, _offset),
    )


_SPLIT = record(*_split_parts())


def _positions(row: FormatRow, *, assigned: bool = True, phase: str | None = None) -> Iterator[Position]:
    parameters = ", ".join(str(value) for value in row["parameters"] or ())
    split = f"{row['sql']} [{parameters}]" if parameters else row["sql"]
    records = row["records_after_offset"]
    at = None if records is None else f"{records} records"
    if at is not None and row["offset"] is not None:
        at = f"offset {row['offset']} + {at}"
    yield Position(split, "query and records read", at, phase, assigned=assigned)


def _enumerator_positions(row: FormatRow) -> Iterator[Position]:
    for split in row["remaining"]:
        yield from _positions(split, assigned=False)


SPLIT = ConnectorFormat("jdbc", FormatRole.SPLIT, {0: _SPLIT}, positions=_positions)
_SPLITS: Any = listed(_SPLIT)
ENUMERATOR = ConnectorFormat(
    "jdbc",
    FormatRole.ENUMERATOR,
    {
        0: record(
            column("completed", _SPLITS),
            column("pending", _SPLITS),
            column("remaining", _SPLITS),
            column("user_state", java_stream(BYTES)),
        )
    },
    positions=_enumerator_positions,
)
