"""SQL keys as the BinaryRow bytes that Flink hashes (BinaryRowWriter): little-endian, RowKind INSERT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stateproc.codec.arrow_arrays import null_rows
from stateproc.codec.uuid_text import uuid_bytes
from stateproc.errors import InvalidOption
from stateproc.keygroups.kernels import byte_rows, fields, numbers
from stateproc.keygroups.key_hash import KeyHash
from stateproc.keygroups.scalars import seconds_and_nanos

Slots = NDArray[np.uint64]

# Enough precision for all digits of a DECIMAL(38): the default context would round.
_EXACT = Context(prec=80)


@dataclass(frozen=True)
class FieldBytes:
    """One field of all rows: its 8-byte slots and its bytes in the variable part.

    ``tails``: each row's bytes in the variable part, None for none; ``slots`` then hold the low half (length or
    nanos).
    """

    slots: Slots
    tails: list[bytes | None] | None = None


def binary_rows(array: pa.Array, kind: KeyHash) -> pa.Array:
    """Each struct as the content of a BinaryRow; ``kind.children`` are the fields' SQL types.

    Raises InvalidOption for a field type whose bytes depend on more than the value (ARRAY, MAP, RAW).
    """
    columns = fields(array)
    if len(columns) != len(kind.children):
        raise InvalidOption(f"{len(kind.children)} fields are expected where the column is {array.type}")
    columns_bytes = [_field_bytes(column, child) for column, child in zip(columns, kind.children, strict=True)]
    rows, header = len(array), (len(columns) + 71) // 64 * 8
    fixed = np.zeros((rows, header + 8 * len(columns)), np.uint8)
    slots = fixed[:, header:]
    for i, (column, field) in enumerate(zip(columns, columns_bytes, strict=True)):
        nulls = null_rows(column)
        bit = i + 8
        fixed[:, bit // 8] |= np.where(nulls, np.uint8(1 << bit % 8), np.uint8(0))
        values = np.where(nulls, np.uint64(0), field.slots).astype("<u8")
        slots[:, 8 * i : 8 * i + 8] = values.view(np.uint8).reshape(rows, 8)
    tails = [(8 * i, field.tails) for i, field in enumerate(columns_bytes) if field.tails is not None]
    return pa.array([_with_tails(fixed[row], header, tails, row) for row in range(rows)], pa.large_binary())


def _with_tails(fixed: NDArray[np.uint8], header: int, tails: list[tuple[int, list[bytes | None]]], row: int) -> bytes:
    content = bytearray(fixed.tobytes())
    for slot, column in tails:
        tail = column[row]
        if tail is not None:
            content[header + slot + 4 : header + slot + 8] = len(content).to_bytes(4, "little")
            content += tail + bytes(-len(tail) % 8)
    return bytes(content)


def _field_bytes(column: pa.Array, kind: KeyHash) -> FieldBytes:
    if kind.kind not in FIELD_TYPES:
        raise InvalidOption(f"keys with a field of type {kind.kind} are not hashed")
    return FIELD_TYPES[kind.kind](column, kind)


def _fixed(width: int, floating: bool = False) -> Callable[[pa.Array, KeyHash], FieldBytes]:
    """A number in the low bytes of its slot."""
    dtype = np.dtype(f"f{width}" if floating else f"i{width}")

    def encode(column: pa.Array, _kind: KeyHash) -> FieldBytes:
        values = numbers(_plain(column), dtype.type)
        return FieldBytes(values.view(np.dtype(f"u{width}")).astype(np.uint64))

    return encode


def _plain(column: pa.Array) -> pa.Array:
    """Dates and times as their ints: days, milliseconds of the day."""
    if pa.types.is_date32(column.type):
        return column.view(pa.int32())
    if pa.types.is_time(column.type):
        return _cast(column, pa.time32("ms")).view(pa.int32())
    return column


def _decimal(column: pa.Array, kind: KeyHash) -> FieldBytes:
    unscaled = [
        None if v is None else int(v.scaleb(kind.scale, _EXACT))
        for v in _cast(column, pa.decimal128(38, kind.scale)).to_pylist()
    ]
    if kind.precision <= 18:
        return FieldBytes(np.array([v or 0 for v in unscaled], np.int64).view(np.uint64))
    _refuse_nulls(column, "DECIMAL of over 18 digits")
    tails = [(v or 0).to_bytes(_java_length(v or 0), "big", signed=True) for v in unscaled]
    return FieldBytes(
        np.array([len(tail) for tail in tails], np.uint64), [tail + bytes(16 - len(tail)) for tail in tails]
    )


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise InvalidOption(f"a key does not fit its type {kind}: {e}") from e


def _java_length(value: int) -> int:
    """Bytes of BigInteger.toByteArray."""
    return (value if value >= 0 else ~value).bit_length() // 8 + 1


def _timestamp(column: pa.Array, kind: KeyHash) -> FieldBytes:
    seconds, nanos_of_second = seconds_and_nanos(column)
    millis, nanos = seconds * 1000 + nanos_of_second // 10**6, nanos_of_second % 10**6
    if kind.precision <= 3:
        return FieldBytes(millis.view(np.uint64))
    _refuse_nulls(column, "TIMESTAMP of over 3 digits")
    return FieldBytes(nanos.astype(np.uint64), [millis.astype("<i8")[i : i + 1].tobytes() for i in range(len(millis))])


def _refuse_nulls(column: pa.Array, what: str) -> None:
    # Flink's generated code reserves space for such a null, its row converter does not.
    if column.null_count:
        raise InvalidOption(f"a null {what} has no single binary form, so its key group is not known")


def _bytes(column: pa.Array, _kind: KeyHash) -> FieldBytes:
    offsets, data = byte_rows(column)
    raw = data.tobytes()
    items = [raw[offsets[i] : offsets[i + 1]] for i in range(len(column))]
    slots = np.array([_inline(item) if len(item) <= 7 else len(item) for item in items], np.uint64)
    nulls = column.is_null().to_pylist()
    tails = [None if len(item) <= 7 or null else item for item, null in zip(items, nulls, strict=True)]
    return FieldBytes(slots, tails)


def _inline(item: bytes) -> int:
    return int.from_bytes(item, "little") | (0x80 | len(item)) << 56


def _row(column: pa.Array, kind: KeyHash) -> FieldBytes:
    rows = binary_rows(column, kind).to_pylist()
    nulls = column.is_null().to_pylist()
    tails = [None if null else row for row, null in zip(rows, nulls, strict=True)]
    return FieldBytes(np.array([len(row) for row in rows], np.uint64), tails)


FIELD_TYPES: dict[str, Callable[[pa.Array, KeyHash], FieldBytes]] = {
    "boolean": lambda column, _kind: FieldBytes(numbers(_cast(column, pa.uint8()), np.uint64)),
    "byte": _fixed(1),
    "short": _fixed(2),
    "int": _fixed(4),
    "date": _fixed(4),
    "time": _fixed(4),
    "long": _fixed(8),
    "float": _fixed(4, floating=True),
    "double": _fixed(8, floating=True),
    "decimal": _decimal,
    "timestamp": _timestamp,
    "string": _bytes,
    "binary": _bytes,
    "uuid": lambda column, kind: _bytes(uuid_bytes(column), kind),
    "rowdata": _row,
}
"""SQL field kind → its slots and variable part. CHAR is string, intervals are int (months) and long (ms)."""
