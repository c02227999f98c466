"""Write the objects of a value of Kryo 2 (Flink 1.x) as Kryo 5 (Flink 2.x) writes them.

The bytes are those that Flink 2.x itself writes for equal objects, so that keys of maps are found. The form of each
body is that of the serializer that Kryo 5 chooses for the class (com.esotericsoftware.kryo.Kryo, its
DefaultSerializers, TimeSerializers, CollectionSerializer, MapSerializer, FieldSerializer); numbers of fixed length are
little-endian.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, TypeAlias

from stateproc.codec.kryo import collections, scalars, times
from stateproc.codec.kryo.classes import BY_NAME, ID_BIAS, PRIMITIVE_IDS, REGISTRAR_BASE, REGISTRAR_IDS, USER_BASE
from stateproc.codec.kryo.library_serializers import FIELD_SERIALIZERS
from stateproc.codec.kryo.messages import MESSAGE_SERIALIZERS
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.recorded_graph import CONSTANT, FIELDS, JAVA_STREAM, How, Node, RecordedValue
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.types import (
    BOXES,
    RECORD,
    FieldType,
    bind,
    bound_variables,
    in_java_order,
    is_synthetic,
    java_name,
    without_arguments,
)
from stateproc.codec.kryo.walker import Body
from stateproc.errors import UnsupportedSnapshot
from stateproc.wire import Cursor, Output
from stateproc.wire.java_stream import JavaObject

_NULL, _NOT_NULL, _FIRST_BACK_REFERENCE = 0, 1, 2
_FLAG, _MORE, _SIX_BITS = 0x80, 0x40, 0x3F
_LONGEST_ASCII = 32
_WORD = 8
_QUARTER = 900
_SECONDS_FOLLOW = 127
_REVERSED = ("char", "short", "float", "double")
_MASK = 0xFFFFFFFF
_COPIED_SERIALIZERS = frozenset(MESSAGE_SERIALIZERS)


class Unconvertible(UnsupportedSnapshot):
    """An object that Kryo 5 has no certain bytes for; ``class_name``: its class."""

    class_name = ""


def _refuse(class_name: str, why: str, advice: str) -> NoReturn:
    error = Unconvertible(f"Kryo 5 (Flink 2.x) has no certain bytes for the class {class_name!r}: {why}", advice=advice)
    error.class_name = class_name
    raise error


_NO_FORM = "give the state another type (transform_state with value_type=…), or leave it out (drop_state)"

WriteBody: TypeAlias = "Callable[[Kryo5Output, Node, tuple[FieldType, ...]], None]"
"""Writes the body of an object; its type arguments as Kryo 5 knows them."""


class Kryo5Output:
    """Writes one value: com.esotericsoftware.kryo.io.Output, and the objects and names of classes written so far."""

    def __init__(self, value: RecordedValue, registrations: tuple[str, ...]) -> None:
        self.out = Output()
        self._value = value
        self._ids = _ids(registrations)
        self._names: dict[str, int] = {}
        self._objects: dict[int, int] = {}
        self.bound: dict[str, dict[str, FieldType]] = {}

    # --- objects ------------------------------------------------------------------------------------------
    def by_class(self, node: Node, args: tuple[FieldType, ...] = ()) -> None:
        """Kryo.writeClassAndObject."""
        if node.type is None or node.null:
            self.out.u8(_NULL)
            return
        self.write_class(node.type)
        self.known(node, False, args)

    def known(self, node: Node, nullable: bool, args: tuple[FieldType, ...] = ()) -> None:
        """Kryo.writeObject, or writeObjectOrNull."""
        if node.null or node.type is None:
            self.out.u8(_NULL)
            return
        found = node.resolved
        if found.type is not None and (found.type.name in BOXES or found.body is CONSTANT):
            if nullable:
                self.out.u8(_NOT_NULL)
            self.body(found, args)
            return
        before = self._objects.get(id(found))
        if before is not None:
            self.out.varint(before + _FIRST_BACK_REFERENCE)
            return
        self._objects[id(found)] = len(self._objects)
        self.out.u8(_NOT_NULL)
        self.body(found, args)

    def element(self, node: Node, element: FieldType | None, nullable: bool) -> None:
        """An element of a declared type: without its class if Kryo knows it."""
        if element is not None and self.final(element):
            self.known(node, nullable, element.args)
        else:
            self.by_class(node, () if element is None else element.args)

    def declared(self, node: Node, type_: FieldType) -> None:
        """A field or an element of an array."""
        if type_.primitive:
            data = node.bytes
            self.out.raw(data[::-1] if type_.name in _REVERSED else data)
        elif node.how is How.KNOWN:
            self.known(node, True, type_.args)
        else:
            self.by_class(node, type_.args)

    def final(self, type_: FieldType) -> bool:
        found = self._value.is_final(type_)
        if found is None:
            _refuse(
                type_.name,
                "it is the declared class of elements, and nothing says whether it is final",
                f'say it in its description: "final {type_.name}" or "open {type_.name}"',
            )
        return found

    # --- classes ------------------------------------------------------------------------------------------
    def write_class(self, type_: FieldType | None) -> None:
        """Kryo.writeClass."""
        if type_ is None:
            self.out.u8(_NULL)
            return
        name = java_name(type_)
        number = self._ids.get(name)
        if number is not None:
            self.out.varint(number + ID_BIAS)
            return
        self.out.varint(BY_NAME)
        number = self._names.get(name)
        if number is not None:
            self.out.varint(number)
            return
        self.out.varint(len(self._names))
        self._names[name] = len(self._names)
        self.ascii(name) if name.isascii() else self.string(name)

    # --- text and numbers ---------------------------------------------------------------------------------
    def string(self, text: str | None) -> None:
        """Output.writeString."""
        if text is None:
            self.out.u8(_FLAG)
            return
        if 1 < len(text) <= _LONGEST_ASCII and text.isascii():
            self.ascii(text)
            return
        units = text.encode("utf-16-be", "surrogatepass")
        self.flagged(True, len(units) // 2 + 1)
        for at in range(0, len(units), 2):
            unit = units[at] << 8 | units[at + 1]
            if unit < 0x80:
                self.out.u8(unit)
            elif unit < 0x800:
                self.out.raw(bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F)))
            else:
                self.out.raw(bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F)))

    def ascii(self, text: str) -> None:
        """Output.writeAscii: the last character has a mark; text of one character or none has its length in front."""
        if len(text) < 2:
            self.out.u8(_FLAG | len(text) + 1)
            self.out.raw(text.encode())
            return
        data = text.encode("ascii")
        self.out.raw(data[:-1])
        self.out.u8(data[-1] | _FLAG)

    def flagged(self, flag: bool, value: int) -> None:
        """Output.writeVarIntFlag."""
        first = value & _SIX_BITS | (_FLAG if flag else 0)
        if value >> 6:
            self.out.u8(first | _MORE)
            self.out.varint(value >> 6)
        else:
            self.out.u8(first)

    def varint(self, value: int) -> None:
        """Output.writeVarInt of an int that is mostly positive."""
        self.out.varint(value & _MASK)

    def varlong(self, value: int) -> None:
        """Output.writeVarLong of a long that is mostly positive: nine bytes at most."""
        value &= (1 << 64) - 1
        for _ in range(_WORD):
            if value < _FLAG:
                break
            self.out.u8(value & 0x7F | _FLAG)
            value >>= 7
        self.out.u8(value)

    def fixed(self, value: int, size: int) -> None:
        self.out.raw(value.to_bytes(size, "little", signed=True))

    # --- bodies -------------------------------------------------------------------------------------------
    def body(self, node: Node, args: tuple[FieldType, ...]) -> None:
        """The body of an object. Raises Unconvertible."""
        assert node.type is not None
        name = java_name(node.type)
        if node.own is not None and node.own not in FIELD_SERIALIZERS:
            if node.own not in _COPIED_SERIALIZERS:
                _refuse(name, f"the job's serializer {node.own} writes it", _NO_FORM)
            self.out.raw(node.bytes)
            return
        if node.own is not None and not node.own.endswith(".FieldSerializer"):
            _refuse(name, f"the job's serializer {node.own} writes it", _NO_FORM)
        if node.body is None:
            if node.start != node.stop:
                _refuse(name, "its form is not known", _NO_FORM)
            return
        write = _WRITERS.get(node.body)
        if write is None:
            why = "Flink 2.x registers nothing for Scala's classes" if name.startswith("scala.") else "it is read only"
            _refuse(name, why, _NO_FORM)
        write(self, node, args)


def _ids(registrations: tuple[str, ...]) -> dict[str, int]:
    """Class → id as Flink 2.x gives it; the last one of a class that is registered twice."""
    found: dict[str, int] = {}
    for base, names in ((0, PRIMITIVE_IDS), (REGISTRAR_BASE, REGISTRAR_IDS), (USER_BASE, registrations)):
        for number, name in enumerate(names, base):
            found[name] = number
    return found


def _input(node: Node) -> KryoInput:
    """The bytes of a body, to be read as Kryo 2 wrote them."""
    return KryoInput(Cursor(node.bytes), 2)


def _copy(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    w.out.raw(node.bytes)


def _box(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    assert node.type is not None
    w.out.raw(node.bytes[::-1] if BOXES[node.type.name] in _REVERSED else node.bytes)


def _string(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    w.string(_input(node).string())


def _pattern(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    _string(w, node, args)
    w.varint(0)


def _address(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    data = _input(node)
    w.string(data.string())
    w.varint(data.varint())


def _uuid(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    data = _input(node)
    for _ in range(2):
        w.fixed(data.zigzag_long(), _WORD)


def _locale(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    parts = ("language", "country", "variant")
    found = [str(node.java.fields.get(part) or "") if isinstance(node.java, JavaObject) else "" for part in parts]
    w.ascii(found[0])
    w.ascii(found[1])
    w.string(found[2])


def _class(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    (named,) = node.children
    w.write_class(named.type)
    if named.type is not None and named.type.name in BOXES:
        w.out.raw(node.bytes[-1:])


def _optional(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    (held,) = node.children
    w.by_class(held)


def _atomic_boolean(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    w.out.boolean(_input(node).zigzag() != 0)


def _objects(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    """Objects after their classes, and nothing between them."""
    for child in node.children:
        w.by_class(child)


def _bit_set(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    """The words up to the last one that is not 0; Kryo 2 has those up to the BitSet's size."""
    data = _input(node)
    words = [data.fixed("long") for _ in range(data.varint())]
    while words and not words[-1]:
        words.pop()
    w.varint(len(words))
    for word in words:
        w.fixed(word, _WORD)


# --- dates and times --------------------------------------------------------------------------------------


def _millis_of_second(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    data = _input(node)
    millis, nanos = data.varlong(), data.varint()
    w.varlong(millis // 1000 * 1000)
    w.varint(nanos)


def _local_date(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    data = _input(node)
    day, month, year = data.fixed("short"), data.fixed("short"), data.zigzag()
    w.varint(year)
    w.out.raw(bytes((month, day)))


def _local_time(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    """Hour, minute, second, varint nanoseconds; what is 0 to the end is left out, and the last byte inverted."""
    data = _input(node)
    hour, minute, nano, second = data.cursor.i8(), data.cursor.i8(), data.zigzag(), data.cursor.i8()
    parts = [hour, minute, second]
    if nano:
        w.out.raw(bytes(parts))
        w.varint(nano)
        return
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    w.out.raw(bytes((*parts[:-1], ~parts[-1] & 0xFF)))


def _parts_of_time(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    """A date and a time, a time and an offset: bodies one after another."""
    for child in node.children:
        part = child.resolved
        w.body(part, ())


def _offset_time(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    offset, time = node.children
    w.body(time.resolved, ())
    w.body(offset.resolved, ())


def _zoned(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    local, _, zone = node.children
    w.body(local.resolved, ())
    w.string(_zone_id(zone.resolved))


def _zone_id(zone: Node) -> str | None:
    if zone.children:  # a ZoneRegion: its id
        return _input(zone.children[0].resolved).string()
    return times.offset_text(_input(zone).zigzag())


def _zone_offset(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    quarters, rest = divmod(seconds := _input(node).zigzag(), _QUARTER)
    if rest:
        w.out.u8(_SECONDS_FOLLOW)
        w.fixed(seconds, 4)
    else:
        w.out.u8(quarters & 0xFF)


def _instant(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    data = _input(node)
    nanos = data.zigzag()
    w.varlong(data.zigzag_long())
    w.varint(nanos)


def _duration(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    data = _input(node)
    nanos = data.zigzag()
    w.fixed(data.zigzag_long(), _WORD)
    w.varint(nanos)


def _year_month(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    data = _input(node)
    month = data.zigzag()
    w.varint(data.zigzag())
    w.out.u8(month)


def _month_day(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    data = _input(node)
    day = data.zigzag()
    w.out.raw(bytes((data.zigzag(), day)))


def _period(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    """Years, months, days; Kryo 2 has the fields by their names: days, months, years."""
    data = _input(node)
    for part in [data.zigzag() for _ in range(3)][::-1]:
        w.varint(part)


# --- collections, maps, arrays, fields --------------------------------------------------------------------


def _collection(
    w: Kryo5Output,
    elements: list[Node],
    args: tuple[FieldType, ...],
    *,
    nullable: bool = True,
    header: Callable[[], None] | None = None,
) -> None:
    """varint n + 1 with a flag, [comparator], elements; the flag: there are nulls, or all have one class."""
    element = args[0] if args else None
    n = len(elements)
    nulls = any(child.null or child.type is None for child in elements)
    known = bool(n) and element is not None and w.final(element)
    classes = {java_name(child.type) for child in elements if child.type is not None and not child.null}
    alike = bool(n) and not known and len(classes) < 2
    if known and not nullable:
        w.varint(n + 1)
    else:
        w.flagged(nulls if known else alike, n + 1)
    if header is not None:
        header()
    if known and element is not None:
        for child in elements:
            w.known(child, nulls, element.args)
        return
    inner = () if element is None else element.args
    if not alike:
        for child in elements:
            w.by_class(child, inner)
        return
    if not classes:
        w.out.u8(_NULL)
        return
    w.write_class(next(child.type for child in elements if child.type is not None and not child.null))
    if nullable:
        w.out.boolean(nulls)
    for child in elements:
        w.known(child, nulls and nullable, inner)


def _immutable_collection(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    _collection(w, node.children, args, nullable=False)


def _split_comparator(node: Node) -> tuple[list[Node], list[Node]]:
    """The comparator (its class and, unless it is null, the object) and the other objects."""
    at = 1 if node.children[0].type is None else 2
    return node.children[:at], node.children[at:]


def _comparator(w: Kryo5Output, nodes: list[Node]) -> None:
    w.write_class(nodes[0].type)
    for child in nodes[1:]:
        w.known(child, False)


def _sorted_collection(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    comparator, elements = _split_comparator(node)
    _collection(w, elements, args, header=lambda: _comparator(w, comparator))


def _queue(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    """A queue that Kryo 2 wrote without its comparator."""
    _collection(w, node.children, args, header=lambda: w.write_class(None))


def _as_list(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    """Arrays.asList; Kryo 2 has the component's class in front."""
    _collection(w, node.children[1:], args)


def _map(w: Kryo5Output, entries: list[Node], args: tuple[FieldType, ...], *, nullable: bool = True) -> None:
    key, value = args if len(args) == 2 else (None, None)
    for at in range(0, len(entries), 2):
        # The arguments of the arguments are those of the value's type only.
        if key is not None and w.final(key):
            w.known(entries[at], nullable, key.args)
        else:
            w.by_class(entries[at])
        w.element(entries[at + 1], value, nullable)


def _plain_map(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    w.varint(len(node.children) // 2 + 1)
    _map(w, node.children, args)


def _immutable_map(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    w.varint(len(node.children) // 2 + 1)
    _map(w, node.children, args, nullable=False)


def _sorted_map(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    comparator, entries = _split_comparator(node)
    w.varint(len(entries) // 2 + 1)
    _comparator(w, comparator)
    _map(w, entries, args)


def _skip_list_map(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    """A ConcurrentSkipListMap, of which Kryo 2 writes no comparator."""
    w.varint(len(node.children) // 2 + 1)
    w.write_class(None)
    _map(w, node.children, args)


def _enum_set(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    """The enum's class, varint n, ordinals."""
    (enum,) = node.children
    assert enum.stop
    w.write_class(enum.type)
    w.out.raw(bytes(node.data[enum.stop : node.stop]))


def _array(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    assert node.type is not None
    component = node.type.args[0]
    if component.name == "byte":
        w.out.raw(node.bytes)
        return
    w.varint(_input(node).varint())
    for child in node.children:
        w.declared(child, component)


def _fields(w: Kryo5Output, node: Node, args: tuple[FieldType, ...]) -> None:
    """FieldSerializer and RecordSerializer: by name; the latter knows no type arguments.

    Flink 2.x, which has no chill, leaves out synthetic fields.
    """
    described = node.described
    assert described is not None
    pushes = described.form != RECORD
    # Without arguments, Kryo 5 takes those of the object of this class that it is in.
    outer = w.bound.get(described.name, {})
    w.bound[described.name] = bound = outer | (bound_variables(described, args) if pushes else {})
    fields = in_java_order(described.fields)
    if len(node.children) < len(fields):
        fields = tuple(field for field in fields if not is_synthetic(field[0]))
    for (name, type_), child in zip(fields, node.children, strict=True):
        if is_synthetic(name):
            continue
        if type_.name in described.variables:  # Kryo 5 may know more of it than Kryo 2, as in List<Pair<Long, T>>.
            _variable(w, child, bound.get(type_.name), f"field {name!r} of {described.name!r}")
            continue
        part = bind(type_, described.variables, bound)
        w.declared(child, part if pushes else without_arguments(part))
    w.bound[described.name] = outer


def _variable(w: Kryo5Output, node: Node, type_: FieldType | None, place: str) -> None:
    """A field of the type of a type variable, of whose class Kryo 5 may know another one than Kryo 2."""
    found = None if node.null else node.resolved.type
    if found is not None and type_ is not None and java_name(found) != java_name(type_) and w.final(type_):
        _refuse(java_name(found), f"it takes the {place} for a {type_}, as in the object around it", _NO_FORM)
    w.element(node, type_, True)


def _writers() -> Mapping[Body | str, WriteBody]:
    """Reader of a body in Kryo 2 → what writes it for Kryo 5."""
    by_class: dict[str, WriteBody] = {
        **dict.fromkeys(BOXES, _box),
        **dict.fromkeys(("java.lang.String", "java.lang.StringBuilder", "java.net.URI"), _string),
        "java.lang.Class": _class,
        **dict.fromkeys(("java.math.BigInteger", "java.math.BigDecimal"), _copy),
        "java.net.InetSocketAddress": _address,
        "java.util.BitSet": _bit_set,
        "java.util.Collections$ReverseComparator": _copy,
        "java.util.Locale": _locale,
        "java.util.Optional": _optional,
        "java.util.UUID": _uuid,
        "java.util.concurrent.atomic.AtomicBoolean": _atomic_boolean,
        "java.util.concurrent.atomic.AtomicInteger": _copy,
        "java.util.concurrent.atomic.AtomicLong": _copy,
        "java.util.concurrent.atomic.AtomicReference": _objects,
        "java.util.regex.Pattern": _pattern,
    }
    by_time: dict[str, WriteBody] = {
        "java.util.Date": _copy,
        "java.sql.Timestamp": _millis_of_second,
        "java.time.Duration": _duration,
        "java.time.Instant": _instant,
        "java.time.LocalDate": _local_date,
        "java.time.LocalDateTime": _parts_of_time,
        "java.time.LocalTime": _local_time,
        "java.time.MonthDay": _month_day,
        "java.time.OffsetDateTime": _parts_of_time,
        "java.time.OffsetTime": _offset_time,
        "java.time.Period": _period,
        "java.time.Year": lambda w, node, args: w.varint(_input(node).zigzag()),
        "java.time.YearMonth": _year_month,
        "java.time.ZoneOffset": _zone_offset,
        "java.time.ZoneRegion": lambda w, node, args: w.string(_zone_id(node)),
        "java.time.ZonedDateTime": _zoned,
    }
    by_collection: dict[str, WriteBody] = {
        "java.util.ArrayList": lambda w, node, args: _collection(w, node.children, args),
        "java.util.HashMap": _plain_map,
        "java.util.ImmutableCollections$ListN": _immutable_collection,
        "java.util.ImmutableCollections$MapN": _immutable_map,
        "java.util.TreeSet": _sorted_collection,
        "java.util.TreeMap": _sorted_map,
        "java.util.concurrent.ConcurrentSkipListMap": _skip_list_map,
        "java.util.Arrays$ArrayList": _as_list,
        "java.util.RegularEnumSet": _enum_set,
        "java.util.Collections$EmptyList": _objects,
        "java.util.Collections$EmptyMap": _objects,
        "java.util.Collections$SingletonList": _objects,
        "java.util.Collections$SingletonMap": _objects,
    }
    return {
        **{scalars.SCALAR_BODIES[name]: write for name, write in by_class.items()},
        **{times.TIME_BODIES[name]: write for name, write in by_time.items()},
        **{collections.COLLECTION_BODIES[name]: write for name, write in by_collection.items()},
        collections.FORMS["java.util.PriorityQueue"]: _queue,
        collections.array: _array,
        FIELDS: _fields,
        CONSTANT: _copy,
        JAVA_STREAM: _copy,
    }


_WRITERS = _writers()


def kryo5_bytes(value: RecordedValue, setting: KryoSetting) -> bytes:
    """Return the value as Kryo 5 writes it.

    Args:
        value: The value as Kryo 2 wrote it.
        setting: What it was read with; registrations keep their order, and so their ids.

    Raises:
        Unconvertible: An object has a class for which nothing here writes Kryo 5's form.
    """
    output = Kryo5Output(value, setting.registrations)
    output.by_class(value.root)
    return bytes(output.out)
