"""Map Java types to Arrow columns, and values of a Kryo graph to values that pyarrow accepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from stateproc.codec.errors import BadValue
from stateproc.codec.kryo.avro import AVRO_TYPES
from stateproc.codec.kryo.library_serializers import FIELD_SERIALIZERS
from stateproc.codec.kryo.messages import MESSAGE_SERIALIZERS, PROTOBUF_SERIALIZERS
from stateproc.codec.kryo.protobuf.message_types import MessageField, MessageType
from stateproc.codec.kryo.reader import readable_serializers
from stateproc.codec.kryo.registered_serializers import REGISTERED_TYPES
from stateproc.codec.kryo.scala import CHILL_BODIES, EITHER, FIELD_BODIES
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.supertypes import MESSAGE_SUPERTYPES
from stateproc.codec.kryo.types import BOXES, FieldType, UserClass, bind, java_name
from stateproc.codec.kryo.values import (
    MAX_NODES,
    Cycle,
    KryoMap,
    KryoMessage,
    KryoObject,
    Moment,
    NumberRange,
    json_text,
    whole_text,
)
from stateproc.codec.kryo.walk_errors import undeclared_message
from stateproc.codec.layouts.collections import NullKey
from stateproc.codec.temporal import Fidelity, refuse_finer
from stateproc.errors import UnsupportedSnapshot
from stateproc.serializers.core.base import Undecodable
from stateproc.serializers.java.temporal import python_date, python_time, python_timestamp

# The columns of dates and times in Kryo values.

_UTC = pa.timestamp("us", "UTC")
_TIMES: dict[str, tuple[str, pa.DataType]] = {
    "java.time.LocalDate": ("date", pa.date32()),
    "java.time.LocalTime": ("time", pa.time64("us")),
    "java.time.LocalDateTime": ("stamp", pa.timestamp("us")),
    "java.time.Instant": ("stamp", _UTC),
    "java.util.Date": ("stamp", _UTC),
    "java.sql.Date": ("stamp", _UTC),
    "java.sql.Time": ("stamp", _UTC),
    "java.sql.Timestamp": ("stamp", _UTC),
}
_FINE = frozenset({"java.time.LocalTime", "java.time.LocalDateTime", "java.time.Instant", "java.sql.Timestamp"})


def time_mode(class_name: str, modes: Fidelity) -> str:
    """Return the mode in which values of a class become a column; only some classes have nanoseconds."""
    return modes.fine if class_name in _FINE else modes.coarse


def time_column(class_name: str, modes: Fidelity) -> tuple[str, pa.DataType] | None:
    """Return the kind and type of the column of a class of dates or times; None for other classes."""
    if class_name not in _TIMES:
        return None
    kind, arrow = _TIMES[class_name]
    mode = time_mode(class_name, modes)
    if mode == "micros":
        return kind, arrow
    return f"{mode} {kind}", pa.string() if mode == "exact" else arrow


# What types of Scala in class descriptions say about the form of their values, which Kryo 2 stores with chill.

_TUPLES = {f"scala.Tuple{n}": n for n in range(1, 23)}
# Superclasses and traits, whose values name their own classes.
_OPEN = frozenset(
    [
        *(f"scala.{name}" for name in ("Option", "Equals", "Product", "Serializable", "Enumeration$Value")),
        EITHER,
        "scala.util.Try",
        "scala.concurrent.duration.Duration",
        "scala.reflect.ClassTag",
    ]
)
_SCALA_TEXT = ("text", pa.string())
SCALA_LEAVES: dict[str, tuple[str, pa.DataType]] = {
    "scala.math.BigDecimal": ("decimal", pa.string()),
    "scala.math.BigInt": ("integer", pa.string()),
    "scala.Symbol": _SCALA_TEXT,
    "scala.util.matching.Regex": _SCALA_TEXT,
    "scala.concurrent.duration.Duration": _SCALA_TEXT,
    "scala.concurrent.duration.FiniteDuration": _SCALA_TEXT,
    "scala.collection.mutable.StringBuilder": _SCALA_TEXT,
    "scala.collection.immutable.WrappedString": _SCALA_TEXT,
}
"""Class → kind and type of the column of its values."""


@dataclass(frozen=True)
class ScalaShape:
    """The form of a generic class's values: 'option', 'list', 'map' or 'struct' of its type arguments.

    ``names``: the names of the arguments in the column; ``class_name``: the class of a struct's values.
    """

    kind: str
    names: tuple[str, ...] = ()
    class_name: str = ""


def is_scala(name: str) -> bool:
    """Whether values of the class are read without a description."""
    return name in _OPEN or name in CHILL_BODIES or name in FIELD_BODIES or name.startswith("scala.collection.")


def scala_shape(type_: FieldType) -> ScalaShape | None:
    """Return the shape of a type of Scala's; None if it does not determine the form of its values."""
    name, n = type_.name, len(type_.args)
    if name in ("scala.Option", "scala.Some") and n == 1:
        return ScalaShape("option")
    if name in _TUPLES and n == _TUPLES[name]:
        return ScalaShape("struct", tuple(f"_{i}" for i in range(1, n + 1)), name)
    if name == EITHER and n == 2:
        return ScalaShape("struct", ("left", "right"), EITHER)
    if name.startswith("scala.collection.") and name.endswith("Map"):
        return ScalaShape("map", ("key", "value")) if n == 2 else None
    return ScalaShape("list") if name.startswith("scala.collection.") and n == 1 else None


CLASS_FIELD = "class"
MAX_COLUMNS = 2000
_DEEPEST = 64


@dataclass(frozen=True)
class KryoColumn:
    """The Arrow representation of a Java type: ``kind`` is a row of KINDS, ``children`` are named columns."""

    kind: str
    type: pa.DataType
    children: tuple[tuple[str, KryoColumn], ...] = ()
    classes: tuple[str, ...] = ()

    def arrow(self, value: Any) -> Any:
        """Convert ``value`` to one that pyarrow accepts. Raises BadValue."""
        if self.kind == "json":
            return json_text(value)
        return None if value is None else KINDS[self.kind].arrow(self, value)

    def python(self, value: Any) -> Any:
        """Convert a result of ``as_py`` to the value that Python users get."""
        if value is None:
            return None
        plain = KINDS[self.kind].python
        return value if plain is None else plain(self, value)


@dataclass(frozen=True)
class Kind:
    """A row of KINDS: the conversion to pyarrow, and from ``as_py`` to Python (None: unchanged)."""

    arrow: Callable[[KryoColumn, Any], Any]
    python: Callable[[KryoColumn, Any], Any] | None = None


class OtherClass(BadValue):
    """Internal: an object of another class than the column has."""

    def __init__(self, expected: tuple[str, ...], found: str) -> None:
        super().__init__(f"a {found} where a {expected[0]} stands")
        self.expected, self.found = expected, found


def _expect(column: KryoColumn, value: Any, *types: type) -> Any:
    if not isinstance(value, types):
        raise BadValue(f"a {_named(value)} where a {column.type} stands")
    return value


def _named(value: Any) -> str:
    if isinstance(value, Cycle):
        return "reference to an enclosing object"
    return value.class_name if isinstance(value, KryoObject | KryoMessage) else type(value).__name__


def _struct(column: KryoColumn, value: Any) -> dict[str, Any]:
    instance = _expect(column, value, KryoObject)
    if instance.class_name not in column.classes:
        raise OtherClass(column.classes, instance.class_name)
    made = {name: child.arrow(instance.fields.get(name)) for name, child in column.children if name in instance.fields}
    if len(column.classes) > 1:
        made[CLASS_FIELD] = instance.class_name
    return made


def _message(column: KryoColumn, value: Any) -> dict[str, Any]:
    if isinstance(value, KryoMessage):
        if value.class_name not in column.classes:
            raise OtherClass(column.classes, value.class_name)
        value = value.fields
    fields = _expect(column, value, dict)
    return {name: child.arrow(fields.get(name)) for name, child in column.children}


def _bytes(column: KryoColumn, value: Any) -> Any:
    return value.data if isinstance(value, KryoMessage) else _expect(column, value, bytes)


def _map(column: KryoColumn, value: Any) -> list[tuple[Any, Any]]:
    (_, key), (_, item) = column.children
    pairs = [(key.arrow(k), item.arrow(v)) for k, v in _expect(column, value, KryoMap).pairs]
    if any(k is None for k, _ in pairs):
        raise NullKey("a map has a null key, which neither Arrow nor Spark can hold", "leave the column out (columns)")
    return pairs


def _list(column: KryoColumn, value: Any) -> list[Any]:
    item = column.children[0][1]
    if isinstance(value, NumberRange):
        value = _numbers(value)
    return [item.arrow(element) for element in _expect(column, value, list)]


def _numbers(value: NumberRange) -> list[Any]:
    """List the elements of a range. Raises UnsupportedSnapshot."""
    if value.numbers is None or len(value.numbers) > MAX_NODES:
        raise UnsupportedSnapshot(
            f"the elements of the {value} cannot be listed: they are too many, or no int or long",
            advice='describe the field as "Object": then it is JSON text with the bounds of the range',
        )
    return list(value.numbers)


def _micros(column: KryoColumn, value: Any) -> Any:
    return _expect(column, value, Moment).micros


def _whole(column: KryoColumn, value: Any) -> Any:
    moment = _expect(column, value, Moment)
    refuse_finer(moment.nanos)
    return moment.micros


def _number(column: KryoColumn, value: Any) -> Any:
    return _expect(column, value, bool, int, float)


def _text(column: KryoColumn, value: Any, strict: bool = False) -> str:
    if isinstance(value, Cycle | KryoMap | KryoObject | list | bytes):
        _expect(column, value, str)
    return whole_text(str(value), strict)


def _python_struct(column: KryoColumn, value: Any) -> dict[str, Any]:
    fields = {name: child.python(value[name]) for name, child in column.children}
    return fields | {CLASS_FIELD: value[CLASS_FIELD]} if len(column.classes) > 1 else fields


def _python_map(column: KryoColumn, value: Any) -> list[tuple[Any, Any]]:
    (_, key), (_, item) = column.children
    return [(key.python(k), item.python(v)) for k, v in value]


def _registered(column: KryoColumn, value: Any) -> Any:
    try:
        pa.scalar(value, column.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadValue(f"{value!r:.100} where a {column.type} is registered: {error}") from error
    return value


KINDS: dict[str, Kind] = {
    "own": Kind(_registered),
    "json": Kind(lambda c, v: v, lambda c, v: json.loads(v)),
    "number": Kind(_number),
    "text": Kind(_text),
    "strict text": Kind(partial(_text, strict=True)),
    "integer": Kind(_text, lambda c, v: int(v)),
    "decimal": Kind(_text, lambda c, v: Decimal(v)),
    "binary": Kind(_bytes),
    "date": Kind(_micros, lambda c, v: python_date(v)),
    "time": Kind(_micros, lambda c, v: python_time(v)),
    "stamp": Kind(_micros, lambda c, v: python_timestamp(v)),
    "whole date": Kind(_micros, lambda c, v: python_date(v)),
    "whole time": Kind(_whole, lambda c, v: python_time(v)),
    "whole stamp": Kind(_whole, lambda c, v: python_timestamp(v)),
    "exact date": Kind(_text, lambda c, v: python_date(v)),
    "exact time": Kind(_text, lambda c, v: python_time(v)),
    "exact stamp": Kind(_text, lambda c, v: python_timestamp(v)),
    "list": Kind(_list, lambda c, v: [c.children[0][1].python(item) for item in v]),
    "map": Kind(_map, _python_map),
    "struct": Kind(_struct, _python_struct),
    "message": Kind(_message, _python_struct),
    "json or null": Kind(lambda c, v: json_text(v), lambda c, v: json.loads(v)),
}

JSON = KryoColumn("json", pa.string())
_JSON_OR_NULL = KryoColumn("json or null", pa.string())
_BINARY = KryoColumn("binary", pa.binary())
_TEXT = KryoColumn("text", pa.string())
_STRICT_TEXT = KryoColumn("strict text", pa.string())
_NUMBERS = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
_MESSAGE_FIELDS = {
    "double": KryoColumn("number", pa.float64()),
    "float": KryoColumn("number", pa.float32()),
    "int64": KryoColumn("number", pa.int64()),
    "uint64": KryoColumn("number", pa.uint64()),
    "int32": KryoColumn("number", pa.int32()),
    "uint32": KryoColumn("number", pa.uint32()),
    "bool": KryoColumn("number", pa.bool_()),
    "string": _TEXT,
    "bytes": _BINARY,
    "enum": _TEXT,
}
"""Kind of a field of a Protobuf message → column."""
_PLAIN: dict[str, KryoColumn] = {
    **{name: KryoColumn("number", type_) for name, type_ in _NUMBERS.items()},
    **{box: KryoColumn("number", _NUMBERS[name]) for box, name in BOXES.items() if name != "char"},
    "char": _TEXT,
    **dict.fromkeys((f"java.nio.{name}" for name in ("ByteBuffer", "HeapByteBuffer", "HeapByteBufferR")), _BINARY),
    "java.lang.Character": _TEXT,
    "java.math.BigInteger": KryoColumn("integer", pa.string()),
    "java.math.BigDecimal": KryoColumn("decimal", pa.string()),
    "java.util.BitSet": KryoColumn("list", pa.list_(pa.int32()), (("item", KryoColumn("number", pa.int32())),)),
    "java.util.concurrent.atomic.AtomicBoolean": KryoColumn("number", pa.bool_()),
    "java.util.concurrent.atomic.AtomicInteger": KryoColumn("number", pa.int32()),
    "java.util.concurrent.atomic.AtomicLong": KryoColumn("number", pa.int64()),
    **dict.fromkeys(
        (
            "java.lang.String",
            "org.apache.avro.util.Utf8",
            "java.lang.StringBuilder",
            "java.lang.StringBuffer",
            "java.lang.Class",
            "java.net.URI",
            "java.net.URL",
            "java.net.InetSocketAddress",
            "java.util.Currency",
            "java.util.Locale",
            "java.util.UUID",
            "java.util.regex.Pattern",
            "java.time.Duration",
            "java.time.MonthDay",
            "java.time.OffsetDateTime",
            "java.time.OffsetTime",
            "java.time.Period",
            "java.time.Year",
            "java.time.YearMonth",
            "java.time.ZoneId",
            "java.time.ZoneOffset",
            "java.time.ZoneRegion",
            "java.time.ZonedDateTime",
        ),
        _TEXT,
    ),
}
_MAPS = ("Map", "HashMap", "LinkedHashMap", "TreeMap", "SortedMap", "NavigableMap", "EnumMap", "Hashtable")
_LISTS = (
    "Collection",
    "List",
    "ArrayList",
    "LinkedList",
    "Vector",
    "Queue",
    "Deque",
    "ArrayDeque",
    "PriorityQueue",
    "Set",
    "HashSet",
    "LinkedHashSet",
    "TreeSet",
    "SortedSet",
    "NavigableSet",
)


def column_of(type_: FieldType, setting: KryoSetting, modes: Fidelity) -> KryoColumn:
    """Return the column of a Java type; JSON text if the type does not determine the form of its values."""
    return _Columns(setting, modes).of(type_, ())


class _Columns:
    def __init__(self, setting: KryoSetting, modes: Fidelity) -> None:
        self.setting = setting
        self.classes = setting.classes
        # Descriptions of Scala's classes mean that they are written by their fields: their values are objects.
        self.scala = setting.version < 5 and not any(name.startswith("scala.") for name in setting.classes)
        self.modes = modes
        self.made = 0

    def of(self, type_: FieldType, inside: tuple[str, ...]) -> KryoColumn:
        """Return the column of a type. ``inside``: enclosing classes; one that contains itself becomes JSON."""
        self.made += 1
        name = type_.name
        if (own := self._own(java_name(type_), inside)) is not None:
            return own
        if name in _PLAIN:
            return _STRICT_TEXT if self.modes.strict and _PLAIN[name] is _TEXT else _PLAIN[name]
        if name in AVRO_TYPES:
            return JSON
        if (time := time_column(name, self.modes)) is not None:
            return KryoColumn(*time)
        if type_.array:
            if type_.args[0].name == "byte":
                return _BINARY
            return self._list(type_.args[0], inside)
        if name == "java.util.Optional" and type_.args:
            return self.of(type_.args[0], inside)
        if name in self.classes:
            return self._described(self.classes[name], type_.args, inside)
        if self.scala and name in SCALA_LEAVES:
            return KryoColumn(*SCALA_LEAVES[name])
        shape = scala_shape(type_) if self.scala and self.made < MAX_COLUMNS else None
        if shape is not None:
            return self._scala(shape, type_.args, inside)
        package, _, simple = name.rpartition(".")
        if package == "java.util" and type_.args and self.made < MAX_COLUMNS:
            if simple in _LISTS:
                return self._list(type_.args[0], inside)
            if simple in _MAPS and len(type_.args) == 2:
                key, item = (self.of(arg, inside) for arg in type_.args)
                return KryoColumn("map", pa.map_(key.type, item.type), (("key", key), ("value", item)))
        return JSON

    def _scala(self, shape: ScalaShape, args: tuple[FieldType, ...], inside: tuple[str, ...]) -> KryoColumn:
        if shape.kind == "option":
            return self.of(args[0], inside)
        if shape.kind == "list":
            return self._list(args[0], inside)
        parts = tuple((name, self.of(arg, inside)) for name, arg in zip(shape.names, args, strict=True))
        if shape.kind == "map":
            return KryoColumn("map", pa.map_(parts[0][1].type, parts[1][1].type), parts)
        return KryoColumn("struct", pa.struct([(name, part.type) for name, part in parts]), parts, (shape.class_name,))

    def _own(self, name: str, inside: tuple[str, ...]) -> KryoColumn | None:
        """Return the column of what a serializer of the job's writes; None if it is as Kryo's own choice."""
        if not self.setting.serializer_of(name).own:
            return None
        readers = readable_serializers(name, self.setting)
        if readers and all(reader in MESSAGE_SERIALIZERS for reader in readers):
            if self.setting.messages and name in MESSAGE_SUPERTYPES:
                # Every value names its class.
                return JSON
            known = self.setting.messages.get(name)
            if known is not None:
                return self._message(known, inside, name)
            certain = self.setting.serializer_of(name).certain
            if self.setting.messages and certain is not None and certain.name in PROTOBUF_SERIALIZERS:
                message, advice = undeclared_message(name, self.setting.message_set)
                raise Undecodable(message, advice=advice)
            return _BINARY
        if len(readers) == 1 and (registered := REGISTERED_TYPES.get(readers[0])) is not None:
            return KryoColumn("own", registered)
        return None if "" in readers or any(reader in FIELD_SERIALIZERS for reader in readers) else JSON

    def _message(self, type_: MessageType, inside: tuple[str, ...], class_name: str = "") -> KryoColumn:
        """Return the column of a Protobuf message; inside of itself it is JSON text."""
        name = f"message {type_.full_name}"
        if name in inside or self.made > MAX_COLUMNS or len(inside) > _DEEPEST:
            return _JSON_OR_NULL
        inside = (*inside, name)
        children = tuple((field.name, self._message_field(field, inside)) for field in type_.fields)
        arrow = pa.struct([(name, column.type) for name, column in children])
        return KryoColumn("message", arrow, children, (class_name,))

    def _message_field(self, field: MessageField, inside: tuple[str, ...]) -> KryoColumn:
        self.made += 1
        if field.kind == "map" and field.message is not None:
            parts = {part.name: self._message_field(part, inside) for part in field.message.fields}
            key, value = parts["key"], parts["value"]
            return KryoColumn("map", pa.map_(key.type, value.type), (("key", key), ("value", value)))
        one = self._message(field.message, inside) if field.message is not None else _MESSAGE_FIELDS[field.kind]
        return KryoColumn("list", pa.list_(one.type), (("item", one),)) if field.repeated else one

    def _list(self, element: FieldType, inside: tuple[str, ...]) -> KryoColumn:
        item = self.of(element, inside)
        return KryoColumn("list", pa.list_(item.type), (("item", item),))

    def _described(self, described: UserClass, args: tuple[FieldType, ...], inside: tuple[str, ...]) -> KryoColumn:
        if described.is_enum:
            return _TEXT
        if described.like is not None:
            return self._like(described, args, inside)
        family = tuple(self._family(described))
        if len(family) == 1 and not family[0].fields and described.form is None and not described.final:
            # An interface or an abstract class: its values are of other classes.
            return JSON
        if any(member.name in inside for member in family) or self.made > MAX_COLUMNS or len(inside) > _DEEPEST:
            return JSON
        inside += tuple(member.name for member in family)
        bound = dict(zip(described.variables, args, strict=False))
        children: dict[str, KryoColumn] = {}
        for member in family:
            for name, type_ in member.fields:
                column = self.of(bind(type_, described.variables, bound), inside)
                if children.setdefault(name, column) != column:
                    return JSON
        if len(family) > 1 and CLASS_FIELD in children:
            return JSON
        fields = [pa.field(name, column.type) for name, column in children.items()]
        if len(family) > 1:
            fields.insert(0, pa.field(CLASS_FIELD, pa.string()))
        names = tuple(member.name for member in family)
        return KryoColumn("struct", pa.struct(fields), tuple(children.items()), names)

    def _like(self, described: UserClass, args: tuple[FieldType, ...], inside: tuple[str, ...]) -> KryoColumn:
        """Return the column of a class that is a Map or a Collection: that of the type it extends or implements."""
        if described.name in inside or described.like is None or described.like.name in self.classes:
            return JSON
        bound = dict(zip(described.variables, args, strict=False))
        return self.of(bind(described.like, described.variables, bound), (*inside, described.name))

    def _family(self, described: UserClass) -> list[UserClass]:
        """Return the described classes that values can have.

        Those that an interface's description names; otherwise the class itself and what can be its subclasses: they say
        so, or have all its fields and more.
        """
        if described.alternatives:
            return [self.classes[name] for name in described.alternatives]
        if described.final:
            return [described]
        own = set(described.fields)
        others = [
            other
            for other in self.classes.values()
            if other.like is None and ((own and own < set(other.fields)) or self._extends(other, described))
        ]
        if others and not described.fields and described.form is None:
            return others
        return [described, *others]

    def _extends(self, other: UserClass, above: UserClass) -> bool:
        seen: set[str] = set()
        parent = other.parent
        while parent is not None and parent not in seen and parent != above.name:
            seen.add(parent)
            parent = self.classes[parent].parent if parent in self.classes else None
        return parent == above.name
