"""Read and write numbers, characters and strings, and the values of org.apache.flink.types.

Source: org.apache.flink.api.common.typeutils.base.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from stateproc.codec.errors import LoneSurrogate
from stateproc.codec.layouts import AlwaysNull, Boolean, Converted, FlinkString, Layout, Number, SingletonValue
from stateproc.codec.temporal import by_distinct, ints, nulls
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import VARIABLE, LayoutContext, Serializer
from stateproc.serializers.core.registry import simple_snapshot, write_simple
from stateproc.wire import Output

_BASE = "org.apache.flink.api.common.typeutils.base."
_PATTERN = _BASE + "{}Serializer${}SerializerSnapshot"


def character(units: pa.Array) -> pa.Array:
    """Convert UTF-16 units to strings of one character; half of a surrogate pair becomes U+FFFD."""
    values, null = ints(units) & 0xFFFF, nulls(units)
    table = {int(unit): "�" if 0xD800 <= unit < 0xE000 else chr(int(unit)) for unit in np.unique(values)}
    return pa.array([None if gone else table[int(unit)] for unit, gone in zip(values, null, strict=True)], pa.string())


def unit(characters: pa.Array) -> pa.Array:
    """Convert strings of one character to UTF-16 units. Raises Unencodable for longer and empty ones."""
    return by_distinct(characters, _unit, pa.int16())


def _unit(text: str) -> int:
    raw = text.encode("utf-16-be")
    if len(raw) != 2:
        raise ValueError(f"{text!r} is not one UTF-16 unit, which is all a character holds")
    return int.from_bytes(raw, "big", signed=True)


def whole_character(units: pa.Array) -> pa.Array:
    """Convert UTF-16 units to strings of one character. Raises LoneSurrogate for half of a surrogate pair."""
    values = ints(units) & 0xFFFF
    if ((values >= 0xD800) & (values < 0xE000) & ~nulls(units)).any():
        raise LoneSurrogate
    return character(units)


_CHARACTER = Converted(Number(pa.int16()), pa.string(), character, inverse=unit)
_STRICT_CHARACTER = Converted(Number(pa.int16()), pa.string(), whole_character, inverse=unit)

# name, type name for users, layout, getLength()
SCALARS: tuple[tuple[str, str, Layout, int], ...] = (
    ("Boolean", "Boolean", Boolean(), 1),
    ("Byte", "Byte", Number(pa.int8()), 1),
    ("Short", "Short", Number(pa.int16()), 2),
    ("Int", "Integer", Number(pa.int32()), 4),
    ("Long", "Long", Number(pa.int64()), 8),
    ("Float", "Float", Number(pa.float32()), 4),
    ("Double", "Double", Number(pa.float64()), 8),
    ("Char", "Character", _CHARACTER, 2),
    ("String", "String", FlinkString(), VARIABLE),
    ("BooleanValue", "BooleanValue", Boolean(), 1),
    ("ByteValue", "ByteValue", Number(pa.int8()), 1),
    ("ShortValue", "ShortValue", Number(pa.int16()), 2),
    ("IntValue", "IntValue", Number(pa.int32()), 4),
    ("LongValue", "LongValue", Number(pa.int64()), 8),
    ("FloatValue", "FloatValue", Number(pa.float32()), 4),
    ("DoubleValue", "DoubleValue", Number(pa.float64()), 8),
    ("CharValue", "CharValue", _CHARACTER, 2),
    ("StringValue", "StringValue", FlinkString(bias=0), VARIABLE),
    ("NullValue", "NullValue", SingletonValue(0), 0),
    ("Void", "Void", AlwaysNull(1), 1),
)
_STRICT: dict[str, Layout] = {
    "Char": _STRICT_CHARACTER,
    "CharValue": _STRICT_CHARACTER,
    "String": FlinkString(strict=True),
    "StringValue": FlinkString(0, strict=True),
}
"""Layouts that refuse what their columns cannot hold."""
_NAMES = frozenset(row[0] for row in SCALARS)


@dataclass(frozen=True)
class Scalar(Serializer):
    """A serializer without parameters; ``name`` a row of SCALARS (or of a table like it).

    ``snapshot_class``: where it is not the one that SCALARS has for the name.
    """

    name: str
    type: str
    bytes: Layout
    size: int
    snapshot_class: str = field(default="", compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return _STRICT.get(self.name, self.bytes) if ctx.strict else self.bytes

    @property
    def length(self) -> int:
        return self.size

    @property
    def type_name(self) -> str:
        return self.type

    def write_snapshot(self, out: Output, release: Release) -> None:
        class_name = self.snapshot_class
        if not class_name:
            if self.name not in _NAMES:
                super().write_snapshot(out, release)
            class_name = _PATTERN.format(self.name, self.name)
        write_simple(out, class_name, release)


for _row in SCALARS:
    _class_name = _PATTERN.format(_row[0], _row[0])
    simple_snapshot(Scalar(*_row, _class_name), _class_name)
LONG = Scalar(*next(row for row in SCALARS if row[0] == "Long"))
# Its one byte holds no information.
VOID_NAMESPACE = Scalar(
    "VoidNamespace",
    "VoidNamespace",
    AlwaysNull(1),
    0,
    "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot",
)


simple_snapshot(VOID_NAMESPACE, VOID_NAMESPACE.snapshot_class)
