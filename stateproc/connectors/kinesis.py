"""Kinesis: shards of KinesisStreamsSource and its enumerator, records that KinesisStreamsSink has not sent yet.

Source: KinesisShardSplitSerializer, KinesisStreamsSourceEnumeratorStateSerializer, KinesisStreamsStateSerializer.

    split v0 to v2        utf stream ARN, utf shard id, utf position type, bool, [marker], [v1+: n x utf parent shard,
                          utf starting and
                          ending hash key], [v2: bool finished]
    marker                bool, [i64 epoch ms], bool, [utf sequence number]
    enumerator v0, v1     bool, [utf last seen shard], i32 n, i32 split version, n x (bytes32 split, [v1: i32 0
                          assigned, 1 not])
    sink v1               i64 -1, n x (i64 size, that many bytes, i32 length, partition key)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from stateproc.connectors.async_sinks import buffered
from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Pending, Position
from stateproc.connectors.given_positions import moment, position_error
from stateproc.connectors.structures import (
    FLAG,
    I32,
    I64,
    LONG_COUNT,
    TEXT,
    UTF,
    Part,
    Structure,
    bytes_of,
    checked,
    column,
    listed,
    optional,
    record,
    sized,
)
from stateproc.errors import InvalidOption
from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

_POSITIONS = ("TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _marker() -> Part:
    """Describe the marker of a position: a time or a sequence number; both are null without one."""
    fields = (pa.field("timestamp_ms", pa.int64()), pa.field("sequence_number", pa.string()))

    time, number = optional(I64), optional(UTF)

    def read(cursor: Cursor, row: FormatRow) -> None:
        row.update(timestamp_ms=None, sequence_number=None)
        if FLAG.read(cursor):
            row.update(timestamp_ms=time.read(cursor), sequence_number=number.read(cursor))

    def write(out: Output, row: FormatRow) -> None:
        present = row["timestamp_ms"] is not None or row["sequence_number"] is not None
        out.boolean(present)
        if present:
            time.write(out, row["timestamp_ms"])
            number.write(out, row["sequence_number"])

    return Part(fields, read, write, 1)


_BASE = (
    column(
        "stream_arn", checked(UTF, lambda value: value.startswith("arn:") and ":kinesis:" in value, "a stream's ARN")
    ),
    column("shard_id", UTF),
    column("position_type", checked(UTF, lambda value: value in _POSITIONS, "a starting position")),
    _marker(),
)
_SHARD = (
    column("parent_shard_ids", listed(UTF)),
    column("starting_hash_key", UTF),
    column("ending_hash_key", UTF),
)
_SPLITS = {0: record(*_BASE), 1: record(*_BASE, *_SHARD), 2: record(*_BASE, *_SHARD, column("finished", FLAG))}


def _positions(row: FormatRow, *, assigned: bool = True) -> Iterator[Position]:
    kind, at = "marker", row["position_type"]
    if row["sequence_number"] is not None:
        kind, at = "sequence number", f"{'after' if at.startswith('AFTER') else 'at'} {row['sequence_number']}"
    elif row["timestamp_ms"] is not None:
        kind, at = "timestamp", _time(row["timestamp_ms"])
    phase = "shard read to its end" if row.get("finished") else None
    yield Position(_name(row), kind, at, phase, assigned=assigned)


def _name(row: FormatRow) -> str:
    stream = row["stream_arn"].rpartition("/")[2]
    return f"{stream}/{row['shard_id']}"


_MARKERS = {"latest": "LATEST", "trim_horizon": "TRIM_HORIZON"}
_NUMBER = re.compile(r"(at|after) ([0-9]{1,60})")


def _moved(row: FormatRow, text: str) -> FormatRow:
    """Return a shard that continues at a position. Raises InvalidOption."""
    if row.get("finished"):
        raise InvalidOption(
            f"{_name(row)} has been read to its end",
            advice="set positions of its child shards, or start the source anew",
        )
    number, at = _NUMBER.fullmatch(text), moment(text)
    moved = {**row, "timestamp_ms": None, "sequence_number": None}
    if text.lower() in _MARKERS:
        return {**moved, "position_type": _MARKERS[text.lower()]}
    if number is not None:
        return {**moved, "position_type": f"{number[1].upper()}_SEQUENCE_NUMBER", "sequence_number": number[2]}
    if at is not None and at >= 0:
        return {**moved, "position_type": "AT_TIMESTAMP", "timestamp_ms": at}
    forms = ["latest", "trim_horizon", "'at' or 'after' and a sequence number", "a time such as 2026-01-31T12:00:00Z"]
    raise position_error(text, "a Kinesis shard", forms)


def _time(millis: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{millis} ms"


SPLIT = ConnectorFormat(
    "kinesis",
    FormatRole.SPLIT,
    _SPLITS,
    positions=_positions,
    moved=lambda row, wanted: _moved(row, wanted[_name(row)]),
)


def _splits(*, status: bool) -> Part:
    """Describe the enumerator's splits: i32 n, i32 split version, n x (bytes32 split, [i32 status])."""

    def item(version: int) -> Structure:
        assigned = checked(I32, lambda value: value in (0, 1), "an assignment status")
        return record(column("split", sized(_SPLITS[version])), *([column("assigned", assigned)] if status else []))

    items = {version: item(version) for version in _SPLITS}

    def read(cursor: Cursor, row: FormatRow) -> None:
        count = cursor.count("splits", 4)
        at = cursor.pos
        version = row["split_version"] = cursor.i32()
        if version not in items:
            cursor.corrupt(f"splits of version {version}", at=at)
        found = [items[version].read(cursor) for _ in range(count)]
        row["splits"] = [{**one["split"], "assigned": one["assigned"] == 0 if status else None} for one in found]

    def write(out: Output, row: FormatRow) -> None:
        splits: Sequence[Any] = row["splits"]
        out.i32(len(splits))
        out.i32(row["split_version"])
        for one in splits:
            items[row["split_version"]].write(out, {"split": one, "assigned": 0 if one["assigned"] else 1})

    split = pa.struct([*SPLIT.arrow_type, ("assigned", pa.bool_())])
    fields = (pa.field("split_version", pa.int32()), pa.field("splits", pa.list_(split)))
    return Part(fields, read, write, 8)


def _enumerator_positions(row: FormatRow) -> Iterator[Position]:
    for split in row["splits"]:
        yield from _positions(split, assigned=split["assigned"] is True)


def _moved_splits(row: FormatRow, wanted: Mapping[str, str]) -> FormatRow:
    moved = [_moved(split, wanted[_name(split)]) if _name(split) in wanted else split for split in row["splits"]]
    return {**row, "splits": moved}


_LAST_SEEN = column("last_seen_shard_id", optional(UTF))
ENUMERATOR = ConnectorFormat(
    "kinesis",
    FormatRole.ENUMERATOR,
    {0: record(_LAST_SEEN, _splits(status=False)), 1: record(_LAST_SEEN, _splits(status=True))},
    positions=_enumerator_positions,
    moved=_moved_splits,
    identifies=lambda row: bool(row["splits"]),
)

_ENTRY = record(column("data", bytes_of(LONG_COUNT)), column("partition_key", TEXT))


def _pending(row: FormatRow) -> Iterator[Pending]:
    for entry in row["entries"]:
        yield Pending("entry", entry["partition_key"], "buffered", bytes=len(entry["data"]), rows=1)


WRITER = ConnectorFormat(
    "kinesis", FormatRole.WRITER, {1: buffered(_ENTRY)}, pending=_pending, identifies=lambda row: bool(row["entries"])
)
