"""Pulsar: partitions of PulsarSource and its enumerator, transactions of PulsarSink.

Source: PulsarPartitionSplitSerializer, PulsarSourceEnumStateSerializer, PulsarCommittableSerializer.

    partition           utf topic, i32 partition (-1: none), ranges of keys: v0 i32 start, i32 end; v1 n x (i32, i32),
                        i32 mode; v2 n x (i32, i32)
    split v0 to v2      partition, bytes32 Java object stream of the StopCursor, bool, [bytes32 message id], bool,
                        [i64, i64 transaction]
    enumerator v2, v3   n x partition of v1, of v2
    committable v1      i64, i64 transaction, utf topic
    message id          protobuf MessageIdData: 1 ledger, 2 entry, 3 partition, 4 index in a batch, 6 size of the batch
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Pending, Position
from stateproc.connectors.given_positions import position_error
from stateproc.connectors.java_objects import class_name, java_stream
from stateproc.connectors.structures import (
    BYTES,
    I32,
    I64,
    UTF,
    Part,
    Structure,
    at_least,
    checked,
    column,
    computed,
    computed_columns,
    converted,
    enumeration,
    hidden,
    listed,
    optional,
    record,
)
from stateproc.errors import CorruptSnapshot
from stateproc.wire.cursor import Cursor

_TOPIC = checked(UTF, lambda value: value.startswith(("persistent://", "non-persistent://")), "a Pulsar topic")
_RANGE = record(column("start", I32), column("end", I32))
_RANGE_TYPE = pa.list_(_RANGE.arrow_type)
_RANGES: dict[int, tuple[Part, ...]] = {
    0: (column("ranges", converted(_RANGE, _RANGE_TYPE, lambda row: [row], lambda rows: rows[0])),),
    1: (column("ranges", listed(_RANGE)), column("mode", enumeration(I32, ("JOIN", "SPLIT")))),
    2: (column("ranges", listed(_RANGE)),),
}


def _partition(version: int) -> tuple[Part, ...]:
    number = at_least(I32, -1, "a partition")
    return (column("topic", _TOPIC), column("partition", number), *_RANGES[version])


_MESSAGE_FIELDS = {1: "ledger", 2: "entry", 3: "message_partition", 4: "batch_index", 6: "batch_size"}
_SIGNED_FIELDS = (3, 4)
_MESSAGE_TYPES = dict.fromkeys(_MESSAGE_FIELDS.values(), pa.int64())


def _message(row: FormatRow) -> FormatRow:
    """Return the numbers of a message id; null where it is absent or no message id."""
    found: FormatRow = dict.fromkeys(_MESSAGE_TYPES)
    if row["message_id"] is None:
        return found
    cursor = Cursor(row["message_id"])
    try:
        while cursor.remaining:
            tag = _varint(cursor)
            if tag & 7:
                break  # Of the fields that are not numbers none is shown.
            value = _varint(cursor)
            if tag >> 3 in _SIGNED_FIELDS and value >= 1 << 63:
                value -= 1 << 64
            if tag >> 3 in _MESSAGE_FIELDS and value < 1 << 63:
                found[_MESSAGE_FIELDS[tag >> 3]] = value
    except CorruptSnapshot:
        return dict.fromkeys(_MESSAGE_TYPES)
    return found


def _varint(cursor: Cursor) -> int:
    value = shift = 0
    while True:
        byte = cursor.u8()
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1
        shift += 7
        if shift > 63:
            cursor.corrupt("a varint of over 10 bytes")


_TRANSACTION = record(column("most", I64), column("least", I64))


def _split(version: int) -> Structure:
    return record(
        *_partition(version),
        hidden("stop_stream", java_stream(BYTES)),
        computed("stop_cursor", pa.string(), lambda row: class_name(row["stop_stream"])),
        hidden("message_id", optional(BYTES)),
        computed_columns(_MESSAGE_TYPES, _message),
        column("uncommitted_transaction", optional(_TRANSACTION)),
    )


def _positions(row: FormatRow) -> Iterator[Position]:
    at = None
    if row["ledger"] is not None:
        index = "" if row["batch_index"] is None or row["batch_index"] < 0 else f":{row['batch_index']}"
        at = f"after {row['ledger']}:{row['entry']}{index}"
    stop = (row["stop_cursor"] or "").rpartition(".")[2]
    yield Position(_name(row), "message id", at, stops_at=None if stop in ("", "NeverStopCursor") else stop)


_AFTER = re.compile(r"after ([0-9]{1,19}):([0-9]{1,19})")


def _moved(row: FormatRow, text: str) -> FormatRow:
    """Return a partition that continues after a message. Raises InvalidOption."""
    found = _AFTER.fullmatch(text)
    fields = {} if found is None else {1: int(found[1]), 2: int(found[2])}
    # The highest is the marker of the latest message, which is none to continue after.
    if not fields or max(fields.values()) >= (1 << 63) - 1:
        raise position_error(text, "a Pulsar partition", ["after LEDGER:ENTRY such as 'after 5123:77'"])
    if row["partition"] >= 0:
        fields[3] = row["partition"]
    fields[6] = 0  # no batch, which the client writes, too
    moved = {**row, "message_id": b"".join(bytes([at << 3]) + _varint_of(value) for at, value in fields.items())}
    return {**moved, **_message(moved)}


def _varint_of(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _name(row: FormatRow) -> str:
    topic: str = row["topic"]
    return topic if row["partition"] < 0 else f"{topic}-partition-{row['partition']}"


def _enumerator_positions(row: FormatRow) -> Iterator[Position]:
    for partition in row["partitions"]:
        yield Position(_name(partition), "message id", None, assigned=False)


def _committable_pending(row: FormatRow) -> Iterator[Pending]:
    yield Pending("transaction", f"({row['most']},{row['least']}) of {row['topic']}")


SPLIT = ConnectorFormat(
    "pulsar",
    FormatRole.SPLIT,
    {version: _split(version) for version in (0, 1, 2)},
    positions=_positions,
    moved=lambda row, wanted: _moved(row, wanted[_name(row)]),
)
_ENUMERATORS: dict[int, Any] = {
    2: record(column("partitions", listed(record(*_partition(1))))),
    3: record(column("partitions", listed(record(*_partition(2))))),
}
ENUMERATOR = ConnectorFormat(
    "pulsar",
    FormatRole.ENUMERATOR,
    _ENUMERATORS,
    positions=_enumerator_positions,
    identifies=lambda row: bool(row["partitions"]),
)
"""Partitions that were discovered; their positions are the readers'."""
COMMITTABLE = ConnectorFormat(
    "pulsar",
    FormatRole.COMMITTABLE,
    {1: record(column("most", I64), column("least", I64), column("topic", _TOPIC))},
    pending=_committable_pending,
)
