"""Readers of what serializers write that jobs take from libraries, by the serializer's class.

JavaKaffee's kryo-serializers 0.45 (de.javakaffee.kryoserializers): collections and maps as varint number and objects by
class; wrappers as varint kind and the wrapped object; joda's times as varints and the names of chronology and zone.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from stateproc.codec.kryo.avro import AVRO_SERIALIZERS
from stateproc.codec.kryo.collections import COLLECTION_BODIES
from stateproc.codec.kryo.messages import MESSAGE_SERIALIZERS
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.types import BOX_OF, FieldType, UserClass, bind
from stateproc.codec.kryo.values import KryoMap, KryoObject, Moment, Text, plain_java_object
from stateproc.codec.kryo.walk_errors import CorruptField
from stateproc.codec.kryo.walker import Body, Walker
from stateproc.codec.temporal import iso_instant, iso_time
from stateproc.errors import CorruptSnapshot
from stateproc.wire import Cursor

# Objects that Kryo's serializers with names or versions of fields write.
#
# * CompatibleFieldSerializer: at its first object of a class in a value varint n and the n names, sorted (strings
# without   marks). Kryo 2: then each field as FieldSerializer writes it, in chunks: (varint length, bytes)*, varint 0.
# Kryo 5:   then each field with its class, primitives as their boxes. * VersionFieldSerializer (Kryo 5): varint
# version, then the fields as FieldSerializer writes them.

_MAX_FIELDS = 1 << 12


def _compatible(w: Walker, type_: FieldType) -> KryoObject:
    names = w.field_names.get(type_.name)
    if names is None:
        names = w.field_names[type_.name] = _names(w)
    described = w.setting.classes.get(type_.name)
    if described is None:
        raise w.undescribed(type_.name, f"of which the bytes contain the names of the fields ({', '.join(names)})")
    types = dict(described.fields)
    values: dict[str, Any] = {}
    for name in names:
        if name in types:
            values[name] = _described(w, described, name, types[name], type_.args)
        elif w.version < 5:
            _skip(w)
        else:
            values[name] = w.by_class()
    return KryoObject(described.name, {name: values[name] for name in types if name in values})


def _names(w: Walker) -> tuple[str, ...]:
    at = w.data.cursor.pos
    n = w.data.count(w.data.varint(), "names of fields")
    names = [w.data.string() for _ in range(n)] if n <= _MAX_FIELDS else []
    if len(names) < n or not all(name and name.isprintable() for name in names):
        w.data.cursor.corrupt("no names of fields", at=at)
    return tuple(name for name in names if name)


def _described(w: Walker, described: UserClass, name: str, type_: FieldType, args: tuple[FieldType, ...]) -> Any:
    bound = bind(type_, described.variables, dict(zip(described.variables, args, strict=False)))
    try:
        if w.version >= 5:
            return _with_class(w, bound)
        outer = w.data
        chunks = _chunks(w)
        w.read_from(KryoInput(chunks, w.version))
        try:
            value = w.declared(bound)
            chunks.finish(f"the field {name!r}")
        finally:
            w.read_from(outer)
        return value
    except CorruptField:
        raise
    except CorruptSnapshot as error:
        raise CorruptField.of(error, described.name, name, type_) from error


def _with_class(w: Walker, type_: FieldType) -> Any:
    """A field after its class; a primitive after its box."""
    if not type_.primitive:
        return w.by_class(type_.args)
    at = w.data.cursor.pos
    box = w.read_class()
    if box is None or box.name != BOX_OF[type_.name]:
        w.data.cursor.corrupt(f"{'null' if box is None else box.name} where a {type_.name} is", at=at)
    return w.data.primitive(type_.name)


def _chunks(w: Walker) -> Cursor:
    """A cursor over the chunks of a field, which the input passes."""
    cursor = w.data.cursor
    start = cursor.pos
    parts = []
    while length := w.data.varint():
        parts.append(cursor.part(w.data.count(length, "bytes of a field")))
    if len(parts) == 1:
        return parts[0]
    joined = b"".join(bytes(part.data[part.pos : part.end]) for part in parts)
    inner = Cursor(joined, file=cursor.file, base=cursor.base + start)
    inner.depth = cursor.depth
    return inner


def _skip(w: Walker) -> None:
    """Pass a field that is not described; later references may mean objects inside of it."""
    _chunks(w)
    w.pass_objects()


def _versioned(w: Walker, type_: FieldType) -> KryoObject:
    described = w.setting.classes.get(type_.name)
    if described is None:
        raise w.undescribed(type_.name, "whose fields no snapshot contains")
    w.data.varint()
    return w.fields(described, type_.args)


def _fields(w: Walker, type_: FieldType) -> KryoObject:
    described = w.setting.classes.get(type_.name)
    if described is None:
        raise w.undescribed(type_.name, "whose fields no snapshot contains")
    return w.fields(described, type_.args)


_PACKAGE = "com.esotericsoftware.kryo.serializers."
FIELD_SERIALIZERS: dict[str, Body] = {
    f"{_PACKAGE}FieldSerializer": _fields,
    f"{_PACKAGE}CompatibleFieldSerializer": _compatible,
    f"{_PACKAGE}VersionFieldSerializer": _versioned,
}


_KINDS_OF_WRAPPERS = 7
_DAY_MILLIS = 86_400_000


def _java_object(w: Walker, type_: FieldType) -> Any:
    """JavaSerializer: a Java object stream."""
    if not w.at_java_stream(type_.name):
        w.data.cursor.corrupt("no Java object stream where Kryo's JavaSerializer writes one")
    return plain_java_object(w.java_object(type_.name))


def _wrapped(w: Walker, type_: FieldType) -> Any:
    """varint kind, the wrapped collection or map by class."""
    at = w.data.cursor.pos
    kind = w.data.varint()
    if kind >= _KINDS_OF_WRAPPERS:
        w.data.cursor.corrupt(f"a wrapper of kind {kind}", at=at)
    return w.by_class()


def _elements(w: Walker, type_: FieldType) -> list[Any]:
    """varint number, elements by class."""
    return [w.by_class() for _ in range(w.data.count(w.data.varint(), "elements"))]


def _array_list(w: Walker, type_: FieldType) -> list[Any]:
    """varint number, component class, elements by class."""
    n = w.data.count(w.data.varint(), "elements")
    w.read_class()
    return [w.by_class() for _ in range(n)]


def _sorted_elements(w: Walker, type_: FieldType) -> list[Any]:
    """The comparator by class, then as :func:`_elements`."""
    w.by_class()
    return _elements(w, type_)


def _no_elements(w: Walker, type_: FieldType) -> list[Any]:
    return []


def _one_element(w: Walker, type_: FieldType) -> list[Any]:
    return [w.by_class()]


def _one_entry(w: Walker, type_: FieldType) -> KryoMap:
    key = w.by_class()
    return KryoMap([(key, w.by_class())])


def _as_map(w: Walker, type_: FieldType) -> Any:
    """Another map with the same entries, as an object of known class."""
    return w.known(FieldType("java.util.HashMap"), nullable=False)


def _as_tree_map(w: Walker, type_: FieldType) -> Any:
    return w.known(FieldType("java.util.TreeMap"), nullable=False)


def _multimap(w: Walker, type_: FieldType) -> KryoMap:
    """varint number of entries, each a key and one of its values by class; here a map to lists."""
    pairs: list[tuple[Any, list[Any]]] = []
    for _ in range(w.data.count(w.data.varint(), "entries", 2)):
        key, value = w.by_class(), w.by_class()
        if pairs and type(pairs[-1][0]) is type(key) and pairs[-1][0] == key:
            pairs[-1][1].append(value)
        else:
            pairs.append((key, [value]))
    return KryoMap(list(pairs))


def _enum_map(w: Walker, type_: FieldType) -> KryoMap:
    """The enum's class, varint number of entries, each a varint ordinal and a value by class."""
    at = w.data.cursor.pos
    key = w.read_class()
    n = w.data.count(w.data.varint(), "entries", 2)
    if key is None:
        w.data.cursor.corrupt("an EnumMap without its enum", at=at)
    enum = w.enum(key.name)
    if enum is None and n:
        raise w.undescribed(key.name, "an enum whose constants no snapshot contains")
    pairs = []
    for _ in range(n):
        ordinal = w.data.varint()
        if enum is None or ordinal >= len(enum.constants):
            w.data.cursor.corrupt(f"constant {ordinal} of {key.name}", at=at)
        pairs.append((enum.constants[ordinal], w.by_class()))
    return KryoMap(pairs)


def _date(w: Walker, type_: FieldType) -> Moment:
    """varlong milliseconds."""
    seconds, millis = divmod(w.data.varlong(), 1000)
    return Moment("instant", seconds, millis * 1_000_000)


def _uuid(w: Walker, type_: FieldType) -> Text:
    high, low = w.data.fixed("long"), w.data.fixed("long")
    mask = (1 << 64) - 1
    return Text(str(UUID(int=(high & mask) << 64 | low & mask)))


def _pattern(w: Walker, type_: FieldType) -> Text:
    text = w.data.string() or ""
    w.data.varint()  # flags
    return Text(text)


def _bit_set(w: Walker, type_: FieldType) -> list[int]:
    """varint number of bits, a boolean each; the bits that are set."""
    n = w.data.count(w.data.varint(), "bits")
    return [bit for bit in range(n) if w.data.boolean()]


def _joda_date_time(w: Walker, type_: FieldType) -> Text:
    """varlong milliseconds, chronology (empty: ISO), zone."""
    seconds, millis = divmod(w.data.varlong(), 1000)
    chronology, zone = w.data.string(), w.data.string()
    instant = iso_instant(seconds, millis * 1_000_000)
    return Text(f"{instant}Z" + "".join(f"[{name}]" for name in (zone, chronology) if name and name != "UTC"))


def _joda_local_date(w: Walker, type_: FieldType) -> Text:
    """varint packed date, chronology."""
    return Text(_packed_date(w, w.data.varint()) + _chronology(w))


def _joda_local_time(w: Walker, type_: FieldType) -> Text:
    """varint milliseconds of the day, chronology."""
    return Text(_millis_of_day(w, w.data.varint()) + _chronology(w))


def _joda_local_date_time(w: Walker, type_: FieldType) -> Text:
    """varlong packed date × milliseconds of a day + milliseconds, chronology."""
    packed, millis = divmod(w.data.varlong(), _DAY_MILLIS)
    return Text(f"{_packed_date(w, packed)}T{_millis_of_day(w, millis)}{_chronology(w)}")


def _packed_date(w: Walker, packed: int) -> str:
    """(year × 13 + month) × 32 + day."""
    months, day = divmod(packed, 32)
    year, month = divmod(months, 13)
    if not (1 <= month <= 12 and day >= 1):
        w.data.cursor.corrupt(f"{year}-{month}-{day} is no date")
    return f"{year:04d}-{month:02d}-{day:02d}"


def _millis_of_day(w: Walker, millis: int) -> str:
    if not 0 <= millis < _DAY_MILLIS:
        w.data.cursor.corrupt(f"millisecond {millis} of a day")
    return iso_time(millis * 1_000_000)


def _chronology(w: Walker) -> str:
    name = w.data.string()
    return f"[{name}]" if name else ""


_JAVAKAFFEE = "de.javakaffee.kryoserializers."
_GUAVA = f"{_JAVAKAFFEE}guava."
_JODA = f"{_JAVAKAFFEE}jodatime."
_KRYO = "com.esotericsoftware.kryo.serializers."
_FLINK = "org.apache.flink.api.java.typeutils.runtime.kryo."
SERIALIZER_BODIES: dict[str, Body] = {
    **MESSAGE_SERIALIZERS,
    **AVRO_SERIALIZERS,
    **FIELD_SERIALIZERS,
    f"{_KRYO}JavaSerializer": _java_object,
    f"{_FLINK}JavaSerializer": _java_object,
    f"{_KRYO}CollectionSerializer": COLLECTION_BODIES["java.util.ArrayList"],
    f"{_KRYO}MapSerializer": COLLECTION_BODIES["java.util.HashMap"],
    f"{_FLINK}Serializers$SpecificInstanceCollectionSerializer": COLLECTION_BODIES["java.util.ArrayList"],
    f"{_FLINK}Serializers$SpecificInstanceCollectionSerializerForArrayList": COLLECTION_BODIES["java.util.ArrayList"],
    f"{_JAVAKAFFEE}UnmodifiableCollectionsSerializer": _wrapped,
    f"{_JAVAKAFFEE}SynchronizedCollectionsSerializer": _wrapped,
    f"{_JAVAKAFFEE}ArraysAsListSerializer": _array_list,
    f"{_JAVAKAFFEE}BitSetSerializer": _bit_set,
    f"{_JAVAKAFFEE}CollectionsEmptyListSerializer": _no_elements,
    f"{_JAVAKAFFEE}CollectionsEmptyMapSerializer": lambda w, type_: KryoMap(),
    f"{_JAVAKAFFEE}CollectionsEmptySetSerializer": _no_elements,
    f"{_JAVAKAFFEE}CollectionsSingletonListSerializer": _one_element,
    f"{_JAVAKAFFEE}CollectionsSingletonMapSerializer": _one_entry,
    f"{_JAVAKAFFEE}CollectionsSingletonSetSerializer": _one_element,
    f"{_JAVAKAFFEE}DateSerializer": _date,
    f"{_JAVAKAFFEE}EnumMapSerializer": _enum_map,
    f"{_JAVAKAFFEE}RegexSerializer": _pattern,
    f"{_JAVAKAFFEE}URISerializer": lambda w, type_: Text(w.data.string() or ""),
    f"{_JAVAKAFFEE}UUIDSerializer": _uuid,
    f"{_GUAVA}ArrayListMultimapSerializer": _multimap,
    f"{_GUAVA}HashMultimapSerializer": _multimap,
    f"{_GUAVA}ImmutableListSerializer": _elements,
    f"{_GUAVA}ImmutableMapSerializer": _as_map,
    f"{_GUAVA}ImmutableMultimapSerializer": _as_map,
    f"{_GUAVA}ImmutableSetSerializer": _elements,
    f"{_GUAVA}ImmutableSortedMapSerializer": _as_tree_map,
    f"{_GUAVA}ImmutableSortedSetSerializer": _sorted_elements,
    f"{_GUAVA}LinkedHashMultimapSerializer": _multimap,
    f"{_GUAVA}LinkedListMultimapSerializer": _multimap,
    f"{_JODA}JodaDateTimeSerializer": _joda_date_time,
    f"{_JODA}JodaLocalDateSerializer": _joda_local_date,
    f"{_JODA}JodaLocalDateTimeSerializer": _joda_local_date_time,
    f"{_JODA}JodaLocalTimeSerializer": _joda_local_time,
}
"""Serializer class → the reader of what it writes."""
CHECKED_SERIALIZERS = frozenset(
    (
        *MESSAGE_SERIALIZERS,
        f"{_KRYO}CompatibleFieldSerializer",
        f"{_KRYO}JavaSerializer",
        f"{_FLINK}JavaSerializer",
        f"{_JAVAKAFFEE}UnmodifiableCollectionsSerializer",
        f"{_JAVAKAFFEE}SynchronizedCollectionsSerializer",
    )
)
"""Those whose form hardly any other bytes have: it shows that they wrote an object where others are possible."""
