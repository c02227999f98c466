"""Types of fields and descriptions of user classes, which the bytes of FieldSerializer do not contain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

PRIMITIVES = ("boolean", "byte", "char", "short", "int", "long", "float", "double")
STRING = "java.lang.String"
OBJECT = "java.lang.Object"
BOXES = {
    "java.lang.Boolean": "boolean",
    "java.lang.Byte": "byte",
    "java.lang.Character": "char",
    "java.lang.Short": "short",
    "java.lang.Integer": "int",
    "java.lang.Long": "long",
    "java.lang.Float": "float",
    "java.lang.Double": "double",
}
BOX_OF = {primitive: box for box, primitive in BOXES.items()}

_FINAL_TIMES = (
    "Duration",
    "Instant",
    "LocalDate",
    "LocalDateTime",
    "LocalTime",
    "MonthDay",
    "OffsetDateTime",
    "OffsetTime",
    "Period",
    "Year",
    "YearMonth",
    "ZoneOffset",
    "ZonedDateTime",
)
FINAL_CLASSES = frozenset(
    [
        STRING,
        *BOXES,
        *(f"java.time.{name}" for name in _FINAL_TIMES),
        "java.lang.Class",
        "java.lang.StringBuffer",
        "java.lang.StringBuilder",
        "java.net.URI",
        "java.net.URL",
        "java.util.Currency",
        "java.util.Locale",
        "java.util.Optional",
        "java.util.UUID",
        "java.util.regex.Pattern",
    ]
)

FINAL_IN_SCALA = frozenset(
    [
        *(f"scala.{name}" for name in ("Some", "None$", "Symbol", "math.BigDecimal", "math.BigInt")),
        *(f"scala.Tuple{n}" for n in range(3, 23)),
        *(f"scala.util.{name}" for name in ("Left", "Right", "Success", "Failure")),
        *(f"scala.collection.immutable.{name}" for name in ("$colon$colon", "Nil$", "Vector", "TreeMap", "TreeSet")),
        "scala.collection.immutable.Range$Inclusive",
        *(f"scala.collection.mutable.{name}" for name in ("ListBuffer", "StringBuilder", "LongMap", "AnyRefMap")),
        "scala.collection.concurrent.TrieMap",
        "scala.runtime.BoxedUnit",
        "scala.concurrent.duration.FiniteDuration",
    ]
)
"""Final classes of Scala 2.11 and 2.12, the releases that Flink 1.x supports."""


@dataclass(frozen=True)
class FieldType:
    """A Java type: a primitive, a class with type arguments, an array ("[]" of one), a type variable.

    ``final``: whether the class is final; None if the user did not say. ``stands_for``: where the class writes a
    wildcard ("?") or a type variable (its name) and this type is what it stands for; else "".
    """

    name: str
    args: tuple[FieldType, ...] = ()
    final: bool | None = None
    stands_for: str = field(default="", compare=False)

    @property
    def primitive(self) -> bool:
        return self.name in PRIMITIVES

    @property
    def array(self) -> bool:
        return self.name == "[]"

    def __str__(self) -> str:
        if self.array:
            return f"{self.args[0]}[]"
        return f"{self.name}<{', '.join(map(str, self.args))}>" if self.args else self.name


CLASS, RECORD = "class", "record"
"""Forms of classes with fields, see UserClass."""


@dataclass(frozen=True)
class UserClass:
    """A user class: its fields, inherited ones too, or its enum constants in declared order.

    ``variables``: names of its type variables. ``final``: whether no class can extend it, which Kryo's format
    depends on; None if the user did not say (then the bytes are tried both ways). ``parent``: the superclass, if given.
    ``interfaces``: all that it implements, inherited ones too; None if the description does not say.
    ``generic``: whether Flink leaves the class to Kryo although it has fields, because it is no POJO.
    ``form``: what a class with fields is, CLASS (neither Map nor Collection nor record) or RECORD; None if the user did
    not say. ``like``: of a class that is a Map or Collection the type that it extends or implements.
    ``alternatives``: of an interface the classes of its values.
    """

    name: str
    fields: tuple[tuple[str, FieldType], ...] = ()
    constants: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    final: bool | None = None
    parent: str | None = None
    interfaces: tuple[str, ...] | None = None
    generic: bool = False
    form: str | None = None
    like: FieldType | None = None
    alternatives: tuple[str, ...] = ()

    @property
    def is_enum(self) -> bool:
        return bool(self.constants)


_SYNTHETIC = re.compile(r"this\$\d+|val\$\w+|\$outer")


def is_synthetic(name: str) -> bool:
    """Whether a field is one that compilers add: the enclosing object, captured variables.

    Kryo writes them where flink-scala is on the job's class path: com.twitter.chill.KryoBase.
    """
    return _SYNTHETIC.fullmatch(name) is not None


def is_outer(name: str) -> bool:
    """Whether a field is the enclosing object of an inner class."""
    return is_synthetic(name) and not name.startswith("val$")


def bound_variables(described: UserClass, args: tuple[FieldType, ...]) -> dict[str, FieldType]:
    """Type variable of a class → what it stands for, without arguments: of a List<Long> Kryo knows the List."""
    return dict(zip(described.variables, map(without_arguments, args), strict=False))


def bind(type_: FieldType, variables: tuple[str, ...], bound: Mapping[str, FieldType]) -> FieldType:
    """``type_`` with type variables replaced by what they stand for, java.lang.Object if that is unknown."""
    if type_.name in variables:
        return bound.get(type_.name, FieldType(OBJECT))
    return replace(type_, args=tuple(bind(arg, variables, bound) for arg in type_.args)) if type_.args else type_


def without_arguments(type_: FieldType) -> FieldType:
    """The erased type; an array keeps its component."""
    if type_.array:
        return replace(type_, args=(without_arguments(type_.args[0]),))
    return replace(type_, args=()) if type_.args else type_


def java_order(name: str) -> bytes:
    """Sort key of String.compareTo, by which Kryo orders the fields of a class."""
    return name.encode("utf-16-be", "surrogatepass")


@lru_cache(maxsize=1024)
def in_java_order(fields: tuple[tuple[str, FieldType], ...]) -> tuple[tuple[str, FieldType], ...]:
    """The fields in the order of their names."""
    return tuple(sorted(fields, key=lambda field: java_order(field[0])))


@lru_cache(maxsize=1024)
def class_of_name(name: str) -> FieldType:
    """The type of Class.getName(), such as ``[I``, ``[Ljava.lang.String;`` or a class name."""
    if not name.startswith("["):
        return FieldType(name)
    component = name[1:]
    if component in _ARRAY_CODES:
        return FieldType("[]", (FieldType(_ARRAY_CODES[component]),))
    if component.startswith("L") and component.endswith(";"):
        return FieldType("[]", (FieldType(component[1:-1]),))
    return FieldType("[]", (class_of_name(component),))


_ARRAY_CODES = {
    "Z": "boolean",
    "B": "byte",
    "C": "char",
    "S": "short",
    "I": "int",
    "J": "long",
    "F": "float",
    "D": "double",
}
ARRAY_CODE_OF = {primitive: code for code, primitive in _ARRAY_CODES.items()}
"""Primitive → its code in the names of arrays."""


def java_name(type_: FieldType) -> str:
    """The name of a class as Class.getName() returns it."""
    return f"[{_component_name(type_.args[0])}" if type_.array else type_.name


def _component_name(type_: FieldType) -> str:
    if type_.array:
        return java_name(type_)
    return ARRAY_CODE_OF.get(type_.name) or f"L{type_.name};"
