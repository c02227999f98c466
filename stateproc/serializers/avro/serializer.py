"""Decode and encode Avro values in Flink's own encoding: org.apache.flink.formats.avro.utils.DataOutputEncoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec import temporal as t
from stateproc.codec import temporal as times
from stateproc.codec.avro_schema import AvroSchema, AvroType, parse_schema
from stateproc.codec.decimals import decimal_text, integer_bytes, parts_of, unscaled, unscaled_bytes, wide_decimals
from stateproc.codec.layouts import (
    AlwaysNull,
    AvroBlocks,
    Blob,
    Boolean,
    Choice,
    ChoiceOption,
    Converted,
    Hosted,
    Layout,
    MapLayout,
    Number,
    StructLayout,
)
from stateproc.codec.uuid_text import uuid_bytes, uuid_texts
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.avro.json_values import plain_json, read_as_json
from stateproc.serializers.core.base import LayoutContext, Serializer, Undecodable, simple_name
from stateproc.serializers.core.registry import expect_version, snapshot, write_head
from stateproc.serializers.java.structs import constants, numbers_of
from stateproc.serializers.java.temporal import python_time, python_timestamp
from stateproc.serializers.table.layouts import MAX_DECIMAL, date_layout, time_layout
from stateproc.wire import Cursor, Output

MAX_PARTS = 20_000
_I32, _I64 = Number(pa.int32()), Number(pa.int64())
_STRING, _BYTES = Blob(ops.LENGTH_I32, text=True), Blob(ops.LENGTH_I32)
_UNION_TAG = 4

_PRIMITIVES: dict[str, Layout] = {
    "null": AlwaysNull(0),
    "boolean": Boolean(),
    "int": _I32,
    "long": _I64,
    "float": Number(pa.float32()),
    "double": Number(pa.float64()),
    "bytes": _BYTES,
    "string": _STRING,
}


@dataclass(frozen=True)
class Avro(Serializer):
    """AvroSerializer: values in the schema of the snapshot, which is the writer's, as ``text`` (JSON) and parsed."""

    class_name: str
    schema: AvroSchema
    text: str = field(default="", compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return _Layouts(self.schema, ctx.inner).of(self.schema.root, ())

    @property
    def type_name(self) -> str:
        return f"Avro {self.schema.root.short_name if self.schema.root.name else simple_name(self.class_name)}"

    def write_snapshot(self, out: Output, release: Release) -> None:
        if not self.text:
            super().write_snapshot(out, release)
        if release >= _LONG_SCHEMAS:
            write_head(out, _SNAPSHOT, 3, release)
            out.fstr(self.class_name)
            out.fstr(self.text)
        else:
            write_head(out, _SNAPSHOT, 2, release)
            out.utf(self.class_name)
            out.utf(self.text)


_SNAPSHOT = "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot"
_LONG_SCHEMAS = Release(1, 12)


@snapshot(_SNAPSHOT)
def _read_avro(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "AvroSerializerSnapshot", version, 1, 2, 3)
    at = cursor.pos
    class_name: str | None = ""
    if version == 3:
        class_name, text = cursor.fstr(), cursor.fstr()
    elif version == 2:
        class_name, text = cursor.utf(), cursor.utf()
    else:
        text = cursor.utf()
    if text is None or class_name is None:
        cursor.corrupt("an Avro serializer snapshot without a schema", at=at)
    try:
        return Avro(class_name, parse_schema(text), text)
    except (CorruptSnapshot, UnsupportedSnapshot) as error:
        raise error.at(file=cursor.file, offset=cursor.base + at) from error


class _Layouts:
    """Build the layout of a schema; the number of its layouts is limited, as references can expand a small schema."""

    def __init__(self, schema: AvroSchema, ctx: LayoutContext) -> None:
        self.schema = schema
        self.ctx = ctx
        self.parts = 0

    def of(self, type_: AvroType, path: tuple[str, ...]) -> Layout:
        """Return the layout of a type inside the named types of ``path``."""
        self.parts += 1
        if self.parts > MAX_PARTS:
            raise Undecodable(f"an Avro schema of over {MAX_PARTS} parts")
        actual = self.schema.resolve(type_)
        if actual.name in path:
            # A type inside itself has no end that columns could have: JSON text.
            read = partial(read_as_json, schema=self.schema, type_=actual, modes=self.ctx.fidelity)
            return Hosted(read, pa.string(), 0, plain_json)
        if actual.logical:
            made = _LOGICAL.get((actual.kind, actual.logical))
            if made is not None:
                return made(actual, self.ctx)
        if actual.kind in _PRIMITIVES:
            return _PRIMITIVES[actual.kind]
        return _COMPLEX[actual.kind](self, actual, (*path, actual.name) if actual.name else path)

    def record(self, type_: AvroType, path: tuple[str, ...]) -> Layout:
        fields = zip(type_.names, type_.children, strict=True)
        return StructLayout(tuple((name, self.of(child, path)) for name, child in fields))

    def enum(self, type_: AvroType, path: tuple[str, ...]) -> Layout:
        names = tuple(enumerate(type_.names))
        return Converted(_I32, pa.string(), partial(constants, names=names), inverse=partial(numbers_of, names=names))

    def fixed(self, type_: AvroType, path: tuple[str, ...]) -> Layout:
        return Blob(ops.LENGTH_FIXED, type_.size)

    def array(self, type_: AvroType, path: tuple[str, ...]) -> Layout:
        return AvroBlocks(self.of(type_.children[0], path))

    def map(self, type_: AvroType, path: tuple[str, ...]) -> Layout:
        entry = StructLayout((("key", _STRING), ("value", self.of(type_.children[0], path))))
        return MapLayout(AvroBlocks(entry))

    def union(self, type_: AvroType, path: tuple[str, ...]) -> Layout:
        """An i32 index of the branch. Of null and one other type: that type, nullable; else a struct."""
        null_at: int | None = None
        options: list[ChoiceOption] = []
        for index, branch in enumerate(type_.children):
            actual = self.schema.resolve(branch)
            if actual.kind == "null":
                null_at = index
                continue
            options.append(ChoiceOption(index, branch_name(actual, options), self.of(branch, path)))
        if not options:
            return AlwaysNull(_UNION_TAG)
        choice = Choice(tuple(options), _UNION_TAG, null_at)
        if len(options) > 1:
            return choice
        only = options[0]
        as_choice = partial(only_field, name=only.name)
        return Converted(choice, only.layout.arrow_type, first_field, only.layout.to_python, as_choice)


def branch_name(branch: AvroType, taken: list[ChoiceOption]) -> str:
    """Return the branch's short name, or its full name if the short one is taken."""
    names = {option.name for option in taken}
    return branch.short_name if branch.short_name not in names else branch.name or branch.kind


def first_field(choices: pa.StructArray) -> pa.Array:
    return choices.field(0)


def only_field(values: pa.Array, name: str) -> pa.StructArray:
    """Wrap values as choices of one option."""
    return pa.StructArray.from_arrays([values], names=[name], mask=values.is_null())


_COMPLEX: dict[str, Callable[[_Layouts, AvroType, tuple[str, ...]], Layout]] = {
    "record": _Layouts.record,
    "enum": _Layouts.enum,
    "fixed": _Layouts.fixed,
    "array": _Layouts.array,
    "map": _Layouts.map,
    "union": _Layouts.union,
}


# --- logical types ------------------------------------------------------------------------------------------


def units_to_timestamps(values: pa.Array, units: int, mode: str, zone: str | None) -> pa.Array:
    """Convert ``units`` per second since the epoch."""
    longs = t.ints(values)
    nanos = longs % units * (10**9 // units)
    return t.instant_array(np.floor_divide(longs, units), nanos, t.nulls(values), mode, zone)


def micros_to_times(micros: pa.Array, mode: str) -> pa.Array:
    longs, null = t.ints(micros), t.nulls(micros)
    if (((longs < 0) | (longs >= t.DAY_SECONDS * 10**6)) & ~null).any():
        raise t.OutOfRange("a time of day is outside of the day")
    return t.time_array(longs * 1000, null, mode)


def long_decimals(values: pa.Array, scale: int) -> pa.Array:
    """Convert decimals of more digits than Arrow's decimal types have to text."""
    raws = values.to_pylist()
    return pa.array([None if raw is None else decimal_text(unscaled(raw), scale) for raw in raws], pa.string())


def timestamps_to_units(values: pa.Array, units: int) -> pa.Array:
    seconds, nanos, null = times.instants(values)
    return times.integers(times.in_units(seconds, nanos, null, units), null, pa.int64())


def times_to_micros(values: pa.Array) -> pa.Array:
    nanos, null = times.day_times(values)
    times.refuse(nanos % 1000 != 0, "a time finer than a microsecond, which is all the type holds")
    return times.integers(nanos // 1000, null, pa.int64())


def unscaled_texts(values: pa.Array, scale: int, size: int) -> pa.Array:
    """Convert decimal text to the bytes of its unscaled value, ``size`` of them unless that is 0."""

    def turn(text: str) -> bytes:
        number, own_scale = parts_of(text)
        if own_scale > scale:
            raise ValueError(f"{text} has more than {scale} digits after the decimal point")
        number *= 10 ** (scale - own_scale)
        try:
            return number.to_bytes(size, "big", signed=True) if size else integer_bytes(number)
        except OverflowError as error:
            raise ValueError(f"{text} does not fit {size} bytes") from error

    return times.by_distinct(values, turn, pa.binary())


def _timestamp(units: int, zone: str | None) -> Callable[[AvroType, LayoutContext], Layout]:
    def build(type_: AvroType, ctx: LayoutContext) -> Layout:
        mode = ctx.fidelity.fine if units > 10**6 else ctx.fidelity.coarse
        arrow = pa.string() if mode == "exact" else pa.timestamp("us", zone)
        convert = partial(units_to_timestamps, units=units, mode=mode, zone=zone)
        return Converted(_I64, arrow, convert, python_timestamp, partial(timestamps_to_units, units=units))

    return build


def _time_micros(type_: AvroType, ctx: LayoutContext) -> Layout:
    mode = ctx.fidelity.coarse
    arrow = pa.string() if mode == "exact" else pa.time64("us")
    return Converted(_I64, arrow, partial(micros_to_times, mode=mode), python_time, times_to_micros)


def _decimal(type_: AvroType, ctx: LayoutContext) -> Layout:
    inner = Blob(ops.LENGTH_FIXED, type_.size) if type_.kind == "fixed" else _BYTES
    size = type_.size if type_.kind == "fixed" else 0
    if type_.precision > MAX_DECIMAL:
        back = partial(unscaled_texts, scale=type_.scale, size=size)
        return Converted(inner, pa.string(), partial(long_decimals, scale=type_.scale), Decimal, back)
    convert = partial(wide_decimals, precision=type_.precision, scale=type_.scale)
    arrow = pa.decimal128(type_.precision, type_.scale)
    return Converted(inner, arrow, convert, inverse=partial(unscaled_bytes, size=size))


def _uuid(type_: AvroType, ctx: LayoutContext) -> Layout:
    inner = Blob(ops.LENGTH_FIXED, type_.size)
    return Converted(inner, pa.string(), uuid_texts, inverse=uuid_bytes) if type_.size == 16 else inner


# Duration stays the 12 bytes it is: neither Arrow nor Spark has months, days and milliseconds in one.
_LOGICAL: dict[tuple[str, str], Callable[[AvroType, LayoutContext], Layout]] = {
    ("int", "date"): lambda type_, ctx: date_layout(_I32, ctx),
    ("int", "time-millis"): lambda type_, ctx: time_layout(_I32, ctx),
    ("long", "time-micros"): _time_micros,
    ("long", "timestamp-millis"): _timestamp(10**3, "UTC"),
    ("long", "timestamp-micros"): _timestamp(10**6, "UTC"),
    ("long", "timestamp-nanos"): _timestamp(10**9, "UTC"),
    ("long", "local-timestamp-millis"): _timestamp(10**3, None),
    ("long", "local-timestamp-micros"): _timestamp(10**6, None),
    ("long", "local-timestamp-nanos"): _timestamp(10**9, None),
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("fixed", "uuid"): _uuid,
}
