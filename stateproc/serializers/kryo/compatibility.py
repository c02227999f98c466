"""Rules of KryoSerializer, whose values Flink 2 (Kryo 5) reads otherwise than Flink 1 (Kryo 2) wrote them.

Flink compares the class and its registrations only (KryoSerializerSnapshot), so it takes all that it can load. Which
classes have the same bytes in both was measured: tests/vectors/compatibility. Alike are numbers of variable length,
text and what consists of these; Kryo 5 writes numbers of fixed length in another byte order, counts elements from 1,
puts the class of elements before them, marks no references to enums, and has serializers of its own for java.time.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from stateproc.codec.kryo.forms import COLLECTIONS, MAPS
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.types import BOXES, FINAL_CLASSES, STRING, FieldType, class_of_name
from stateproc.serializers.core.base import LayoutContext
from stateproc.serializers.core.compatibility import (
    AS_IS,
    Answer,
    Comparison,
    Compatibility,
    Effect,
    Note,
    incompatible,
    readability,
    rule,
    unreadable,
)
from stateproc.serializers.kryo.columns import is_scala
from stateproc.serializers.kryo.serializer import HOLDERS, Kryo


class Bytes(enum.Enum):
    """Whether both versions of Kryo have the same bytes for the values of a type."""

    ALIKE = "alike"
    OTHER = "other"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Verdict:
    """The answer for a type; ``text``: why they are not alike; ``exception``: what reading mostly throws."""

    bytes: Bytes
    text: str = ""
    exception: str = ""


ALIKE = Verdict(Bytes.ALIKE)
_ALIKE_PRIMITIVES = frozenset(("boolean", "byte", "int", "long"))
_ALIKE = frozenset(
    [
        STRING,
        *(f"java.math.{name}" for name in ("BigDecimal", "BigInteger")),
        *(f"java.util.{name}" for name in ("Currency", "Date", "EnumSet", "TimeZone")),
        *(f"java.util.concurrent.atomic.Atomic{name}" for name in ("Boolean", "Integer", "Long")),
        "java.lang.StringBuilder",
        "java.net.URI",
        "java.sql.Timestamp",
    ]
)
_OTHER_PRIMITIVES = {"char": "a char", "short": "a short", "float": "a float", "double": "a double"}
_EOF = "java.io.EOFException: Buffer underflow."
_TIME = "java.time.DateTimeException: Invalid value"
_TIMES = {
    **dict.fromkeys(("LocalDate", "LocalDateTime", "OffsetDateTime", "ZonedDateTime", "YearMonth"), _TIME),
    **dict.fromkeys(("Instant", "LocalTime", "OffsetTime", "Period", "Year", "MonthDay"), ""),
    "Duration": _EOF,
    "ZoneOffset": "java.time.DateTimeException: Zone offset not in valid range: -18:00 to +18:00",
}
_OTHER = {
    **{f"java.time.{name}": exception for name, exception in _TIMES.items()},
    **dict.fromkeys(
        ("java.time.DayOfWeek", "java.time.Month", "java.lang.Class", "java.util.BitSet", "java.util.Arrays$ArrayList"),
        "",
    ),
    "java.util.UUID": _EOF,
    "java.util.Locale": _EOF,
}
_COLLECTIONS = frozenset(
    [*COLLECTIONS, *MAPS]
    + [f"java.util.{name}" for name in ("TreeMap", "TreeSet", "PriorityQueue", "Collection", "List", "Set", "Map")]
    + [f"java.util.{name}" for name in ("SortedMap", "SortedSet", "NavigableMap", "NavigableSet", "Queue", "Deque")]
    + ["java.util.concurrent.ConcurrentSkipListMap", "java.util.concurrent.ConcurrentMap", "java.lang.Iterable"]
)
_CHILL = "com.esotericsoftware.kryo.KryoException: Encountered unregistered class ID"
_MOST_NESTED = 16


def bytes_of(kryo: Kryo, comparison: Comparison) -> Verdict:
    """Return whether both versions of Kryo have the same bytes for all values of a serializer's class."""
    setting = kryo.setting(LayoutContext(kryo=comparison.old_kryo, classes=comparison.classes))
    return _of(kryo.declared or class_of_name(kryo.class_name), setting, (), False)


def _of(type_: FieldType, setting: KryoSetting, within: tuple[str, ...], declared: bool) -> Verdict:
    """Decide for a type inside of these classes.

    ``declared``: it is that of a field or of an array's elements, so that a final class is not named.
    """
    if type_.array:
        return _of(type_.args[0], setting, within, True)
    name = BOXES.get(type_.name, type_.name)
    if name in _OTHER_PRIMITIVES:
        return Verdict(Bytes.OTHER, f"{_OTHER_PRIMITIVES[name]}, whose bytes are in another order")
    if name in _ALIKE_PRIMITIVES or (name in _ALIKE and name not in setting.classes):
        return ALIKE
    own = setting.serializer_of(name).own
    if own:
        return Verdict(Bytes.UNDECIDED, f"{name} is written by a serializer that the job registers")
    described = setting.classes.get(name)
    if described is None:
        return _of_unknown(type_, setting, within, declared)
    if described.is_enum:
        # Only Kryo 2 marks references to enums; where the class is not named, a mark for null takes its place, unless a
        # constant occurs again.
        again = Verdict(Bytes.UNDECIDED, f"the enum {name}, whose constants only Kryo 2 refers to where they repeat")
        return again if declared else Verdict(Bytes.OTHER, f"the enum {name}, which Kryo 5 writes without a mark")
    if described.like is not None:
        return _of(described.like, setting, within, False)
    if described.alternatives:
        return Verdict(Bytes.UNDECIDED, f"{name} is an interface: the classes of values decide")
    if name in within or len(within) >= _MOST_NESTED:
        return ALIKE  # its fields are looked at where it began
    found = ALIKE
    for field, part in described.fields:
        one = _of(part, setting, (*within, name), True)
        text = f"{field}: {one.text}"
        if one.bytes is Bytes.OTHER:
            return Verdict(Bytes.OTHER, text, one.exception)
        if one.bytes is Bytes.UNDECIDED:
            found = Verdict(Bytes.UNDECIDED, text)
    return found


def _of_unknown(type_: FieldType, setting: KryoSetting, within: tuple[str, ...], declared: bool) -> Verdict:
    """Decide for a class that nobody describes."""
    name = type_.name
    if name in _OTHER:
        return Verdict(Bytes.OTHER, f"{name}, which Kryo 5 has a serializer of its own for", _OTHER[name])
    if name in _COLLECTIONS:
        return Verdict(Bytes.OTHER, f"{name}, whose elements Kryo 5 counts and writes otherwise")
    if is_scala(name):
        return Verdict(Bytes.OTHER, f"{name}, a class of Scala, for which Flink 2 registers nothing", _CHILL)
    if name == "java.util.Optional" and type_.args:
        return _of_optional(type_.args[0], setting, within, declared)
    if name in FINAL_CLASSES or name.startswith("java."):
        return Verdict(Bytes.UNDECIDED, f"{name}: the classes of values decide")
    return Verdict(Bytes.UNDECIDED, f"the fields of {name} are not known; describe the class")


def _of_optional(held: FieldType, setting: KryoSetting, within: tuple[str, ...], declared: bool) -> Verdict:
    """Decide for an Optional; of a field Kryo 2 knows what it holds, and leaves out the name of a final class."""
    found = _of(held, setting, within, False)
    if not declared or found.bytes is Bytes.OTHER:
        return found
    described = setting.classes.get(held.name)
    final = held.name in FINAL_CLASSES if described is None else described.final
    if final is None or held.array:
        return Verdict(Bytes.UNDECIDED, f"an Optional of {held}, whose class Kryo 2 may leave out")
    return Verdict(Bytes.OTHER, f"an Optional of {held}, whose class Kryo 2 leaves out") if final else found


@rule(Kryo)
def _resolve_kryo(old: Kryo, new: Kryo, comparison: Comparison) -> Compatibility:
    if old.class_name != new.class_name:
        return incompatible(f"Kryo of {old.class_name} → Kryo of {new.class_name}")
    found = AS_IS
    # A type that a person names says nothing of what the job registers.
    is_known = bool(old.settings and new.settings)
    if is_known and old.registrations != new.registrations[: len(old.registrations)]:
        text = "the job registers classes in another order"
        found = Compatibility(Answer.RECONFIGURED, (Note(Effect.CHANGE, text),))
    if not comparison.changes_kryo:
        return found
    verdict = bytes_of(old if old.declared or not new.declared else new, comparison)
    if verdict.bytes is Bytes.ALIKE:
        return found
    effect = Effect.MISREAD if verdict.bytes is Bytes.OTHER else Effect.UNDECIDED
    text = f"Kryo {comparison.release.kryo} reads values of Kryo {comparison.old_kryo}: {verdict.text}"
    exception = verdict.exception if comparison.release.kryo == 5 else ""
    return found & Compatibility(Answer.AS_IS, (Note(effect, text, exception=exception),))


@readability(Kryo)
def _restore_kryo(old: Kryo, comparison: Comparison) -> Compatibility | None:
    """A serializer that is registered as an object is wrapped in a class that the other major release does not have."""
    holder = HOLDERS[comparison.old_kryo]
    if not comparison.changes_kryo or holder not in old.settings:
        return None
    name = "org.apache.avro.generic.GenericData$Array"
    found = unreadable(
        f"a registration of Kryo holds a {holder.decode()}, which Flink {comparison.release} does not have "
        "(flink-avro on the job's class path registers one)",
        f"java.lang.IllegalStateException: Missing value for the key '{name}'",
    )
    return Compatibility(Answer.UNRESTORABLE, found.notes)
