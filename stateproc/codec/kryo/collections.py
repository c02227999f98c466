"""Bodies of collections, maps and arrays: CollectionSerializer, MapSerializer and their kin."""

from __future__ import annotations

from typing import Any

from stateproc.codec.kryo.forms import COLLECTIONS, MAPS, keys_of
from stateproc.codec.kryo.types import FieldType
from stateproc.codec.kryo.values import Cycle, KryoMap, KryoObject, Text
from stateproc.codec.kryo.walker import Body, Walker
from stateproc.codec.vm import kryo_kernels as codes

# A list of nothing but nulls takes no bytes per element.
_MAX_NULLS = 1 << 20


def _comparator(w: Walker) -> None:
    """The comparator of a sorted map or set, by class.

    One of an unknown class is taken to have no fields, and so no bytes. Only the end of the value confirms that.
    """
    at = w.data.cursor.pos
    type_ = w.read_class()
    if type_ is None:
        return
    w.doubts.comparing = True
    value = w.known(type_, nullable=False)
    w.doubts.comparing = False
    if not isinstance(value, KryoObject | Text | Cycle) and w.enum(type_.name) is None:
        w.data.cursor.corrupt(f"a {type_.name} where a Comparator stands", at=at)


def like_body(w: Walker, like: str, type_: FieldType) -> Any:
    """A Map or Collection of a class of its own that extends or implements ``like``."""
    in_order = SORTED_FORMS.get(like)
    if in_order is None or not w.guesses.sorted(type_.name):
        value = FORMS[like](w, type_)
        if in_order is not None and next(iter(keys_of(value)), None) is None:
            w.doubts.weak.add(type_.name)
        return value
    value = in_order(w, type_)
    keys = keys_of(value)
    if not keys:
        # An empty TreeMap is an empty HashMap and one byte more.
        w.doubts.unconfirmed = w.undescribed(type_.name, f"that may be a {like} or a sorted one")
    elif None in keys:
        w.data.cursor.corrupt("a null in a sorted map or set")
    return value


def _element(w: Walker, type_: FieldType, index: int) -> FieldType | None:
    return type_.args[index] if index < len(type_.args) else None


def _inner_args(w: Walker, element: FieldType | None) -> tuple[FieldType, ...]:
    """Type arguments of elements: Kryo 5 hands them on, Kryo 2 forgets them."""
    return element.args if element is not None and w.version >= 5 else ()


def _forgotten(element: FieldType) -> FieldType:
    return FieldType(element.name, element.args if element.array else ())


def _collection(w: Walker, type_: FieldType, *, nullable: bool = True, header: bool = False) -> list[Any] | None:
    """A Collection; ``nullable``: null elements are possible; ``header``: a comparator comes along."""
    return _collection5(w, type_, nullable, header) if w.version >= 5 else _collection2(w, type_, header)


def _collection2(w: Walker, type_: FieldType, header: bool) -> list[Any]:
    """[comparator], varint n, elements: of the declared class if that is final, else by class."""
    if header:
        _comparator(w)
    n = w.data.count(w.data.varint(), "elements")
    element = _element(w, type_, 0)
    if element is not None and w.final(element):
        return [w.known(_forgotten(element)) for _ in range(n)]
    return [w.by_class() for _ in range(n)]


def _collection5(w: Walker, type_: FieldType, nullable: bool, header: bool) -> list[Any] | None:
    """varint n + 1 with a flag, [comparator], elements; the flag: there are nulls, or all have one class."""
    element = _element(w, type_, 0)
    of_known_class = element is not None and w.final(element)
    if of_known_class and not nullable:
        flag, n = False, w.data.varint()
    else:
        flag, n = w.data.varint_flag()
    if n == 0:
        return None
    n -= 1
    if header:
        _comparator(w)
    if n == 0:
        return []
    if element is not None and of_known_class:
        return [w.known(element, nullable=flag) for _ in range(w.data.count(n, "elements"))]
    args = _inner_args(w, element)
    if not flag:
        return [w.by_class(args) for _ in range(w.data.count(n, "elements"))]
    one_class = w.read_class(args)
    if one_class is None:
        if n > _MAX_NULLS:
            w.data.cursor.corrupt(f"a list of {n} nulls")
        return [None] * n
    nulls = nullable and w.data.boolean()
    return [w.known(one_class, nullable=nulls) for _ in range(w.data.count(n, "elements"))]


def _sorted_collection(w: Walker, type_: FieldType) -> list[Any] | None:
    return _collection(w, type_, header=True)


def _immutable_collection(w: Walker, type_: FieldType) -> list[Any] | None:
    return _collection(w, type_, nullable=False)


def _as_list(w: Walker, type_: FieldType) -> list[Any] | None:
    """Arrays.asList: chill for Kryo 2 writes n, the array's component class, objects by class."""
    if w.version >= 5:
        return _collection(w, type_)
    n = w.data.count(w.data.varint(), "elements")
    w.read_class()
    return [w.by_class() for _ in range(n)]


def _empty(w: Walker, type_: FieldType) -> list[Any]:
    return []


def _empty_map(w: Walker, type_: FieldType) -> KryoMap:
    return KryoMap()


def _singleton(w: Walker, type_: FieldType) -> list[Any]:
    return [w.by_class()]


def _singleton_map(w: Walker, type_: FieldType) -> KryoMap:
    key = w.by_class()
    return KryoMap([(key, w.by_class())])


def _map(w: Walker, type_: FieldType, *, nullable: bool = True, header: bool = False) -> KryoMap | None:
    """varint n (Kryo 5: n + 1), entries; a comparator before (Kryo 2) or after (Kryo 5) the number."""
    if header and w.version < 5:
        _comparator(w)
    n = w.data.varint()
    if w.version >= 5:
        n -= 1
        if n < 0:
            return None
        if header:
            _comparator(w)
    key, value = _element(w, type_, 0), _element(w, type_, 1)
    pairs = []
    for _ in range(w.data.count(n, "entries", 2)):
        read_key = _entry_part(w, key, (), nullable)
        pairs.append((read_key, _entry_part(w, value, _inner_args(w, value), nullable)))
    return KryoMap(pairs)


def _entry_part(w: Walker, type_: FieldType | None, args: tuple[FieldType, ...], nullable: bool) -> Any:
    if type_ is None or not w.final(type_):
        return w.by_class(args)
    if w.version < 5:
        return w.known(_forgotten(type_), nullable=True)
    return w.known(type_, nullable=nullable)


def _plain_map(w: Walker, type_: FieldType) -> KryoMap | None:
    return _map(w, type_)


def _sorted_map(w: Walker, type_: FieldType) -> KryoMap | None:
    return _map(w, type_, header=True)


def _immutable_map(w: Walker, type_: FieldType) -> KryoMap | None:
    return _map(w, type_, nullable=False)


def _enum_set(w: Walker, type_: FieldType) -> list[Any]:
    """The enum's class, varint n, ordinals."""
    at = w.data.cursor.pos
    element = w.read_class()
    n = w.data.count(w.data.varint(), "constants")
    if element is None:
        w.data.cursor.corrupt("an EnumSet without its enum", at=at)
    enum = w.enum(element.name)
    if enum is None:
        if n:
            w.data.cursor.unsupported(
                f"an EnumSet of {element.name}, whose constants no snapshot contains",
                at=at,
                advice=f'describe it: classes={{"{element.name}": ["FIRST", "SECOND", …]}}',
            )
        return []
    return [w.constant(enum) for _ in range(n)]


def array(w: Walker, type_: FieldType) -> Any:
    """varint n + 1 (0: null), then bytes, numbers, or elements as in Kryo's ObjectArraySerializer."""
    component = type_.args[0]
    n = w.data.varint() - 1
    if n < 0:
        return None
    if component.name == "byte":
        return w.data.bytes(n)
    return [w.declared(component) for _ in range(w.data.count(n, "array elements"))]


_IMMUTABLE = ("ListN", "List12", "SetN", "Set12", "SubList")

COLLECTION_BODIES: dict[str, Body] = {
    **dict.fromkeys(COLLECTIONS, _collection),
    **dict.fromkeys(MAPS, _plain_map),
    **{f"java.util.ImmutableCollections${name}": _immutable_collection for name in _IMMUTABLE},
    "java.util.ImmutableCollections$Map1": _immutable_map,
    "java.util.ImmutableCollections$MapN": _immutable_map,
    "java.util.TreeSet": _sorted_collection,
    "java.util.PriorityQueue": _sorted_collection,
    "java.util.TreeMap": _sorted_map,
    "java.util.concurrent.ConcurrentSkipListMap": lambda w, type_: _map(w, type_, header=w.version >= 5),
    "java.util.Arrays$ArrayList": _as_list,
    "java.util.RegularEnumSet": _enum_set,
    "java.util.JumboEnumSet": _enum_set,
    "java.util.Collections$EmptyList": _empty,
    "java.util.Collections$EmptySet": _empty,
    "java.util.Collections$EmptyMap": _empty_map,
    "java.util.Collections$SingletonList": _singleton,
    "java.util.Collections$SingletonSet": _singleton,
    "java.util.Collections$SingletonMap": _singleton_map,
}


def _queue(w: Walker, type_: FieldType) -> list[Any] | None:
    """A subclass of PriorityQueue: Kryo 2 has a serializer of its own only for PriorityQueue itself."""
    return _collection(w, type_, header=w.version >= 5)


_INTERFACES: dict[str, Body] = {
    **dict.fromkeys(("Collection", "List", "Set", "SortedSet", "NavigableSet", "Queue", "Deque"), _collection),
    **dict.fromkeys(("Map", "SortedMap", "NavigableMap", "AbstractMap"), _plain_map),
    **dict.fromkeys(("AbstractCollection", "AbstractList", "AbstractSet", "AbstractQueue"), _collection),
    "PriorityQueue": _queue,
    "concurrent.ConcurrentMap": _plain_map,
}
_SORTED: dict[str, Body] = {
    **dict.fromkeys(("Map", "SortedMap", "NavigableMap"), _sorted_map),
    **dict.fromkeys(("Collection", "Set", "SortedSet", "NavigableSet"), _sorted_collection),
}
_NO_SUPERCLASS = ("Arrays$ArrayList", "RegularEnumSet", "JumboEnumSet")
FORMS: dict[str, Body] = {
    name: body
    for name, body in (COLLECTION_BODIES | {f"java.util.{name}": body for name, body in _INTERFACES.items()}).items()
    if not name.startswith(("java.util.ImmutableCollections$", "java.util.Collections$"))
    and name.removeprefix("java.util.") not in _NO_SUPERCLASS
}
"""How Kryo writes a class that extends or implements one of these."""
SORTED_FORMS: dict[str, Body] = {f"java.util.{name}": body for name, body in _SORTED.items()}
"""How it writes one that extends TreeMap or TreeSet, which is a Map or a Set, too."""

_KERNEL_CODES: dict[Body, int] = {
    _collection: codes.COLLECTION,
    _sorted_collection: codes.SORTED_COLLECTION,
    _immutable_collection: codes.IMMUTABLE_COLLECTION,
    _as_list: codes.AS_LIST,
    _plain_map: codes.MAP,
    _immutable_map: codes.MAP,
    _sorted_map: codes.SORTED_MAP,
    _empty: codes.EMPTY_COLLECTION,
    _empty_map: codes.EMPTY_MAP,
}
KERNEL_COLLECTIONS = {name: _KERNEL_CODES[body] for name, body in COLLECTION_BODIES.items() if body in _KERNEL_CODES}
"""Collections that the kernels read, and their class codes there."""


def kernel_code(like: str) -> int | None:
    """The code of the kernel that reads a class which extends or implements ``like``; None if none does."""
    return _KERNEL_CODES.get(FORMS[like])
