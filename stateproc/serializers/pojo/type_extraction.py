"""Find the serializers that Flink's type extraction gives the fields of described classes.

Source: org.apache.flink.api.java.typeutils.TypeExtractor. Of collections only fields of an interface have a serializer
of Flink's own, since 2.0, and only if each type argument is a class that has no arguments itself, and no wildcard or
type variable:

    List<E>, Collection<E>, Iterable<E>   Nullable(List(Nullable(E)))
    Set<E>                                Nullable(Set(E))
    Map<K, V>                             Nullable(Map(Nullable(K), V))

All others (HashMap, Deque, List<Set<String>>, List<?>, a raw List) are left to Kryo, as all are up to 1.20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from stateproc.codec.kryo.types import BOXES, OBJECT, STRING, FieldType, UserClass, java_order
from stateproc.codec.layouts import Counted, FlinkString, Layout
from stateproc.errors import InvalidOption
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.java.big_numbers import Big
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.java.collections import PRIMITIVE_ARRAYS, ListOf, MapOf, PlainArray
from stateproc.serializers.java.scalars import SCALARS, Scalar
from stateproc.serializers.java.structs import EitherOf, EnumOf, NullableOf, Tuple0, TupleOf
from stateproc.serializers.java.temporal import TEMPORAL, Temporal
from stateproc.serializers.kryo.conversion import Rewritten
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.runtime.legacy import CHARS
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
    **{f"org.apache.flink.types.{name}": scalar for name, scalar in _SCALARS.items() if name.endswith("Value")},
}
CODES = {
    "boolean": "Z",
    "byte": "B",
    "char": "C",
    "short": "S",
    "int": "I",
    "long": "J",
    "float": "F",
    "double": "D",
}
_ARRAYS = {"char": CHARS, **{name.lower(): layout for name, layout in PRIMITIVE_ARRAYS}}
_LISTS = ("java.util.List", "java.util.Collection", "java.lang.Iterable", "java.util.SequencedCollection")
_SET, _MAP, _EITHER = "java.util.Set", "java.util.Map", "org.apache.flink.types.Either"
COLLECTIONS = frozenset((*_LISTS, _SET, _MAP))
"""Fields of these types Flink 2 gives serializers of its own, if their arguments are plain classes."""
_TUPLES = {f"org.apache.flink.api.java.tuple.Tuple{arity}": arity for arity in range(26)}


@dataclass(frozen=True)
class ReleaseDependent(Serializer):
    """A field whose serializer Flink 2 changed: ``one`` up to 1.20 (Kryo), ``two`` since 2.0."""

    one: Serializer
    two: Serializer

    def layout(self, ctx: LayoutContext) -> Layout:
        if ctx.kryo < 5 <= ctx.convert_to:
            read = self.one.layout(replace(ctx, convert_to=0))
            return Rewritten(read, self.two.layout(replace(ctx, kryo=ctx.convert_to, convert_to=0)))
        return self.of(ctx).layout(ctx)

    def of(self, ctx: LayoutContext) -> Serializer:
        """Return the serializer of the release that wrote the values."""
        return self.two if ctx.kryo >= 5 else self.one

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


class _NoTypeInformation(Exception):
    """Flink's InvalidTypesException, which leaves a POJO's field to Kryo."""


@dataclass
class TypeExtractor(Generic[P]):
    """Find the serializers of described classes as Flink's TypeExtractor.analyzePojo does.

    In the methods, ``path`` holds the types from the outermost class to the current one: each POJO adds itself and its
    superclasses, each field its type, an array's component nothing. A class that occurs more than once on a path is
    left to Kryo. The items of a collection begin a path of their own.

    Attributes:
        classes: the descriptions of user classes.
        make_pojo: creates a POJO serializer from a class name, its fields and, per field, the declaring class.
        extracted: the classes of all POJOs made so far; two fields of one class count twice.
        unfinished: the classes of the POJOs whose fields are being searched.
    """

    classes: Mapping[str, UserClass]
    make_pojo: Callable[[str, Fields, tuple[str, ...]], P]
    extracted: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    def pojo(self, described: UserClass, path: tuple[str, ...], arguments: tuple[FieldType, ...] = ()) -> P:
        """Create the POJO serializer of a described class with these type arguments."""
        path += (described.name, *(name for name in self._superclasses(described) if name not in path))
        self.extracted.append(described.name)
        self.unfinished.append(described.name)
        if len(self.extracted) > _MAX_POJOS or len(self.unfinished) > _MAX_DEPTH or len(path) > _MAX_DEPTH:
            raise InvalidOption(
                f"the descriptions put more than {_MAX_POJOS} objects, or {_MAX_DEPTH} one inside of the other, into a "
                f"value of {self.extracted[0]!r}",
                advice="describe the classes of the state's values and leave out classes that do not belong to them",
            )
        bound = dict(zip(described.variables, arguments, strict=False))
        ordered = sorted(described.fields, key=lambda field: java_order(field[0]))
        fields = tuple(
            (name, self._field_of_pojo(self._actual(name, type_, described, bound), path)) for name, type_ in ordered
        )
        self.unfinished.pop()
        return self.make_pojo(
            described.name, fields, tuple(self._declaring_class(name, described) for name, _ in fields)
        )

    def field(self, type_: FieldType, path: tuple[str, ...]) -> Serializer:
        """Find the serializer of a field of this type. Raises _NoTypeInformation where Flink's extraction fails."""
        if type_.stands_for == "?":
            raise _NoTypeInformation
        if type_.name in _TUPLES:
            arity = _TUPLES[type_.name]
            return TupleOf(type_.name, self._arguments(type_, arity, path)) if arity else Tuple0()
        if type_.name == _EITHER:
            left, right = self._arguments(type_, 2, path)
            return EitherOf(left, right)
        known = _BY_CLASS.get(type_.name)
        if known is not None:
            return known
        described = self.classes.get(type_.name)
        if described is not None and described.is_enum:
            return EnumOf(described.name, tuple(enumerate(described.constants)))
        once = type_.array and _is_generic_array(type_)
        if (described is not None or type_.array) and not once and path.count(java_class(type_)) > 1:
            return Kryo(java_class(type_), (java_class(type_),))
        if type_.array:
            return self._array(type_.args[0], path)
        if described is not None and self._is_pojo(described):
            return self._tuple_subclass(described, path) or self.pojo(described, path, type_.args)
        return self._left_to_kryo(type_)

    def _field_of_pojo(self, type_: FieldType, path: tuple[str, ...]) -> Serializer:
        """The serializer of a POJO's field, which is Kryo's where Flink's extraction fails."""
        try:
            return self.field(type_, (*path, java_class(type_)))
        except _NoTypeInformation:
            erased = OBJECT if type_.stands_for or _is_generic_array(type_) else java_class(type_)
            return Kryo(erased, (erased,), declared=type_ if type_.args and not type_.array else None)

    def _is_pojo(self, described: UserClass) -> bool:
        """Whether Flink makes a POJO of a class with fields.

        In a class whose fields are being searched it can only be inside of a collection, where Flink 2 does not end.
        """
        return bool(described.fields) and not described.generic and described.name not in self.unfinished

    def _arguments(self, type_: FieldType, count: int, path: tuple[str, ...]) -> tuple[Serializer, ...]:
        """The serializers of the type arguments, of which there have to be so many."""
        if len(type_.args) != count:
            raise _NoTypeInformation
        return tuple(self.field(argument, (*path, java_class(argument))) for argument in type_.args)

    def _tuple_subclass(self, described: UserClass, path: tuple[str, ...]) -> Serializer | None:
        """The serializer of a class that extends a tuple and adds no fields; None for other classes."""
        arity = _TUPLES.get(described.parent or "", 0)
        types = dict(described.fields)
        names = [f"f{index}" for index in range(arity)]
        if not arity or sorted(types) != sorted(names):
            return None
        return TupleOf(
            described.name, self._arguments(FieldType("", tuple(types[name] for name in names)), arity, path)
        )

    def _left_to_kryo(self, type_: FieldType) -> Serializer:
        """The serializer of a class that is no POJO: Kryo, or since Flink 2 that of a collection."""
        kryo = Kryo(type_.name, (type_.name,), declared=type_ if type_.args else None)
        if not all(map(_is_class, type_.args)):
            return kryo
        since_2 = self._collection(type_)
        return kryo if since_2 is None else ReleaseDependent(kryo, NullableOf(since_2, 0))

    def _collection(self, type_: FieldType) -> Serializer | None:
        """The serializer of a collection in Flink 2; None for other classes, and where Flink's extraction fails."""
        try:
            if type_.name in _LISTS and len(type_.args) == 1:
                return ListOf("List", NullableOf(self._item(type_.args[0]), 0))
            if type_.name == _SET and len(type_.args) == 1:
                return ListOf("Set", self._item(type_.args[0]), null_byte=1)
            if type_.name == _MAP and len(type_.args) == 2:
                return MapOf(NullableOf(self._item(type_.args[0]), 0), self._item(type_.args[1]))
        except _NoTypeInformation:
            return None
        return None

    def _item(self, type_: FieldType) -> Serializer:
        return self.field(type_, (java_class(type_),))

    def _array(self, component: FieldType, path: tuple[str, ...]) -> Serializer:
        if component.name in _ARRAYS:
            return PlainArray(component.name, _ARRAYS[component.name])
        if component.name == STRING and not component.stands_for:
            return PlainArray("String", Counted(FlinkString()))
        return ListOf("Array", self.field(component, path), null_byte=0, component=java_class(component))

    def _actual(self, name: str, type_: FieldType, described: UserClass, bound: Mapping[str, FieldType]) -> FieldType:
        """The type of a described class's field with type variables replaced by what they stand for."""
        owner = self.classes.get(self._declaring_class(name, described))
        if owner is not None and owner is not described:
            type_ = _marked(type_, dict(owner.fields)[name], owner.variables)
        return _bound(type_, described.variables, bound)

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


def _is_class(type_: FieldType) -> bool:
    """Whether a type argument is a class for Java: without arguments of its own, no wildcard, no type variable."""
    return not type_.stands_for and all(map(_is_class, type_.args)) and (type_.array or not type_.args)


def _is_generic_array(type_: FieldType) -> bool:
    """Whether an array's components have type arguments or are of a type variable."""
    return type_.array and not _is_class(type_)


def _bound(type_: FieldType, variables: tuple[str, ...], bound: Mapping[str, FieldType]) -> FieldType:
    """Replace type variables by the types that they stand for; those of which nothing is known by wildcards."""
    if type_.name in variables:
        known = bound.get(type_.name, FieldType(OBJECT, stands_for="?"))
        return known if known.stands_for else replace(known, stands_for=type_.name)
    if not type_.args:
        return type_
    return replace(type_, args=tuple(_bound(argument, variables, bound) for argument in type_.args))


def _marked(type_: FieldType, declared: FieldType, variables: tuple[str, ...]) -> FieldType:
    """Mark what in an inherited field's type stands for a type variable of the superclass that declares the field."""
    if declared.name in variables:
        return replace(type_, stands_for=type_.stands_for or declared.name)
    if declared.name != type_.name or len(declared.args) != len(type_.args):
        return type_
    return replace(type_, args=tuple(_marked(*pair, variables) for pair in zip(type_.args, declared.args, strict=True)))


def java_class(type_: FieldType) -> str:
    """Class.getName() of a type: arrays by Java's codes, such as ``[I`` and ``[Ljava.lang.String;``."""
    if not type_.array:
        return type_.name
    component = type_.args[0]
    if component.name in CODES:
        return f"[{CODES[component.name]}"
    inner = java_class(component)
    return f"[{inner}" if component.array else f"[L{inner};"
