"""Class ids and names in a Kryo value: com.esotericsoftware.kryo.util.DefaultClassResolver."""

from __future__ import annotations

from stateproc.codec.kryo.primitives import KryoInput
from stateproc.errors import CHECK_FILE, UnsupportedSnapshot

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
# What flink-scala registers with chill's serializers (FlinkScalaKryoInstantiator). It is in lib/ of every distribution
# of Flink 1.x; where it was removed, these ids stay free, and Scala's classes are written by their names.
CHILL_BASE = 10
_IMMUTABLE, _MUTABLE = "scala.collection.immutable", "scala.collection.mutable"
_WRAPPERS = "scala.collection.convert.Wrappers$"
CHILL_IDS = (
    *(f"{_WRAPPERS}{name}Wrapper" for name in ("Seq", "Iterator", "Map", "JList", "JMap")),
    "scala.Some",
    "scala.util.Left",
    "scala.util.Right",
    f"{_IMMUTABLE}.Vector",
    *(f"{_IMMUTABLE}.Set$Set{n}" for n in range(1, 5)),
    f"{_IMMUTABLE}.HashSet$HashTrieSet",
    *(f"{_IMMUTABLE}.Map$Map{n}" for n in range(1, 5)),
    f"{_IMMUTABLE}.HashMap$HashTrieMap",
    f"{_IMMUTABLE}.Range$Inclusive",
    f"{_IMMUTABLE}.NumericRange$Inclusive",
    f"{_IMMUTABLE}.NumericRange$Exclusive",
    f"{_MUTABLE}.BitSet",
    f"{_MUTABLE}.HashMap",
    f"{_MUTABLE}.HashSet",
    f"{_WRAPPERS}IterableWrapper",
    *(f"scala.Tuple{n}" for n in range(1, 23)),
    *(f"scala.Tuple1$mc{kind}$sp" for kind in "JID"),
    *(f"scala.Tuple2$mc{first}{second}$sp" for first in "JID" for second in "JID"),
    "scala.Symbol",
    "scala.reflect.ClassTag",
    "scala.runtime.BoxedUnit",
)
_CHILL_CLASSES = frozenset(CHILL_IDS)


_MAX_NAME_LENGTH, _MAX_DIMENSIONS = 1024, 16


def _plausible(name: str) -> bool:
    """Whether this can be the name of a class or of an array of few dimensions."""
    component = name.lstrip("[")
    short = len(name) <= _MAX_NAME_LENGTH and len(name) - len(component) <= _MAX_DIMENSIONS
    return short and component.isprintable() and component != ""


OUTSIDE_REGISTRATIONS = (
    "classes and serializers that the job registers with Kryo outside of its configuration are in no snapshot; values "
    "with them cannot be read: read other states, or these as nulls (on_error='null')"
)


class UnknownId(UnsupportedSnapshot):
    """A class id that no registration explains."""


class ClassIds:
    """Reads class references, and remembers the names a value has given so far.

    ``by_id``, ``named``: a class that flink-scala registers, found by its id (flink-scala was there), or by its name
    (it was not).
    """

    def __init__(self, data: KryoInput, registrations: tuple[str, ...]) -> None:
        self.data = data
        self._registrations = registrations
        self._names: list[str] = []
        self.by_id: str | None = None
        self.named: str | None = None
        self.incomplete = False
        """Whether names were passed over, so that the numbers of names are not known."""

    def read(self) -> str | None:
        """The class's name, None for null."""
        cursor = self.data.cursor
        at = cursor.pos
        reference = self.data.varint()
        if reference == 0:
            return None
        if reference == BY_NAME:
            name = self._by_name(at)
            if name in _CHILL_CLASSES and self.data.version < 5:
                self.named = name
        else:
            name = self._by_id(reference - ID_BIAS, at)
        if self.named is not None and self.by_id is not None:
            cursor.corrupt(f"Scala classes both by id ({self.by_id}) and by name ({self.named})", at=at)
        return name

    def _by_id(self, number: int, at: int) -> str:
        version = self.data.version
        name = registered_class(number, version, self._registrations)
        if name is None:
            if number < REGISTRAR_BASE:
                self.data.cursor.corrupt(f"Kryo class id {number}, which Kryo {version} gives to no class", at=at)
            raise UnknownId(
                f"Kryo class id {number}, which no registration explains",
                where=self.data.cursor.where(at),
                advice=f"{OUTSIDE_REGISTRATIONS}; {CHECK_FILE}",
            )
        if CHILL_BASE <= number < REGISTRAR_BASE:
            self.by_id = name
        return name

    def _by_name(self, at: int) -> str:
        cursor = self.data.cursor
        if self.incomplete:
            cursor.unsupported(
                "the name of a class in a Kryo value after fields that are not described",
                at=at,
                advice="describe all fields of the class that Kryo writes with names of fields",
            )
        number = self.data.varint()
        if number < len(self._names):
            return self._names[number]
        name = self.data.string() if number == len(self._names) else None
        if not name or not _plausible(name):
            cursor.corrupt("a Kryo class reference without a class name", at=at)
        self._names.append(name)
        return name


def registered_class(number: int, version: int, registrations: tuple[str, ...]) -> str | None:
    """The class of a registration id; None if nothing explains it.

    Ids of 9 (void) to 72 never belong to the job's registrations: Flink 2.x leaves them free, and so does Flink 1.x
    without flink-scala.
    """
    if number < len(PRIMITIVE_IDS):
        return PRIMITIVE_IDS[number]
    if number < CHILL_BASE:
        return None
    if number < REGISTRAR_BASE:
        return CHILL_IDS[number - CHILL_BASE] if version < 5 else None
    if number < USER_BASE:
        return REGISTRAR_IDS[number - REGISTRAR_BASE]
    index = number - USER_BASE
    return registrations[index] if index < len(registrations) else None
