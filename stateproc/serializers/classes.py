"""Descriptions of user classes, and the POJO serializers Flink would make for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stateproc.codec.kryo.types import BOXES, STRING, ClassDescription, FieldType, java_order
from stateproc.codec.layouts import Counted, FlinkString, Layout
from stateproc.errors import InvalidOption
from stateproc.flink_versions import Release
from stateproc.serializers.base import LayoutContext, Serializer
from stateproc.serializers.big import Big
from stateproc.serializers.collections import PRIMITIVE_ARRAYS, ListOf, MapOf, PlainArray
from stateproc.serializers.descriptions import parse_classes, parse_type
from stateproc.serializers.kryo import Kryo
from stateproc.serializers.pojo import Pojo
from stateproc.serializers.scalars import SCALARS, Scalar
from stateproc.serializers.structs import EnumOf, NullableOf
from stateproc.serializers.temporal import TEMPORAL, Temporal
from stateproc.wire import Output

__all__ = [
    "ClassDescription", "FieldType", "described_pojo", "parse_classes", "parse_type", "pojo_field_serializer",
    "with_declared_types",
]  # fmt: skip

_MOST_POJOS, _DEEPEST = 2000, 64
_SCALARS = {row[0]: Scalar(*row) for row in SCALARS}
_TEMPORAL = {kind.name: Temporal(kind) for kind in TEMPORAL}
_BY_PRIMITIVE = {
    "boolean": "Boolean", "byte": "Byte", "char": "Char", "short": "Short", "int": "Int", "long": "Long",
    "float": "Float", "double": "Double",
}  # fmt: skip
# What Flink's type extraction gives a field of a class; every class not here, LocalDate too, is left to Kryo.
_BY_CLASS: dict[str, Serializer] = {
    **{primitive: _SCALARS[name] for primitive, name in _BY_PRIMITIVE.items()},
    **{box: _SCALARS[_BY_PRIMITIVE[primitive]] for box, primitive in BOXES.items()},
    STRING: _SCALARS["String"],
    "java.lang.Void": _SCALARS["Void"],
    "java.math.BigInteger": Big(False),
    "java.math.BigDecimal": Big(True),
    "java.time.Instant": _TEMPORAL["Instant"],
    "java.util.Date": _TEMPORAL["Date"],
    "java.sql.Date": _TEMPORAL["SqlDate"],
    "java.sql.Time": _TEMPORAL["SqlTime"],
    "java.sql.Timestamp": _TEMPORAL["SqlTimestamp"],
}
_CODES = {
    "boolean": "Z", "byte": "B", "char": "C", "short": "S", "int": "I", "long": "J", "float": "F", "double": "D",
}  # fmt: skip
_ARRAYS = {{"Int": "int"}.get(name, name.lower()): layout for name, layout in PRIMITIVE_ARRAYS}


@dataclass(frozen=True)
class ByRelease(Serializer):
    """A field whose serializer Flink 2 changed: ``one`` up to 1.20 (Kryo), ``two`` since 2.0."""

    one: Serializer
    two: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        return (self.two if ctx.kryo >= 5 else self.one).layout(ctx)

    @property
    def type_name(self) -> str:
        return self.two.type_name

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return self.two.nested

    def write_snapshot(self, out: Output, release: Release) -> None:
        (self.two if release.major >= 2 else self.one).write_snapshot(out, release)


def described_pojo(name: str, classes: Mapping[str, Any], above: tuple[str, ...] = ()) -> Pojo | None:
    """The POJO serializer of a described class; None for an enum or unknown class. Raises InvalidOption.

    ``above``: its superclasses that no description tells; as of all others, Flink leaves fields of them to Kryo.
    """
    descriptions = parse_classes(classes)
    described = descriptions.get(name)
    if described is None or described.is_enum:
        return None
    return _pojo(described, descriptions, (name, *above), [])


def with_declared_types(
    class_name: str, fields: tuple[tuple[str, Serializer], ...], classes: Mapping[str, Any]
) -> tuple[tuple[str, Serializer], ...]:
    """The fields of a class; those left to Kryo have the type arguments that the class's description gives."""
    described = parse_classes(classes).get(class_name)
    types = dict(described.fields) if described is not None else {}

    def declared(name: str, serializer: Serializer) -> Serializer:
        type_ = types.get(name)
        if isinstance(serializer, Kryo) and type_ is not None and type_.args and not type_.array:
            return replace(serializer, declared=type_)
        return serializer

    return tuple((name, declared(name, serializer)) for name, serializer in fields)


def _pojo(
    described: ClassDescription, classes: Mapping[str, ClassDescription], inside: tuple[str, ...], made: list[str]
) -> Pojo:
    """A POJO as TypeExtractor.analyzePojo finds it.

    ``inside``: the types on the way to it. Each POJO adds itself and its superclasses, each field its type, an array's
    component nothing; a class that comes more than once is left to Kryo. ``made``: the classes of all POJOs made so
    far; two fields of a class are two.
    """
    inside += (described.name, *(name for name in _superclasses(described, classes) if name not in inside))
    made.append(described.name)
    if len(made) > _MOST_POJOS or len(inside) > _DEEPEST:
        raise InvalidOption(
            f"the descriptions put more than {_MOST_POJOS} objects, or {_DEEPEST} one inside of the other, into a "
            f"value of {made[0]!r}",
            advice="describe the classes that the state's values are of, and leave out what does not belong to them",
        )

    fields = sorted(described.fields, key=lambda field: java_order(field[0]))
    told = tuple((name, _extracted(type_, classes, (*inside, java_class(type_)), made)) for name, type_ in fields)
    return Pojo(described.name, told, (), tuple(_owner(name, described, classes) for name, _ in fields))


def _superclasses(described: ClassDescription, classes: Mapping[str, ClassDescription]) -> Iterator[str]:
    """The superclasses that the descriptions tell, the nearest first."""
    seen = {described.name}
    above: ClassDescription | None = described
    while above is not None and above.parent is not None and above.parent not in seen:
        seen.add(above.parent)
        yield above.parent
        above = classes.get(above.parent)


def _owner(field: str, described: ClassDescription, classes: Mapping[str, ClassDescription]) -> str:
    """The class that declares a field: the most general described one that has it."""
    owner, seen = described.name, {described.name}
    above = classes.get(described.parent or "")
    while above is not None and above.name not in seen and field in dict(above.fields):
        owner = above.name
        seen.add(owner)
        above = classes.get(above.parent or "")
    return owner


def pojo_field_serializer(type_: FieldType, classes: Mapping[str, ClassDescription]) -> Serializer:
    """The serializer Flink's type extraction gives a POJO's field of this type."""
    return _extracted(type_, classes, (java_class(type_),), [])


def _extracted(
    type_: FieldType, classes: Mapping[str, ClassDescription], inside: tuple[str, ...], made: list[str]
) -> Serializer:
    """The serializer of a type; ``inside`` and ``made`` as for :func:`_pojo`."""
    known = _BY_CLASS.get(type_.name)
    if known is not None:
        return known
    described = classes.get(type_.name)
    if described is not None and described.is_enum:
        return EnumOf(described.name, tuple(enumerate(described.constants)))
    if (described is not None or type_.array) and inside.count(java_class(type_)) > 1:
        return Kryo(java_class(type_), (java_class(type_),))
    if type_.array:
        return _array(type_.args[0], classes, inside, made)
    if described is not None:
        return _pojo(described, classes, inside, made)
    kryo = Kryo(type_.name, (type_.name,), declared=type_ if type_.args else None)
    parts = [_item(_extracted(arg, classes, inside, made)) for arg in type_.args]
    if type_.name == "java.util.List" and len(parts) == 1:
        return ByRelease(kryo, NullableOf(ListOf("List", parts[0]), 0))
    if type_.name == "java.util.Set" and len(parts) == 1:
        return ByRelease(kryo, NullableOf(ListOf("Set", parts[0], null_byte=1), 0))
    if type_.name == "java.util.Map" and len(parts) == 2:
        return ByRelease(kryo, NullableOf(MapOf(parts[0], parts[1]), 0))
    return kryo


def _item(serializer: Serializer) -> Serializer:
    """Items of fixed length stand alone, others inside a Nullable."""
    return serializer if serializer.length >= 0 else NullableOf(serializer, 0)


def _array(
    component: FieldType, classes: Mapping[str, ClassDescription], inside: tuple[str, ...], made: list[str]
) -> Serializer:
    if component.name in _ARRAYS:
        return PlainArray(component.name, _ARRAYS[component.name])
    if component.name == STRING:
        return PlainArray("String", Counted(FlinkString()))
    element = _extracted(component, classes, inside, made)
    return ListOf("Array", element, null_byte=0, component=java_class(component))


def java_class(type_: FieldType) -> str:
    """Class.getName() of a type: arrays by Java's codes, such as ``[I`` and ``[Ljava.lang.String;``."""
    if not type_.array:
        return type_.name
    component = type_.args[0]
    if component.name in _CODES:
        return f"[{_CODES[component.name]}"
    inner = java_class(component)
    return f"[{inner}" if component.array else f"[L{inner};"
