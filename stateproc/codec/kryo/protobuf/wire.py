"""Protobuf's wire format: fields of varint (number << 3 | wire type) and a value.

Wire types: 0 varint, 1 eight bytes, 2 varint length and bytes, 3 the fields of a group up to 4 of the same number,
5 four bytes. Numbers that are repeated may be packed: wire type 2 around their values. Negative numbers of int32 and of
enums have ten bytes, as if they were int64.
"""

from __future__ import annotations

from stateproc.wire import Cursor

VARINT, EIGHT_BYTES, SIZED, GROUP, END_GROUP, FOUR_BYTES = range(6)
MAX_DEPTH = 100
_LAST_FIELD = (1 << 29) - 1


def read_tag(cursor: Cursor) -> tuple[int, int]:
    """Return number and wire type of the next field. Raises CorruptSnapshot."""
    at = cursor.pos
    number, wire_type = divmod(read_varint(cursor), 8)
    if not 1 <= number <= _LAST_FIELD:
        cursor.corrupt(f"a Protobuf field of number {number}", at=at)
    if wire_type > FOUR_BYTES:
        cursor.corrupt(f"a Protobuf field of wire type {wire_type}", at=at)
    return number, wire_type


def read_varint(cursor: Cursor) -> int:
    """Return a varint of at most 64 bits. Raises CorruptSnapshot."""
    value = 0
    for index in range(10):
        byte = cursor.u8()
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & (2**64 - 1)
    cursor.corrupt("a varint of over 10 bytes")


def skip_field(cursor: Cursor, number: int, wire_type: int, depth: int = 0) -> None:
    """Pass over the value of a field. Raises CorruptSnapshot."""
    if wire_type == VARINT:
        read_varint(cursor)
    elif wire_type in (EIGHT_BYTES, FOUR_BYTES):
        cursor.take(8 if wire_type == EIGHT_BYTES else 4, "a number")
    elif wire_type == SIZED:
        cursor.take(read_varint(cursor), "a Protobuf field")
    elif wire_type == GROUP and depth < MAX_DEPTH:
        while True:
            inner, kind = read_tag(cursor)
            if kind == END_GROUP:
                break
            skip_field(cursor, inner, kind, depth + 1)
        if inner != number:
            cursor.corrupt(f"the end of group {inner} within group {number}")
    else:
        cursor.corrupt("the end of a group that has not begun" if depth < MAX_DEPTH else "groups nested too deep")
