"""Lists and maps of java.util inside a Java object stream, by the layout of their own writeObject."""

from __future__ import annotations

import struct
from collections.abc import Callable

from stateproc.wire.java_values import JavaArray, JavaObject, JavaValue

_MAX_WRAPPERS = 32

# class of the annotation → offset in its leading block data of the i32 number of elements
_SIZE_AT: dict[str, int] = {
    "java.util.LinkedList": 0,
    "java.util.ArrayDeque": 0,
    "java.util.HashSet": 8,
    "java.util.TreeSet": 0,
    "java.util.HashMap": 4,
    "java.util.Hashtable": 4,
    "java.util.TreeMap": 0,
    "java.util.EnumMap": 0,
    "java.util.IdentityHashMap": 0,
}
_LISTS = ("java.util.LinkedList", "java.util.ArrayDeque", "java.util.HashSet", "java.util.TreeSet")
_MAPS = (
    "java.util.HashMap",
    "java.util.Hashtable",
    "java.util.TreeMap",
    "java.util.EnumMap",
    "java.util.IdentityHashMap",
)
_WRAPPER = "java.util.Collections$"
_IMMUTABLE_LIST, _IMMUTABLE_SET, _IMMUTABLE_MAP, _IMMUTABLE_NULLS = 1, 2, 3, 4


def java_list(value: JavaValue) -> list[JavaValue] | None:
    """The elements of a List, Set or other Collection of java.util, or of an array; None for anything else.

    Known: ArrayList, LinkedList, Vector, ArrayDeque, HashSet, LinkedHashSet, TreeSet, Arrays.asList, List.of,
    Set.of, and the wrappers of Collections (empty, singleton, unmodifiable, synchronized).
    """
    inner = _unwrapped(value, ("list", "c"))
    if isinstance(inner, JavaArray):
        return list(inner.values)
    if not isinstance(inner, JavaObject):
        return None
    special = _LIST_READERS.get(inner.class_name)
    if special is not None:
        return special(inner)
    for name in _LISTS:
        if name in inner.annotations:
            return _elements(inner, name, 1)
    return None


def java_map(value: JavaValue) -> list[tuple[JavaValue, JavaValue]] | None:
    """The entries of a Map of java.util in stream order, as pairs; None for anything else.

    Known: HashMap, LinkedHashMap, TreeMap, Hashtable, EnumMap, IdentityHashMap, ConcurrentHashMap, Map.of,
    and the wrappers of Collections. Pairs, because Java keys need not be hashable here.
    """
    inner = _unwrapped(value, ("m",))
    if not isinstance(inner, JavaObject):
        return None
    special = _MAP_READERS.get(inner.class_name)
    if special is not None:
        return special(inner)
    for name in _MAPS:
        if name in inner.annotations:
            flat = _elements(inner, name, 2)
            return None if flat is None else _pairs(flat)
    return None


def _unwrapped(value: JavaValue, fields: tuple[str, ...]) -> JavaValue:
    """Unwrap Collections.unmodifiable… and synchronized…; give up on a wrapper around itself."""
    for _ in range(_MAX_WRAPPERS):
        if not isinstance(value, JavaObject) or not value.class_name.startswith(_WRAPPER):
            return value
        inner = next((value.fields[name] for name in fields if name in value.fields), None)
        if inner is None:
            return value
        value = inner
    return None


def _elements(value: JavaObject, name: str, per_entry: int) -> list[JavaValue] | None:
    """The objects of an annotation whose first block holds their number; None if the two do not agree."""
    contents = value.annotations[name]
    block = next((entry for entry in contents if isinstance(entry, bytes)), b"")
    at = _SIZE_AT[name]
    if len(block) < at + 4:
        return None
    wanted = struct.unpack_from(">i", block, at)[0] * per_entry
    after = contents[next(i for i, entry in enumerate(contents) if entry is block) + 1 :]
    return after if len(after) == wanted else None


def _pairs(flat: list[JavaValue]) -> list[tuple[JavaValue, JavaValue]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _array_list(value: JavaObject) -> list[JavaValue] | None:
    contents = value.annotations.get("java.util.ArrayList", [])
    found = contents[1:]  # after the capacity
    return found if len(found) == value.fields.get("size") else None


def _field_array(value: JavaObject) -> list[JavaValue] | None:
    """Arrays.asList: field ``a``."""
    array = value.fields.get("a")
    return list(array.values) if isinstance(array, JavaArray) else None


def _vector(value: JavaObject) -> list[JavaValue] | None:
    array, count = value.fields.get("elementData"), value.fields.get("elementCount")
    if not isinstance(array, JavaArray) or not isinstance(count, int) or not 0 <= count <= len(array.values):
        return None
    return list(array.values[:count])


def _singleton(value: JavaObject) -> list[JavaValue]:
    return [value.fields.get("element")]


def _empty(value: JavaObject) -> list[JavaValue]:
    return []


def _immutable(value: JavaObject, tags: tuple[int, ...]) -> list[JavaValue] | None:
    """java.util.CollSer, the stand-in of List.of, Set.of, Map.of: field ``tag``, i32 length, elements."""
    contents = value.annotations.get("java.util.CollSer", [])
    if value.fields.get("tag", 0) & 0xFF not in tags or not contents or not isinstance(contents[0], bytes):
        return None
    found = contents[1:]
    return found if contents[0] == struct.pack(">i", len(found)) else None


def _immutable_list(value: JavaObject) -> list[JavaValue] | None:
    return _immutable(value, (_IMMUTABLE_LIST, _IMMUTABLE_SET, _IMMUTABLE_NULLS))


def _immutable_map(value: JavaObject) -> list[tuple[JavaValue, JavaValue]] | None:
    flat = _immutable(value, (_IMMUTABLE_MAP,))
    return None if flat is None or len(flat) % 2 else _pairs(flat)


def _concurrent_map(value: JavaObject) -> list[tuple[JavaValue, JavaValue]] | None:
    """ConcurrentHashMap: keys and values up to a pair of nulls."""
    flat = value.annotations.get("java.util.concurrent.ConcurrentHashMap", [])
    if len(flat) < 2 or len(flat) % 2 or flat[-2] is not None or flat[-1] is not None:
        return None
    return _pairs(flat[:-2])


def _singleton_map(value: JavaObject) -> list[tuple[JavaValue, JavaValue]]:
    return [(value.fields.get("k"), value.fields.get("v"))]


def _empty_map(value: JavaObject) -> list[tuple[JavaValue, JavaValue]]:
    return []


_LIST_READERS: dict[str, Callable[[JavaObject], list[JavaValue] | None]] = {
    "java.util.ArrayList": _array_list,
    "java.util.Arrays$ArrayList": _field_array,
    "java.util.Vector": _vector,
    "java.util.Stack": _vector,
    "java.util.CollSer": _immutable_list,
    "java.util.Collections$SingletonList": _singleton,
    "java.util.Collections$SingletonSet": _singleton,
    "java.util.Collections$EmptyList": _empty,
    "java.util.Collections$EmptySet": _empty,
}
_MAP_READERS: dict[str, Callable[[JavaObject], list[tuple[JavaValue, JavaValue]] | None]] = {
    "java.util.CollSer": _immutable_map,
    "java.util.concurrent.ConcurrentHashMap": _concurrent_map,
    "java.util.Collections$SingletonMap": _singleton_map,
    "java.util.Collections$EmptyMap": _empty_map,
}
