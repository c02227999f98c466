"""Java values as plain Python ones that json can write."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

from stateproc.errors import UnsupportedSnapshot
from stateproc.wire.java_stream import JavaArray, JavaClass, JavaEnum, JavaObject, JavaValue

# Lists and maps of java.util inside a Java object stream, by the layout of their own writeObject.

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


def _immutable_map(value: JavaObject) -> list[tuple[JavaValue, JavaValue]] | None:
    flat = _immutable(value, (_IMMUTABLE_MAP,))
    return None if flat is None or len(flat) % 2 else _pairs(flat)


def _concurrent_map(value: JavaObject) -> list[tuple[JavaValue, JavaValue]] | None:
    """ConcurrentHashMap: keys and values up to a pair of nulls."""
    flat = value.annotations.get("java.util.concurrent.ConcurrentHashMap", [])
    if len(flat) < 2 or len(flat) % 2 or flat[-2] is not None or flat[-1] is not None:
        return None
    return _pairs(flat[:-2])


_LIST_READERS: dict[str, Callable[[JavaObject], list[JavaValue] | None]] = {
    "java.util.ArrayList": _array_list,
    "java.util.Arrays$ArrayList": _field_array,
    "java.util.Vector": _vector,
    "java.util.Stack": _vector,
    "java.util.CollSer": lambda value: _immutable(value, (_IMMUTABLE_LIST, _IMMUTABLE_SET, _IMMUTABLE_NULLS)),
    "java.util.Collections$SingletonList": _singleton,
    "java.util.Collections$SingletonSet": _singleton,
    "java.util.Collections$EmptyList": _empty,
    "java.util.Collections$EmptySet": _empty,
}
_MAP_READERS: dict[str, Callable[[JavaObject], list[tuple[JavaValue, JavaValue]] | None]] = {
    "java.util.CollSer": _immutable_map,
    "java.util.concurrent.ConcurrentHashMap": _concurrent_map,
    "java.util.Collections$SingletonMap": lambda value: [(value.fields.get("k"), value.fields.get("v"))],
    "java.util.Collections$EmptyMap": lambda value: [],
}


MAX_NODES = 1_000_000
MAX_ECHO = 1 << 25
"""Characters that references may repeat."""
MAX_DEPTH = 128
_LONGEST_NUMBER = 1024

_BOXES = frozenset(
    f"java.lang.{name}" for name in ("Boolean", "Byte", "Character", "Double", "Float", "Integer", "Long", "Short")
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_plain(value: JavaValue) -> Any:
    """``value`` of None, bool, int, float, str, list and dict only.

    Boxed values, BigInteger, enums (their constant) and classes (their name) stand for themselves;
    BigDecimal, UUID and Date (ISO-8601, UTC) are strings, bytes base64. Collections are lists, maps lists of
    {"key", "value"}. Any other object is {"class": name, "fields": {…}}, with "written" for what its class
    wrote by itself. A reference back to an enclosing object is {"class": name, "cycle": true}. Raises
    UnsupportedSnapshot for graphs of over a million values or 128 levels, and where references repeat over 32 million
    characters or bytes.
    """
    return _Plain().of(value)


class _Plain:
    def __init__(self) -> None:
        self.nodes = 0
        self.path: list[int] = []
        self.seen: set[int] = set()
        self.echoed = 0

    def of(self, value: JavaValue) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or len(self.path) > MAX_DEPTH:
            raise UnsupportedSnapshot(
                f"a Java object graph of over {MAX_NODES} values or {MAX_DEPTH} levels",
                advice="too much to show as one value",
            )
        if isinstance(value, str | bytes):
            self.bound(value)
        if isinstance(value, bytes):
            return base64.b64encode(value).decode("ascii")
        if isinstance(value, JavaEnum):
            return value.constant
        if isinstance(value, JavaClass):
            return value.class_name
        if not isinstance(value, JavaObject | JavaArray):
            return value
        if id(value) in self.path:
            return {"class": value.class_name, "cycle": True}
        self.path.append(id(value))
        plain = self.composite(value)
        self.path.pop()
        return plain

    def bound(self, text: str | bytes) -> None:
        """Refuse text repeated too often: a stream holds it once."""
        if id(text) not in self.seen:
            self.seen.add(id(text))
            return
        self.echoed += len(text)
        if self.echoed > MAX_ECHO:
            raise UnsupportedSnapshot(
                f"references repeat over {MAX_ECHO} characters in a Java object graph",
                advice="too much to show as one value",
            )

    def composite(self, value: JavaObject | JavaArray) -> Any:
        if isinstance(value, JavaArray) and isinstance(value.values, bytes):
            return self.of(value.values)
        elements = java_list(value)
        if elements is not None:
            return [self.of(element) for element in elements]
        entries = java_map(value)
        if entries is not None:
            return [{"key": self.of(key), "value": self.of(entry)} for key, entry in entries]
        known = _known(value) if isinstance(value, JavaObject) else None
        return self.object(value) if isinstance(value, JavaObject) and known is None else known

    def object(self, value: JavaObject) -> dict[str, Any]:
        plain: dict[str, Any] = {
            "class": value.class_name,
            "fields": {name: self.of(field) for name, field in value.fields.items()},
        }
        written = {name: contents for name, contents in value.annotations.items() if contents}
        if written:
            plain["written"] = {name: [self.of(entry) for entry in found] for name, found in written.items()}
        return plain


def _known(value: JavaObject) -> Any:
    """A number, date or the like; None if it is none, or does not have its class's fields."""
    if value.class_name in _BOXES:
        return value.fields.get("value")
    read = _KNOWN.get(value.class_name)
    return read(value) if read is not None else None


def _big_integer(value: JavaValue) -> int | None:
    if not isinstance(value, JavaObject):
        return None
    sign, magnitude = value.fields.get("signum"), value.fields.get("magnitude")
    if not isinstance(magnitude, JavaArray) or not isinstance(magnitude.values, bytes):
        return None
    if sign not in (-1, 0, 1) or len(magnitude.values) > _LONGEST_NUMBER:
        return None
    return int(sign) * int.from_bytes(magnitude.values, "big")


def _big_decimal(value: JavaObject) -> str | None:
    unscaled, scale = _big_integer(value.fields.get("intVal")), value.fields.get("scale")
    if unscaled is None or not isinstance(scale, int):
        return None
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return str(Decimal((int(unscaled < 0), digits, -scale)))


def _date(value: JavaObject) -> str | None:
    contents = value.annotations.get("java.util.Date", [])
    if len(contents) != 1 or not isinstance(contents[0], bytes) or len(contents[0]) != 8:
        return None
    millis = struct.unpack(">q", contents[0])[0]
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds")
    except OverflowError:
        return None


def _uuid(value: JavaObject) -> str | None:
    high, low = value.fields.get("mostSigBits"), value.fields.get("leastSigBits")
    if not isinstance(high, int) or not isinstance(low, int):
        return None
    return str(UUID(bytes=struct.pack(">qq", high, low)))


_KNOWN: dict[str, Callable[[JavaObject], Any]] = {
    "java.math.BigInteger": _big_integer,
    "java.math.BigDecimal": _big_decimal,
    "java.util.Date": _date,
    "java.util.UUID": _uuid,
}
