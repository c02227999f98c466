"""Class ids and names in a Kryo value: com.esotericsoftware.kryo.util.DefaultClassResolver."""

from __future__ import annotations

from stateproc.codec.kryo.primitives import KryoInput

BY_NAME = 1
ID_BIAS = 2
PRIMITIVE_IDS = (
    "java.lang.Integer",
    "java.lang.String",
    "java.lang.Float",
    "java.lang.Boolean",
    "java.lang.Byte",
    "java.lang.Character",
    "java.lang.Short",
    "java.lang.Long",
    "java.lang.Double",
)
# What Flink's registrar registers, on every real cluster; the user's classes come after.
REGISTRAR_BASE = 73
REGISTRAR_IDS = (
    "java.util.Arrays$ArrayList",
    "java.util.BitSet",
    "java.util.PriorityQueue",
    "java.util.regex.Pattern",
    "java.sql.Date",
    "java.sql.Time",
    "java.sql.Timestamp",
    "java.net.URI",
    "java.net.InetSocketAddress",
    "java.util.UUID",
    "java.util.Locale",
    "java.text.SimpleDateFormat",
)
USER_BASE = REGISTRAR_BASE + len(REGISTRAR_IDS)
# Without the registrar (core alone): Kryo 2 has void at 9.
BARE_BASE = {2: 10, 5: 9}


_MAX_NAME_LENGTH, _MAX_DIMENSIONS = 1024, 16


def _plausible(name: str) -> bool:
    """Whether this can be the name of a class or of an array of few dimensions."""
    component = name.lstrip("[")
    short = len(name) <= _MAX_NAME_LENGTH and len(name) - len(component) <= _MAX_DIMENSIONS
    return short and component.isprintable() and component != ""


class ClassIds:
    """Reads class references, and remembers the names a value has given so far."""

    def __init__(self, data: KryoInput, registrations: tuple[str, ...]) -> None:
        self._data = data
        self._registrations = registrations
        self._names: list[str] = []

    def read(self) -> str | None:
        """The class's name, None for null."""
        cursor = self._data.cursor
        at = cursor.pos
        reference = self._data.varint()
        if reference == 0:
            return None
        if reference == BY_NAME:
            return self._by_name(at)
        name = registered_class(reference - ID_BIAS, self._data.version, self._registrations)
        if name is None:
            cursor.unsupported(
                f"Kryo class id {reference - ID_BIAS}, which no registration explains",
                at=at,
                advice="ids of Scala classes and of registrations made outside of the job's configuration "
                "are not in the snapshot; if the bytes are damaged, take the snapshot again",
            )
        return name

    def _by_name(self, at: int) -> str:
        cursor = self._data.cursor
        number = self._data.varint()
        if number < len(self._names):
            return self._names[number]
        name = self._data.string() if number == len(self._names) else None
        if not name or not _plausible(name):
            cursor.corrupt("a Kryo class reference without a class name", at=at)
        self._names.append(name)
        return name


def registered_class(number: int, version: int, registrations: tuple[str, ...]) -> str | None:
    """The class of a registration id; None if nothing explains it."""
    if number < len(PRIMITIVE_IDS):
        return PRIMITIVE_IDS[number]
    if REGISTRAR_BASE <= number < USER_BASE:
        return REGISTRAR_IDS[number - REGISTRAR_BASE]
    base = USER_BASE if number >= USER_BASE else BARE_BASE[version]
    index = number - base
    return registrations[index] if 0 <= index < len(registrations) else None
