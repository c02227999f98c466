"""Bodies of Kryo values that hold no other objects: numbers, characters, dates, big numbers, enum constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec import temporal as t
from stateproc.codec.builder import Assembler, Builder, Taken
from stateproc.codec.decimals import decimal_text, unscaled
from stateproc.codec.errors import BadValue
from stateproc.codec.kryo.times import FIRST_SECOND, LAST_SECOND
from stateproc.codec.kryo.types import BOXES, ClassDescription
from stateproc.codec.layouts import Boolean, Converted, Layout, Number, Struct, VarNumber
from stateproc.codec.layouts.base import with_nulls
from stateproc.codec.layouts.numbers import number_array
from stateproc.codec.layouts.strings import blob_array, blob_columns

_I8, _I16 = Number(pa.int8()), Number(pa.int16())
_Z32, _U32 = VarNumber(pa.int32(), ops.VARINT_Z32), VarNumber(pa.int32(), ops.VARINT_U32)
_Z64, _U64 = VarNumber(pa.int64(), ops.VARINT_Z64), VarNumber(pa.int64(), ops.VARINT_U64)
_L64 = Number(pa.int64(), big_endian=False)
_LONGEST_NUMBER = 1700
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class NewObject(Layout):
    """The mark of a new object, then the object."""

    inner: Layout

    @property
    def arrow_type(self) -> pa.DataType:
        return self.inner.arrow_type

    @property
    def min_size(self) -> int:
        return 1 + self.inner.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        fill = b.fill_from(b.columns_made)
        b.op(ops.KRYO_MARK, fill, -1)
        return self.inner.emit(b, nullable)


@dataclass(frozen=True)
class ShortTime(Layout):
    """Kryo 5's LocalTime, as nanoseconds of the day."""

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.int64()

    @property
    def min_size(self) -> int:
        return 1

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        valid, column = b.column(1, 0), b.column(8, 0)
        b.op(ops.PUT1, valid, 1)
        b.op(ops.KRYO_TIME, column)
        return lambda taken: number_array(taken, valid, column, pa.int64())


@dataclass(frozen=True)
class BigNumber(Layout):
    """A BigInteger: varint length + 1, two's complement; ``scaled``: the zig-zag scale of a BigDecimal."""

    scaled: bool

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.string()

    @property
    def min_size(self) -> int:
        return 1

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        first, fill, behind = b.columns_made, b.later_fill(), b.label()
        lengths, data = blob_columns(b)
        scales = b.column(4, 0)
        b.op(ops.KRYO_COUNT, 0, fill, behind, 0)
        b.op(ops.BYTES, lengths, data, ops.LENGTH_REGISTER, 0)
        if self.scaled:
            b.op(ops.VARINT, scales, 4, ops.VARINT_Z32)
        else:
            b.op(ops.PUT4, scales, 0)
        b.place(behind)
        b.set_fill(fill, first)

        def assemble(taken: Taken) -> pa.Array:
            raws = blob_array(taken, lengths, data, pa.binary()).to_pylist()
            by = taken.column(scales, np.int32).tolist()
            return pa.array([self._text(raw, scale) for raw, scale in zip(raws, by, strict=True)], pa.string())

        return assemble

    def _text(self, raw: bytes | None, scale: int) -> str | None:
        if raw is None:
            return None
        if not 0 < len(raw) <= _LONGEST_NUMBER:
            raise BadValue(f"a big number of {len(raw)} bytes")
        return decimal_text(unscaled(raw), scale) if self.scaled else str(unscaled(raw))


def _named(parts: pa.StructArray, *names: str) -> list[t.Longs]:
    return [t.ints(parts.field(parts.type.get_field_index(name))) for name in names]


def _date(parts: pa.StructArray, mode: str) -> pa.Array:
    null = t.nulls(parts)
    year, month, day = _named(parts, "year", "month", "day")
    t.check_date(year, month, day, null)
    return t.date_array(t.days_of(year, np.clip(month, 1, 12), day), null, mode)


def _nanos_of_day(parts: pa.StructArray) -> t.Longs:
    """Nanoseconds; -1 of parts that make no time of day."""
    hour, minute, second, nano = _named(parts, "hour", "minute", "second", "nano")
    bad = (hour < 0) | (hour > 23) | (minute < 0) | (minute > 59) | (second < 0) | (second > 59)
    bad |= (nano < 0) | (nano > 999_999_999)
    return np.where(bad, -1, (hour * 3600 + minute * 60 + second) * 10**9 + nano)


def _time(parts: pa.StructArray, mode: str) -> pa.Array:
    return t.time_array(_nanos_of_day(parts), t.nulls(parts), mode)


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


def _date_time(parts: pa.StructArray, mode: str) -> pa.Array:
    null = t.nulls(parts)
    date, time = parts.field("date"), parts.field("time")
    year, month, day = _named(date, "year", "month", "day")
    t.check_date(year, month, day, null)
    nanos = t.ints(time) if pa.types.is_int64(time.type) else _nanos_of_day(time)
    if ((nanos < 0) & ~null).any():
        raise t.OutOfRange("a time of day lies outside of the day")
    seconds = t.days_of(year, np.clip(month, 1, 12), day) * t.DAY_SECONDS + nanos // 10**9
    return t.instant_array(seconds, nanos % 10**9, null, mode, None)


def _short_time(parts: pa.StructArray, mode: str) -> pa.Array:
    return t.time_array(t.ints(parts.field("nanos")), t.nulls(parts), mode)


def _chars(parts: pa.StructArray, mode: str) -> pa.Array:
    units = t.ints(parts.field("unit")).tolist()
    null = t.nulls(parts)
    return t.strings(null, len(null), lambda i: "\ufffd" if 0xD800 <= units[i] < 0xE000 else chr(units[i]))


def _constants(parts: pa.StructArray, constants: tuple[str, ...]) -> pa.Array:
    """Names of ordinals plus one; 0 is null."""
    (number,) = _named(parts, "ordinal")
    if ((number < 0) | (number > len(constants))).any():
        raise BadValue("an enum has no constant of that number")
    names = pa.array([None, *constants], pa.string()).take(pa.array(number))
    return with_nulls(names, t.nulls(parts))


def _struct(**fields: Layout) -> Struct:
    return Struct(tuple(fields.items()))


_DATE_2, _DATE_5 = _struct(day=_I16, month=_I16, year=_Z32), _struct(year=_U32, month=_I8, day=_I8)
_TIME_2 = _struct(hour=_I8, minute=_I8, nano=_Z32, second=_I8)
# (class, Kryo version) → how its body lies, and how that becomes Arrow.
PARTS: dict[tuple[str, int], tuple[Struct, Callable[..., pa.Array]]] = {
    ("java.time.LocalDate", 2): (_DATE_2, _date),
    ("java.time.LocalDate", 5): (_DATE_5, _date),
    ("java.time.LocalTime", 2): (_TIME_2, _time),
    ("java.time.LocalTime", 5): (_struct(nanos=ShortTime()), _short_time),
    ("java.time.LocalDateTime", 2): (_struct(date=NewObject(_DATE_2), time=NewObject(_TIME_2)), _date_time),
    ("java.time.LocalDateTime", 5): (_struct(date=_DATE_5, time=ShortTime()), _date_time),
    ("java.time.Instant", 2): (_struct(nanos=_Z32, seconds=_Z64), _instant),
    ("java.time.Instant", 5): (_struct(seconds=_U64, nanos=_U32), _instant),
    ("java.util.Date", 2): (_struct(millis=_U64), _millis),
    ("java.util.Date", 5): (_struct(millis=_U64), _millis),
    ("java.util.UUID", 2): (_struct(high=_Z64, low=_Z64), _uuid),
    ("java.util.UUID", 5): (_struct(high=_L64, low=_L64), _uuid),
}

_BIG = {"java.math.BigInteger": BigNumber(False), "java.math.BigDecimal": BigNumber(True)}
LEAVES = [*dict.fromkeys(name for name, _ in PARTS), "java.math.BigDecimal"]
"""Classes that have a body here, apart from those the kernels know by themselves."""


def leaf_body(
    class_name: str, version: int, mode: str, arrow_type: pa.DataType, enum: ClassDescription | None
) -> Layout | None:
    """How the body of a class, or a primitive field, lies; None for one that only the walker reads."""
    primitive = BOXES.get(class_name, class_name)
    if primitive in ("int", "long"):
        return _Z32 if primitive == "int" else _Z64
    if primitive == "boolean":
        return Boolean()
    if primitive == "char":
        unit = _struct(unit=Number(pa.uint16(), version < 5))
        return Converted(unit, pa.string(), partial(_chars, mode=mode))
    if primitive in ("byte", "short", "float", "double"):
        return Number(arrow_type, version < 5)
    if class_name in _BIG:
        return _BIG[class_name]
    row = PARTS.get((class_name, version))
    if row is not None:
        return Converted(row[0], arrow_type, partial(row[1], mode=mode))
    if enum is None:
        return None
    return Converted(_struct(ordinal=_U32), pa.string(), partial(_constants, constants=enum.constants))
