"""Kryo values of classes whose bytes lie in one straight way: the VM reads them, Python their exceptions.

A value of such a class is null, or class id, mark of a new object, body. Anything else (the class by name, a
subclass) goes to the walker over Kryo graphs, for that value only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec import ops
from stateproc.codec import temporal as t
from stateproc.codec.builder import Assembler, Builder, Taken
from stateproc.codec.kryo.classes import ID_BIAS, REGISTRAR_BASE, REGISTRAR_IDS, USER_BASE
from stateproc.codec.kryo.times import FIRST_SECOND, LAST_SECOND
from stateproc.codec.layouts import Converted, Layout, Number, Struct, VarNumber
from stateproc.wire import Cursor

_I8, _I16 = Number(pa.int8()), Number(pa.int16())
_Z32, _U32 = VarNumber(pa.int32(), ops.VARINT_Z32), VarNumber(pa.int32(), ops.VARINT_U32)
_Z64, _U64 = VarNumber(pa.int64(), ops.VARINT_Z64), VarNumber(pa.int64(), ops.VARINT_U64)
_L64 = Number(pa.int64(), big_endian=False)
_NULL, _FAST, _HOST_1, _HOST_2 = 0, 1, 2, 3
_NEW_OBJECT = 1
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Straight(Layout):
    """Null (0), or ``class_byte``, 1 and ``body``; whatever begins otherwise is read by ``read``."""

    class_byte: int
    body: Layout
    read: Callable[[Any], Any]
    plain: Callable[[Any], Any]

    @property
    def arrow_type(self) -> pa.DataType:
        return self.body.arrow_type

    @property
    def min_size(self) -> int:
        return 1

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        way = b.column(1, _NULL)
        null, mark, fast, behind = b.label(), b.label(), b.label(), b.label()
        hosts, fills = [b.label(), b.label()], [b.later_fill() for _ in range(3)]
        b.op(ops.SWITCH, 1, 2, hosts[0], 0, null, self.class_byte, mark)
        b.place(mark)
        b.op(ops.SWITCH, 1, 1, hosts[1], _NEW_OBJECT, fast)
        b.place(fast)
        b.op(ops.PUT1, way, _FAST)
        b.op(ops.FILL, fills[1])
        b.op(ops.FILL, fills[2])
        begin = b.columns_made
        body = self.body.emit(b, True)
        b.set_fill(fills[0], begin)
        b.op(ops.JUMP, behind)
        columns = []
        for index, host in enumerate(hosts):
            b.place(host)
            b.op(ops.PUT1, way, _HOST_1 + index)
            b.op(ops.FILL, fills[0])
            b.op(ops.FILL, fills[2 - index])
            begin = b.columns_made
            columns.append(b.host(partial(_read_again, read=self.read, back=index + 1)))
            b.set_fill(fills[1 + index], begin)
            b.op(ops.JUMP, behind)
        b.place(null)
        b.op(ops.PUT1, way, _NULL)
        for fill in fills:
            b.op(ops.FILL, fill)
        b.place(behind)
        return partial(self._assemble, way=way, body=body, hosts=columns)

    def _assemble(self, taken: Taken, *, way: int, body: Assembler, hosts: list[int]) -> pa.Array:
        ways = taken.column(way, np.uint8)
        array = body(taken)
        if not (ways >= _HOST_1).any():
            return array
        first, second = (taken.hosted(column) for column in hosts)
        others = [a if a is not None else z for a, z in zip(first, second, strict=True)]
        return pc.if_else(pa.array(ways == _FAST), array, pa.array(others, type=self.arrow_type))

    def to_python(self, value: Any) -> Any:
        return value if value is None else self.plain(value)


def _read_again(cursor: Cursor, *, read: Callable[[Any], Any], back: int) -> Any:
    """The value whose first ``back`` bytes the VM has read already."""
    cursor.pos -= back
    return read(cursor)


def _named(parts: pa.StructArray, *names: str) -> list[t.Longs]:
    return [t.ints(parts.field(parts.type.get_field_index(name))) for name in names]


def _date(parts: pa.StructArray, mode: str) -> pa.Array:
    null = t.nulls(parts)
    year, month, day = _named(parts, "year", "month", "day")
    t.check_date(year, month, day, null)
    return t.date_array(t.days_of(year, np.clip(month, 1, 12), day), null, mode)


def _time(parts: pa.StructArray, mode: str) -> pa.Array:
    null = t.nulls(parts)
    hour, minute, second, nano = _named(parts, "hour", "minute", "second", "nano")
    bad = (hour < 0) | (hour > 23) | (minute < 0) | (minute > 59) | (second < 0) | (second > 59)
    bad |= (nano < 0) | (nano > 999_999_999)
    # Out of the day, which time_array refuses.
    nanos = np.where(bad, -1, (hour * 3600 + minute * 60 + second) * 10**9 + nano)
    return t.time_array(nanos, null, mode)


def _instant(parts: pa.StructArray, mode: str) -> pa.Array:
    seconds, nanos = _named(parts, "seconds", "nanos")
    if ((seconds < FIRST_SECOND) | (seconds > LAST_SECOND)).any():
        raise t.OutOfRange("seconds outside of what an Instant can be")
    return t.instant_array(seconds, nanos, t.nulls(parts), mode, "UTC")


def _millis(parts: pa.StructArray, mode: str) -> pa.Array:
    (millis,) = _named(parts, "millis")
    nanos = millis % 1000 * 10**6
    return t.instant_array(np.floor_divide(millis, 1000), nanos, t.nulls(parts), mode, "UTC")


def _uuid(parts: pa.StructArray, mode: str) -> pa.Array:
    high, low = (part.tolist() for part in _named(parts, "high", "low"))
    null = t.nulls(parts)
    return t.strings(null, len(null), lambda i: str(UUID(int=(high[i] & _MASK) << 64 | low[i] & _MASK)))


def _struct(**fields: Layout) -> Struct:
    return Struct(tuple(fields.items()))


# (class, Kryo version) → how its body lies, and how that becomes Arrow.
PARTS: dict[tuple[str, int], tuple[Struct, Callable[..., pa.Array]]] = {
    ("java.time.LocalDate", 2): (_struct(day=_I16, month=_I16, year=_Z32), _date),
    ("java.time.LocalDate", 5): (_struct(year=_U32, month=_I8, day=_I8), _date),
    ("java.time.LocalTime", 2): (_struct(hour=_I8, minute=_I8, nano=_Z32, second=_I8), _time),
    ("java.time.Instant", 2): (_struct(nanos=_Z32, seconds=_Z64), _instant),
    ("java.time.Instant", 5): (_struct(seconds=_U64, nanos=_U32), _instant),
    ("java.util.Date", 2): (_struct(millis=_U64), _millis),
    ("java.util.Date", 5): (_struct(millis=_U64), _millis),
    ("java.util.UUID", 2): (_struct(high=_Z64, low=_Z64), _uuid),
    ("java.util.UUID", 5): (_struct(high=_L64, low=_L64), _uuid),
}


def straight(
    class_name: str,
    version: int,
    registrations: tuple[str, ...],
    mode: str,
    read: Callable[[Any], Any],
    arrow_type: pa.DataType,
    plain: Callable[[Any], Any],
) -> Layout | None:
    """The layout of a class in PARTS, its exceptions read by ``read``; None for other classes."""
    row = PARTS.get((class_name, version))
    number = _class_number(class_name, registrations)
    if row is None or number is None or number + ID_BIAS > 127:
        return None
    parts, convert = row
    body = Converted(parts, arrow_type, partial(convert, mode=mode))
    return Straight(number + ID_BIAS, body, read, plain)


def _class_number(class_name: str, registrations: tuple[str, ...]) -> int | None:
    if class_name in REGISTRAR_IDS:
        return REGISTRAR_BASE + REGISTRAR_IDS.index(class_name)
    return USER_BASE + registrations.index(class_name) if class_name in registrations else None
