"""Sinks that send batches (AsyncSinkWriter): records that wait to be sent, of Firehose and DynamoDB.

Source: AsyncSinkWriterStateSerializer and its subclasses KinesisFirehoseStateSerializer and
DynamoDbWriterStateSerializer.

    state v1      i64 -1, n x (i64 size of the entry, the entry)
    Firehose      that many bytes
    DynamoDB      u8 0 put, 1 delete, item; the size is 0
    item          n x (utf name, attribute)
    attribute     u8 type: 0 S utf, 1 N utf, 2 BOOL bool, 3 NULL, 4 B bytes32, 5 SS n x utf, 6 NS n x utf, 7 BS n x
                  bytes32,
                  8 L n x attribute, 9 M item

A sink of Elasticsearch 8 or SQS has entries of other layouts, which stay bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Pending
from stateproc.connectors.structures import (
    BYTES,
    FLAG,
    I64,
    LONG_COUNT,
    U8,
    UTF,
    Structure,
    bytes_of,
    checked,
    column,
    computed,
    constant,
    enumeration,
    hidden,
    listed,
    record,
)
from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

_SEPARATOR = -1


def buffered(entry: Structure) -> Structure:
    """Describe the entries that a sink holds."""
    return record(constant(I64, _SEPARATOR, "the state of an AsyncSinkWriter"), column("entries", listed(entry)))


def _firehose_pending(row: FormatRow) -> Iterator[Pending]:
    for number, entry in enumerate(row["entries"]):
        yield Pending("entry", f"record {number}", "buffered", bytes=len(entry["data"]), rows=1)


FIREHOSE_WRITER = ConnectorFormat(
    "firehose",
    FormatRole.WRITER,
    {1: buffered(record(column("data", bytes_of(LONG_COUNT))))},
    pending=_firehose_pending,
    identifies=lambda row: bool(row["entries"]),
)
NOTHING_BUFFERED = ConnectorFormat(
    "async sink, nothing buffered",
    FormatRole.WRITER,
    {1: checked(buffered(record()), lambda row: not row["entries"], "a state without entries")},
    pending=lambda row: (),
)
"""The same twelve bytes for every sink of this kind."""


# DynamoDB.

_KINDS = ("S", "N", "BOOL", "NULL", "B", "SS", "NS", "BS", "L", "M")
_NAME = "the type of an attribute"


def _read_attribute(cursor: Cursor) -> dict[str, Any]:
    at = cursor.pos
    kind = cursor.u8()
    if kind >= len(_KINDS):
        cursor.corrupt(f"not {_NAME}: {kind}", at=at)
    cursor.nested("DynamoDB attributes")
    value = {_KINDS[kind]: _VALUES[_KINDS[kind]].read(cursor)}
    cursor.unnested()
    return value


def _write_attribute(out: Output, value: dict[str, Any]) -> None:
    ((kind, inner),) = value.items()
    out.u8(_KINDS.index(kind))
    _VALUES[kind].write(out, inner)


_ATTRIBUTE = Structure(pa.null(), _read_attribute, _write_attribute)
_NULL = Structure(pa.null(), lambda cursor: True, lambda out, value: None, 0)


def _items() -> Structure:
    pairs = listed(record(column("name", UTF), column("value", _ATTRIBUTE)))

    def read(cursor: Cursor) -> dict[str, Any]:
        return {row["name"]: row["value"] for row in pairs.read(cursor)}

    def write(out: Output, value: dict[str, Any]) -> None:
        pairs.write(out, [{"name": name, "value": inner} for name, inner in value.items()])

    return Structure(pa.null(), read, write, 4)


_VALUES: dict[str, Structure] = {
    "S": UTF,
    "N": UTF,
    "BOOL": FLAG,
    "NULL": _NULL,
    "B": BYTES,
    "SS": listed(UTF),
    "NS": listed(UTF),
    "BS": listed(BYTES),
    "L": listed(_ATTRIBUTE),
    "M": _items(),
}


def _json_of(name: str) -> Callable[[FormatRow], str]:
    def text(row: FormatRow) -> str:
        return json.dumps(row[name], ensure_ascii=False, default=lambda data: base64.b64encode(data).decode("ascii"))

    return text


_REQUEST = record(
    constant(I64, 0, "the size of a DynamoDB request"),
    column("type", enumeration(U8, ("PUT", "DELETE"))),
    hidden("attributes", _items()),
    # As DynamoDB's own JSON: {"id": {"N": "42"}}; binary values are base64.
    computed("item", pa.string(), _json_of("attributes")),
)


def _dynamodb_pending(row: FormatRow) -> Iterator[Pending]:
    for entry in row["entries"]:
        yield Pending("entry", f"{entry['type']} {entry['item']}", "buffered", rows=1)


DYNAMODB_WRITER = ConnectorFormat(
    "dynamodb",
    FormatRole.WRITER,
    {1: buffered(_REQUEST)},
    pending=_dynamodb_pending,
    identifies=lambda row: bool(row["entries"]),
)
