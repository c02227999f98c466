"""Layouts of Kryo values that contain no other objects: numbers, characters, dates, big numbers, enum constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from stateproc.codec import arrow_arrays as arrays
from stateproc.codec import ops
from stateproc.codec import temporal as t
from stateproc.codec import temporal as times
from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import values_array, with_nulls
from stateproc.codec.builder import Assembler, Builder, DecodedColumns
from stateproc.codec.decimals import decimal_text, integer_bytes, parts_of, unscaled
from stateproc.codec.encoding.sized_writers import SizedWriter, concatenate, constant_bytes, scatter, varints
from stateproc.codec.encoding.strings import blob_bytes, blobs
from stateproc.codec.errors import BadValue, LoneSurrogate
from stateproc.codec.kryo.times import FIRST_SECOND, LAST_SECOND
from stateproc.codec.kryo.types import BOXES, UserClass
from stateproc.codec.layouts import Boolean, Converted, Layout, Number, StructLayout, VarNumber
from stateproc.codec.layouts.base import Wrapper
from stateproc.codec.layouts.numbers import number_array
from stateproc.codec.layouts.strings import blob_array, blob_columns
from stateproc.serializers.java.uuids import halves_of_texts, texts_of_halves
from stateproc.serializers.kryo.columns import time_mode

_I8, _I16 = Number(pa.int8()), Number(pa.int16())
_Z32, _U32 = VarNumber(pa.int32(), ops.VARINT_Z32), VarNumber(pa.int32(), ops.VARINT_U32)
_Z64, _U64 = VarNumber(pa.int64(), ops.VARINT_Z64), VarNumber(pa.int64(), ops.VARINT_U64)
_L64 = Number(pa.int64(), big_endian=False)
_MAX_NUMBER_BYTES = 1700


@dataclass(frozen=True)
class NewObject(Wrapper):
    """The mark of a new object, then the object."""

    inner: Layout

    @property
    def min_size(self) -> int:
        return 1 + self.inner.min_size

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        fill = b.fill_from(b.column_count)
        b.op(ops.KRYO_MARK, fill, -1)
        return self.inner.emit(b, nullable)

    def measure(self, array: pa.Array) -> SizedWriter:
        return concatenate([constant_bytes(b"\1"), self.inner.measure(array)])


@dataclass(frozen=True)
class ShortTime(Layout):
    """Kryo 5's LocalTime, as nanoseconds of the day."""

    arrow_type = pa.int64()
    min_size = 1

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        valid, column = b.column(1, 0), b.column(8, 0)
        b.op(ops.PUT1, valid, 1)
        b.op(ops.KRYO_TIME, column)
        return lambda taken: number_array(taken, valid, column, pa.int64())

    def measure(self, array: pa.Array) -> SizedWriter:
        """Emit hour, minute, second, varint nanos up to the last that is not 0; a last byte is stored as complement."""
        arrays.refuse_nulls(array, "a time")
        nanos = arrays.numbers_of(array)
        seconds, fraction = nanos // 10**9, nanos % 10**9
        parts = np.stack([seconds // 3600, seconds // 60 % 60, seconds % 60], axis=1).astype(np.uint8)
        kept = np.where((parts[:, 2] != 0) | (fraction != 0), 3, np.where(parts[:, 1] != 0, 2, 1))
        ending = np.flatnonzero(fraction == 0)
        parts[ending, kept[ending] - 1] ^= 0xFF
        offsets = np.zeros(len(nanos) + 1, dtype=np.int64)
        np.cumsum(kept, out=offsets[1:])
        some = np.flatnonzero(fraction)
        late = scatter(len(nanos), [(some, varints(fraction[some]))])
        return concatenate([blob_bytes(parts[np.arange(3) < kept[:, None]], offsets), late])


@dataclass(frozen=True)
class KryoBigNumber(Layout):
    """A BigInteger: varint length + 1, two's complement; ``scaled``: the zig-zag scale of a BigDecimal."""

    scaled: bool
    arrow_type = pa.string()
    min_size = 1

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        first, fill, done = b.column_count, b.pending_fill(), b.label()
        lengths, data = blob_columns(b)
        scales = b.column(4, 0)
        b.op(ops.KRYO_COUNT, 0, fill, done, 0)
        b.op(ops.BYTES, lengths, data, ops.LENGTH_REGISTER, 0)
        if self.scaled:
            b.op(ops.VARINT, scales, 4, ops.VARINT_Z32)
        else:
            b.op(ops.PUT4, scales, 0)
        b.bind(done)
        b.set_fill(fill, first)

        def assemble(taken: DecodedColumns) -> pa.Array:
            raws = blob_array(taken, lengths, data, pa.binary()).to_pylist()
            by = taken.column(scales, np.int32).tolist()
            return pa.array([self._text(raw, scale) for raw, scale in zip(raws, by, strict=True)], pa.string())

        return assemble

    def measure(self, array: pa.Array) -> SizedWriter:
        return blobs(times.by_distinct(arrays.as_type(array, pa.string()), self._bytes, pa.binary()))

    def _bytes(self, text: str) -> bytes:
        number, scale = parts_of(text) if self.scaled else (int(text), 0)
        raw = integer_bytes(number)
        return varint(len(raw) + 1) + raw + (varint((scale << 1) ^ (scale >> 63)) if self.scaled else b"")

    def _text(self, raw: bytes | None, scale: int) -> str | None:
        if raw is None:
            return None
        if not 0 < len(raw) <= _MAX_NUMBER_BYTES:
            raise BadValue(f"a big number of {len(raw)} bytes")
        return decimal_text(unscaled(raw), scale) if self.scaled else str(unscaled(raw))


def _named(parts: pa.StructArray, *names: str) -> list[Longs]:
    return [t.ints(parts.field(parts.type.get_field_index(name))) for name in names]


def _date(parts: pa.StructArray, mode: str) -> pa.Array:
    null = t.nulls(parts)
    year, month, day = _named(parts, "year", "month", "day")
    t.check_date(year, month, day, null)
    return t.date_array(t.days_of(year, np.clip(month, 1, 12), day), null, mode)


def _nanos_of_day(parts: pa.StructArray) -> Longs:
    """Return nanoseconds of the day; -1 for fields that are no time of day."""
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
    return texts_of_halves(parts)


def _date_time(parts: pa.StructArray, mode: str) -> pa.Array:
    null = t.nulls(parts)
    date, time = parts.field("date"), parts.field("time")
    year, month, day = _named(date, "year", "month", "day")
    t.check_date(year, month, day, null)
    nanos = t.ints(time) if pa.types.is_int64(time.type) else _nanos_of_day(time)
    if ((nanos < 0) & ~null).any():
        raise t.OutOfRange("a time of day is outside of the day")
    seconds = t.days_of(year, np.clip(month, 1, 12), day) * t.DAY_SECONDS + nanos // 10**9
    return t.instant_array(seconds, nanos % 10**9, null, mode, None)


def _short_time(parts: pa.StructArray, mode: str) -> pa.Array:
    return t.time_array(t.ints(parts.field("nanos")), t.nulls(parts), mode)


def _chars(parts: pa.StructArray, strict: bool) -> pa.Array:
    units, null = t.ints(parts.field("unit")), t.nulls(parts)
    lone = (units >= 0xD800) & (units < 0xE000)
    if strict and (lone & ~null).any():
        raise LoneSurrogate
    return t.strings(null, len(null), lambda i: "\ufffd" if lone[i] else chr(units[i]))


def _constants(parts: pa.StructArray, constants: tuple[str, ...]) -> pa.Array:
    """Convert ordinals plus one to constants; 0 is null."""
    (number,) = _named(parts, "ordinal")
    if ((number < 0) | (number > len(constants))).any():
        raise BadValue("an enum has no constant of that number")
    names = pa.array([None, *constants], pa.string()).take(values_array(number))
    return with_nulls(names, t.nulls(parts))


# --- and back ----------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    return bytes([*out, value])


def _made(null: times.Nulls, **columns: Longs) -> pa.StructArray:
    """Combine numbers to a struct array, null where ``null`` is set."""
    return pa.StructArray.from_arrays(
        [values_array(column) for column in columns.values()], list(columns), mask=values_array(null)
    )


def _date_parts(days: Longs, null: times.Nulls) -> pa.StructArray:
    year, month, day = t.civil_of(days)
    times.refuse(np.abs(year) > t.MAX_YEAR, "a date further away than LocalDate goes")
    return _made(null, year=year, month=month, day=day)


def _time_parts(nanos: Longs, null: times.Nulls) -> pa.StructArray:
    seconds = nanos // 10**9
    return _made(null, hour=seconds // 3600, minute=seconds // 60 % 60, second=seconds % 60, nano=nanos % 10**9)


def _from_date(values: pa.Array) -> pa.StructArray:
    return _date_parts(*times.dates(values))


def _from_time(values: pa.Array) -> pa.StructArray:
    return _time_parts(*times.day_times(values))


def _from_short_time(values: pa.Array) -> pa.StructArray:
    nanos, null = times.day_times(values)
    return _made(null, nanos=nanos)


def _from_date_time(values: pa.Array, short: bool) -> pa.StructArray:
    seconds, nanos, null = times.instants(values)
    nanos = seconds % t.DAY_SECONDS * 10**9 + nanos
    date = _date_parts(seconds // t.DAY_SECONDS, null)
    time = values_array(nanos) if short else _time_parts(nanos, null)
    return pa.StructArray.from_arrays([date, time], ["date", "time"], mask=values_array(null))


def _from_instant(values: pa.Array) -> pa.StructArray:
    seconds, nanos, null = times.instants(values)
    return _made(null, seconds=seconds, nanos=nanos)


def _from_millis(values: pa.Array) -> pa.StructArray:
    seconds, nanos, null = times.instants(values)
    return _made(null, millis=times.in_units(seconds, nanos, null, 1000))


def _from_chars(values: pa.Array) -> pa.StructArray:
    def turn(text: str) -> dict[str, int]:
        raw = text.encode("utf-16-be")
        if len(raw) != 2:
            raise ValueError(f"{text!r} is not one UTF-16 unit, which is all a character holds")
        return {"unit": int.from_bytes(raw, "big")}

    return times.by_distinct(values, turn, pa.struct([("unit", pa.uint16())]))


def _from_constants(values: pa.Array, constants: tuple[str, ...]) -> pa.StructArray:
    def turn(text: str) -> dict[str, int]:
        if text not in constants:
            raise ValueError(f"{text!r} is no constant of an enum of {', '.join(constants[:10])}")
        return {"ordinal": constants.index(text) + 1}

    return times.by_distinct(values, turn, pa.struct([("ordinal", pa.int32())]))


def _struct(**fields: Layout) -> StructLayout:
    return StructLayout(tuple(fields.items()))


_DATE_2, _DATE_5 = _struct(day=_I16, month=_I16, year=_Z32), _struct(year=_U32, month=_I8, day=_I8)
_TIME_2 = _struct(hour=_I8, minute=_I8, nano=_Z32, second=_I8)
_DATE_TIME_2 = _struct(date=NewObject(_DATE_2), time=NewObject(_TIME_2))
_DATE_TIME_5 = _struct(date=_DATE_5, time=ShortTime())
# (class, Kryo version) → layout of its body, conversion to Arrow, conversion back.
PARTS: dict[tuple[str, int], tuple[StructLayout, Callable[..., pa.Array], Callable[[pa.Array], pa.Array]]] = {
    ("java.time.LocalDate", 2): (_DATE_2, _date, _from_date),
    ("java.time.LocalDate", 5): (_DATE_5, _date, _from_date),
    ("java.time.LocalTime", 2): (_TIME_2, _time, _from_time),
    ("java.time.LocalTime", 5): (_struct(nanos=ShortTime()), _short_time, _from_short_time),
    ("java.time.LocalDateTime", 2): (_DATE_TIME_2, _date_time, partial(_from_date_time, short=False)),
    ("java.time.LocalDateTime", 5): (_DATE_TIME_5, _date_time, partial(_from_date_time, short=True)),
    ("java.time.Instant", 2): (_struct(nanos=_Z32, seconds=_Z64), _instant, _from_instant),
    ("java.time.Instant", 5): (_struct(seconds=_U64, nanos=_U32), _instant, _from_instant),
    ("java.util.Date", 2): (_struct(millis=_U64), _millis, _from_millis),
    ("java.util.Date", 5): (_struct(millis=_U64), _millis, _from_millis),
    ("java.util.UUID", 2): (_struct(high=_Z64, low=_Z64), _uuid, halves_of_texts),
    ("java.util.UUID", 5): (_struct(high=_L64, low=_L64), _uuid, halves_of_texts),
}

_BIG = {"java.math.BigInteger": KryoBigNumber(False), "java.math.BigDecimal": KryoBigNumber(True)}
LEAVES = [*dict.fromkeys(name for name, _ in PARTS), "java.math.BigDecimal"]
"""Classes whose bodies have a layout here; the kernels read some others themselves."""


def leaf_body(
    class_name: str, version: int, modes: t.Fidelity, arrow_type: pa.DataType, enum: UserClass | None
) -> Layout | None:
    """Return the layout of the body of a class or of a primitive field; None if only the walker reads it."""
    mode = time_mode(class_name, modes)
    primitive = BOXES.get(class_name, class_name)
    if primitive in ("int", "long"):
        return _Z32 if primitive == "int" else _Z64
    if primitive == "boolean":
        return Boolean()
    if primitive == "char":
        unit = _struct(unit=Number(pa.uint16(), version < 5))
        return Converted(unit, pa.string(), partial(_chars, strict=modes.strict), inverse=_from_chars)
    if primitive in ("byte", "short", "float", "double"):
        return Number(arrow_type, version < 5)
    if class_name in _BIG:
        return _BIG[class_name]
    row = PARTS.get((class_name, version))
    if row is not None:
        return Converted(row[0], arrow_type, partial(row[1], mode=mode), inverse=row[2])
    if enum is None:
        return None
    names = enum.constants
    inverse = partial(_from_constants, constants=names)
    return Converted(_struct(ordinal=_U32), pa.string(), partial(_constants, constants=names), inverse=inverse)
