"""Find the serializers that Flink's type extraction gives the fields of described classes.

Source: org.apache.flink.api.java.typeutils.TypeExtractor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from stateproc.codec.kryo.types import BOXES, STRING, FieldType, UserClass, java_order
from stateproc.codec.layouts import Counted, FlinkString, Layout
from stateproc.errors import InvalidOption
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.java.big_numbers import Big
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.java.collections import PRIMITIVE_ARRAYS, ListOf, MapOf, PlainArray
from stateproc.serializers.java.scalars import SCALARS, Scalar
from stateproc.serializers.java.structs import EnumOf, NullableOf
from stateproc.serializers.java.temporal import TEMPORAL, Temporal
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.wire import Output

_MAX_POJOS, _MAX_DEPTH = 2000, 64
_SCALARS = {row[0]: Scalar(*row) for row in SCALARS}
_TEMPORAL = {kind.name: Temporal(kind) for kind in TEMPORAL}
_BY_PRIMITIVE = {
    "boolean": "Boolean",
    "byte": "Byte",
    "char": "Char",
    "short": "Short",
    "int": "Int",
    "long": "Long",
    "float": "Float",
    "double": "Double",
}
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
    "boolean": "Z",
    "byte": "B",
    "char": "C",
    "short": "S",
    "int": "I",
    "long": "J",
    "float": "F",
    "double": "D",
}
_ARRAYS = {{"Int": "int"}.get(name, name.lower()): layout for name, layout in PRIMITIVE_ARRAYS}


@dataclass(frozen=True)
class ReleaseDependent(Serializer):
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


Fields = tuple[tuple[str, Serializer], ...]
P = TypeVar("P", bound=Serializer)


def with_declared_types(class_name: str, fields: Fields, classes: Mapping[str, Any]) -> Fields:
    """Give Kryo fields of a described class the type arguments that the description declares."""
    described = parse_classes(classes).get(class_name)
    types = dict(described.fields) if described is not None else {}

    def declared(name: str, serializer: Serializer) -> Serializer:
        type_ = types.get(name)
        if isinstance(serializer, Kryo) and type_ is not None and type_.args and not type_.array:
            return replace(serializer, declared=type_)
        return serializer

    return tuple((name, declared(name, serializer)) for name, serializer in fields)


@dataclass
class TypeExtractor(Generic[P]):
    """Find the serializers of described classes as Flink's TypeExtractor.analyzePojo does.

    In the methods, ``path`` holds the types from the outermost class to the current one: each POJO adds itself and its
    superclasses, each field its type, an array's component nothing. A class that occurs more than once on a path is
    left to Kryo.

    Attributes:
        classes: the descriptions of user classes.
        make_pojo: creates a POJO serializer from a class name, its fields and, per field, the declaring class.
        extracted: the classes of all POJOs made so far; two fields of one class count twice.
    """

    classes: Mapping[str, UserClass]
    make_pojo: Callable[[str, Fields, tuple[str, ...]], P]
    extracted: list[str] = field(default_factory=list)

    def pojo(self, described: UserClass, path: tuple[str, ...]) -> P:
        """Create the POJO serializer of a described class."""
        path += (described.name, *(name for name in self._superclasses(described) if name not in path))
        self.extracted.append(described.name)
        if len(self.extracted) > _MAX_POJOS or len(path) > _MAX_DEPTH:
            raise InvalidOption(
                f"the descriptions put more than {_MAX_POJOS} objects, or {_MAX_DEPTH} one inside of the other, into a "
                f"value of {self.extracted[0]!r}",
                advice="describe the classes of the state's values and leave out classes that do not belong to them",
            )
        ordered = sorted(described.fields, key=lambda field: java_order(field[0]))
        fields = tuple((name, self.field(type_, (*path, java_class(type_)))) for name, type_ in ordered)
        return self.make_pojo(
            described.name, fields, tuple(self._declaring_class(name, described) for name, _ in fields)
        )

    def field(self, type_: FieldType, path: tuple[str, ...]) -> Serializer:
        """Find the serializer of a field of this type."""
        known = _BY_CLASS.get(type_.name)
        if known is not None:
            return known
        described = self.classes.get(type_.name)
        if described is not None and described.is_enum:
            return EnumOf(described.name, tuple(enumerate(described.constants)))
        if (described is not None or type_.array) and path.count(java_class(type_)) > 1:
            return Kryo(java_class(type_), (java_class(type_),))
        if type_.array:
            return self._array(type_.args[0], path)
        if described is not None:
            return self.pojo(described, path)
        return self._generic(type_, path)

    def _generic(self, type_: FieldType, path: tuple[str, ...]) -> Serializer:
        """The serializer of a class that no description declares: Kryo, or since Flink 2 that of a collection."""
        kryo = Kryo(type_.name, (type_.name,), declared=type_ if type_.args else None)
        arguments = [_item(self.field(argument, path)) for argument in type_.args]
        if type_.name == "java.util.List" and len(arguments) == 1:
            return ReleaseDependent(kryo, NullableOf(ListOf("List", arguments[0]), 0))
        if type_.name == "java.util.Set" and len(arguments) == 1:
            return ReleaseDependent(kryo, NullableOf(ListOf("Set", arguments[0], null_byte=1), 0))
        if type_.name == "java.util.Map" and len(arguments) == 2:
            return ReleaseDependent(kryo, NullableOf(MapOf(arguments[0], arguments[1]), 0))
        return kryo

    def _array(self, component: FieldType, path: tuple[str, ...]) -> Serializer:
        if component.name in _ARRAYS:
            return PlainArray(component.name, _ARRAYS[component.name])
        if component.name == STRING:
            return PlainArray("String", Counted(FlinkString()))
        return ListOf("Array", self.field(component, path), null_byte=0, component=java_class(component))

    def _superclasses(self, described: UserClass) -> Iterator[str]:
        """The superclasses that the descriptions declare, the nearest first."""
        seen = {described.name}
        above: UserClass | None = described
        while above is not None and above.parent is not None and above.parent not in seen:
            seen.add(above.parent)
            yield above.parent
            above = self.classes.get(above.parent)

    def _declaring_class(self, field: str, described: UserClass) -> str:
        """The class that declares a field: the most general described one that has it."""
        owner, seen = described.name, {described.name}
        above = self.classes.get(described.parent or "")
        while above is not None and above.name not in seen and field in dict(above.fields):
            owner = above.name
            seen.add(owner)
            above = self.classes.get(above.parent or "")
        return owner


def _item(serializer: Serializer) -> Serializer:
    """The serializer of a collection's items: nullable unless their length is fixed."""
    return serializer if serializer.length >= 0 else NullableOf(serializer, 0)


def java_class(type_: FieldType) -> str:
    """Class.getName() of a type: arrays by Java's codes, such as ``[I`` and ``[Ljava.lang.String;``."""
    if not type_.array:
        return type_.name
    component = type_.args[0]
    if component.name in _CODES:
        return f"[{_CODES[component.name]}"
    inner = java_class(component)
    return f"[{inner}" if component.array else f"[L{inner};"
