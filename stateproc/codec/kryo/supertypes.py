"""Find out whether a class extends or implements another one, which no snapshot contains."""

from __future__ import annotations

from collections.abc import Container, Mapping

from stateproc.codec.kryo.types import FINAL_CLASSES, OBJECT, UserClass

# Superclasses and interfaces of JDK classes, as of Java 17; java.lang.Object, which all extend, is left out.
#
# Each line is a class and what it directly extends and implements, without the leading "java.".

_DIRECT = """
io.File io.Serializable lang.Comparable
io.IOException lang.Exception
io.Serializable
lang.AbstractStringBuilder lang.Appendable lang.CharSequence
lang.Appendable
lang.Boolean io.Serializable lang.Comparable lang.constant.Constable
lang.Byte lang.Comparable lang.Number lang.constant.Constable
lang.CharSequence
lang.Character io.Serializable lang.Comparable lang.constant.Constable
lang.Class io.Serializable lang.constant.Constable lang.invoke.TypeDescriptor$OfField
    lang.reflect.AnnotatedElement lang.reflect.GenericDeclaration lang.reflect.Type
lang.Cloneable
lang.Comparable
lang.Double lang.Comparable lang.Number lang.constant.Constable lang.constant.ConstantDesc
lang.Enum io.Serializable lang.Comparable lang.constant.Constable
lang.Error lang.Throwable
lang.Exception lang.Throwable
lang.Float lang.Comparable lang.Number lang.constant.Constable lang.constant.ConstantDesc
lang.IllegalArgumentException lang.RuntimeException
lang.IllegalStateException lang.RuntimeException
lang.Integer lang.Comparable lang.Number lang.constant.Constable lang.constant.ConstantDesc
lang.Iterable
lang.Long lang.Comparable lang.Number lang.constant.Constable lang.constant.ConstantDesc
lang.Number io.Serializable
lang.RuntimeException lang.Exception
lang.Short lang.Comparable lang.Number lang.constant.Constable
lang.String io.Serializable lang.CharSequence lang.Comparable lang.constant.Constable
    lang.constant.ConstantDesc
lang.String$CaseInsensitiveComparator io.Serializable util.Comparator
lang.StringBuffer io.Serializable lang.AbstractStringBuilder lang.CharSequence lang.Comparable
lang.StringBuilder io.Serializable lang.AbstractStringBuilder lang.CharSequence lang.Comparable
lang.Throwable io.Serializable
lang.constant.Constable
lang.constant.ConstantDesc
lang.invoke.TypeDescriptor
lang.invoke.TypeDescriptor$OfField lang.invoke.TypeDescriptor
lang.reflect.AnnotatedElement
lang.reflect.GenericDeclaration lang.reflect.AnnotatedElement
lang.reflect.Type
math.BigDecimal lang.Comparable lang.Number
math.BigInteger lang.Comparable lang.Number
net.InetSocketAddress net.SocketAddress
net.SocketAddress io.Serializable
net.URI io.Serializable lang.Comparable
net.URL io.Serializable
nio.Buffer
nio.ByteBuffer lang.Comparable nio.Buffer
nio.HeapByteBuffer nio.ByteBuffer
sql.Date util.Date
sql.Time util.Date
sql.Timestamp util.Date
text.DateFormat text.Format
text.Format io.Serializable lang.Cloneable
text.SimpleDateFormat text.DateFormat
time.Duration io.Serializable lang.Comparable time.temporal.TemporalAmount
time.Instant io.Serializable lang.Comparable time.temporal.Temporal time.temporal.TemporalAdjuster
time.LocalDate io.Serializable time.chrono.ChronoLocalDate time.temporal.Temporal
    time.temporal.TemporalAdjuster
time.LocalDateTime io.Serializable time.chrono.ChronoLocalDateTime time.temporal.Temporal
    time.temporal.TemporalAdjuster
time.LocalTime io.Serializable lang.Comparable time.temporal.Temporal time.temporal.TemporalAdjuster
time.MonthDay io.Serializable lang.Comparable time.temporal.TemporalAccessor time.temporal.TemporalAdjuster
time.OffsetDateTime io.Serializable lang.Comparable time.temporal.Temporal time.temporal.TemporalAdjuster
time.OffsetTime io.Serializable lang.Comparable time.temporal.Temporal time.temporal.TemporalAdjuster
time.Period io.Serializable time.chrono.ChronoPeriod
time.Year io.Serializable lang.Comparable time.temporal.Temporal time.temporal.TemporalAdjuster
time.YearMonth io.Serializable lang.Comparable time.temporal.Temporal time.temporal.TemporalAdjuster
time.ZoneId io.Serializable
time.ZoneOffset io.Serializable lang.Comparable time.ZoneId time.temporal.TemporalAccessor
    time.temporal.TemporalAdjuster
time.ZoneRegion io.Serializable time.ZoneId
time.ZonedDateTime io.Serializable time.chrono.ChronoZonedDateTime time.temporal.Temporal
time.chrono.ChronoLocalDate lang.Comparable time.temporal.Temporal time.temporal.TemporalAdjuster
time.chrono.ChronoLocalDateTime lang.Comparable time.temporal.Temporal time.temporal.TemporalAdjuster
time.chrono.ChronoPeriod time.temporal.TemporalAmount
time.chrono.ChronoZonedDateTime lang.Comparable time.temporal.Temporal
time.temporal.Temporal time.temporal.TemporalAccessor
time.temporal.TemporalAccessor
time.temporal.TemporalAdjuster
time.temporal.TemporalAmount
util.AbstractCollection util.Collection
util.AbstractList util.AbstractCollection util.List
util.AbstractList$RandomAccessSubList util.AbstractList$SubList util.RandomAccess
util.AbstractList$SubList util.AbstractList
util.AbstractMap util.Map
util.AbstractMap$SimpleEntry io.Serializable util.Map$Entry
util.AbstractMap$SimpleImmutableEntry io.Serializable util.Map$Entry
util.AbstractQueue util.AbstractCollection util.Queue
util.AbstractSequentialList util.AbstractList
util.AbstractSet util.AbstractCollection util.Set
util.ArrayDeque io.Serializable lang.Cloneable util.AbstractCollection util.Deque
util.ArrayList io.Serializable lang.Cloneable util.AbstractList util.List util.RandomAccess
util.ArrayList$SubList util.AbstractList util.RandomAccess
util.Arrays$ArrayList io.Serializable util.AbstractList util.RandomAccess
util.BitSet io.Serializable lang.Cloneable
util.Calendar io.Serializable lang.Cloneable lang.Comparable
util.Collection lang.Iterable
util.Collections$CopiesList io.Serializable util.AbstractList util.RandomAccess
util.Collections$EmptyList io.Serializable util.AbstractList util.RandomAccess
util.Collections$EmptyMap io.Serializable util.AbstractMap
util.Collections$EmptySet io.Serializable util.AbstractSet
util.Collections$ReverseComparator io.Serializable util.Comparator
util.Collections$SetFromMap io.Serializable util.AbstractSet util.Set
util.Collections$SingletonList io.Serializable util.AbstractList util.RandomAccess
util.Collections$SingletonMap io.Serializable util.AbstractMap
util.Collections$SingletonSet io.Serializable util.AbstractSet
util.Collections$SynchronizedCollection io.Serializable util.Collection
util.Collections$SynchronizedList util.Collections$SynchronizedCollection util.List
util.Collections$SynchronizedMap io.Serializable util.Map
util.Collections$SynchronizedRandomAccessList util.Collections$SynchronizedList util.RandomAccess
util.Collections$SynchronizedSet util.Collections$SynchronizedCollection util.Set
util.Collections$SynchronizedSortedMap util.Collections$SynchronizedMap util.SortedMap
util.Collections$SynchronizedSortedSet util.Collections$SynchronizedSet util.SortedSet
util.Collections$UnmodifiableCollection io.Serializable util.Collection
util.Collections$UnmodifiableList util.Collections$UnmodifiableCollection util.List
util.Collections$UnmodifiableMap io.Serializable util.Map
util.Collections$UnmodifiableNavigableMap io.Serializable util.Collections$UnmodifiableSortedMap
    util.NavigableMap
util.Collections$UnmodifiableNavigableSet io.Serializable util.Collections$UnmodifiableSortedSet
    util.NavigableSet
util.Collections$UnmodifiableRandomAccessList util.Collections$UnmodifiableList util.RandomAccess
util.Collections$UnmodifiableSet io.Serializable util.Collections$UnmodifiableCollection util.Set
util.Collections$UnmodifiableSortedMap io.Serializable util.Collections$UnmodifiableMap util.SortedMap
util.Collections$UnmodifiableSortedSet io.Serializable util.Collections$UnmodifiableSet util.SortedSet
util.Comparator
util.Currency io.Serializable
util.Date io.Serializable lang.Cloneable lang.Comparable
util.Deque util.Queue
util.Dictionary
util.EnumMap io.Serializable lang.Cloneable util.AbstractMap
util.EnumSet io.Serializable lang.Cloneable util.AbstractSet
util.GregorianCalendar util.Calendar
util.HashMap io.Serializable lang.Cloneable util.AbstractMap util.Map
util.HashMap$KeySet util.AbstractSet
util.HashMap$Values util.AbstractCollection
util.HashSet io.Serializable lang.Cloneable util.AbstractSet util.Set
util.Hashtable io.Serializable lang.Cloneable util.Dictionary util.Map
util.IdentityHashMap io.Serializable lang.Cloneable util.AbstractMap util.Map
util.ImmutableCollections$AbstractImmutableCollection util.AbstractCollection
util.ImmutableCollections$AbstractImmutableList util.ImmutableCollections$AbstractImmutableCollection
    util.List util.RandomAccess
util.ImmutableCollections$AbstractImmutableMap io.Serializable util.AbstractMap
util.ImmutableCollections$AbstractImmutableSet util.ImmutableCollections$AbstractImmutableCollection util.Set
util.ImmutableCollections$List12 io.Serializable util.ImmutableCollections$AbstractImmutableList
util.ImmutableCollections$ListN io.Serializable util.ImmutableCollections$AbstractImmutableList
util.ImmutableCollections$Map1 util.ImmutableCollections$AbstractImmutableMap
util.ImmutableCollections$MapN util.ImmutableCollections$AbstractImmutableMap
util.ImmutableCollections$Set12 io.Serializable util.ImmutableCollections$AbstractImmutableSet
util.ImmutableCollections$SetN io.Serializable util.ImmutableCollections$AbstractImmutableSet
util.ImmutableCollections$SubList util.ImmutableCollections$AbstractImmutableList util.RandomAccess
util.JumboEnumSet util.EnumSet
util.KeyValueHolder util.Map$Entry
util.LinkedHashMap util.HashMap util.Map
util.LinkedHashSet io.Serializable lang.Cloneable util.HashSet util.Set
util.LinkedList io.Serializable lang.Cloneable util.AbstractSequentialList util.Deque util.List
util.List util.Collection
util.Locale io.Serializable lang.Cloneable
util.Map
util.Map$Entry
util.NavigableMap util.SortedMap
util.NavigableSet util.SortedSet
util.Optional
util.OptionalDouble
util.OptionalInt
util.OptionalLong
util.PriorityQueue io.Serializable util.AbstractQueue
util.Properties util.Hashtable
util.Queue util.Collection
util.Random io.Serializable util.random.RandomGenerator
util.RandomAccess
util.RegularEnumSet util.EnumSet
util.Set util.Collection
util.SimpleTimeZone util.TimeZone
util.SortedMap util.Map
util.SortedSet util.Set
util.Spliterator
util.Stack util.Vector
util.StringJoiner
util.TimeZone io.Serializable lang.Cloneable
util.TreeMap io.Serializable lang.Cloneable util.AbstractMap util.NavigableMap
util.TreeSet io.Serializable lang.Cloneable util.AbstractSet util.NavigableSet
util.UUID io.Serializable lang.Comparable
util.Vector io.Serializable lang.Cloneable util.AbstractList util.List util.RandomAccess
util.WeakHashMap util.AbstractMap util.Map
util.concurrent.ArrayBlockingQueue io.Serializable util.AbstractQueue util.concurrent.BlockingQueue
util.concurrent.BlockingDeque util.Deque util.concurrent.BlockingQueue
util.concurrent.BlockingQueue util.Queue
util.concurrent.ConcurrentHashMap io.Serializable util.AbstractMap util.concurrent.ConcurrentMap
util.concurrent.ConcurrentHashMap$CollectionView io.Serializable util.Collection
util.concurrent.ConcurrentHashMap$KeySetView io.Serializable util.Set
    util.concurrent.ConcurrentHashMap$CollectionView
util.concurrent.ConcurrentLinkedDeque io.Serializable util.AbstractCollection util.Deque
util.concurrent.ConcurrentLinkedQueue io.Serializable util.AbstractQueue util.Queue
util.concurrent.ConcurrentMap util.Map
util.concurrent.ConcurrentNavigableMap util.NavigableMap util.concurrent.ConcurrentMap
util.concurrent.ConcurrentSkipListMap io.Serializable lang.Cloneable util.AbstractMap
    util.concurrent.ConcurrentNavigableMap
util.concurrent.ConcurrentSkipListSet io.Serializable lang.Cloneable util.AbstractSet util.NavigableSet
util.concurrent.CopyOnWriteArrayList io.Serializable lang.Cloneable util.List util.RandomAccess
util.concurrent.CopyOnWriteArraySet io.Serializable util.AbstractSet
util.concurrent.DelayQueue util.AbstractQueue util.concurrent.BlockingQueue
util.concurrent.LinkedBlockingDeque io.Serializable util.AbstractQueue util.concurrent.BlockingDeque
util.concurrent.LinkedBlockingQueue io.Serializable util.AbstractQueue util.concurrent.BlockingQueue
util.concurrent.PriorityBlockingQueue io.Serializable util.AbstractQueue util.concurrent.BlockingQueue
util.concurrent.atomic.AtomicBoolean io.Serializable
util.concurrent.atomic.AtomicInteger io.Serializable lang.Number
util.concurrent.atomic.AtomicLong io.Serializable lang.Number
util.concurrent.atomic.AtomicReference io.Serializable
util.concurrent.atomic.LongAdder io.Serializable util.concurrent.atomic.Striped64
util.concurrent.atomic.Striped64 lang.Number
util.random.RandomGenerator
util.regex.Pattern io.Serializable
"""


def _all_supertypes() -> dict[str, frozenset[str]]:
    lines = (line.split() for line in _DIRECT.replace("\n    ", " ").splitlines() if line)
    direct = {f"java.{name}": [f"java.{parent}" for parent in parents] for name, *parents in lines}

    def all_of(name: str) -> frozenset[str]:
        return frozenset(direct[name]).union(*(all_of(parent) for parent in direct[name]))

    return {name: all_of(name) for name in direct}


JDK_SUPERTYPES = _all_supertypes()
"""Class or interface → all that it extends and implements."""


_JDK = ("java.", "javax.", "jdk.", "sun.")
_LIBRARIES = (
    "com.google.common.",
    "com.google.protobuf.",
    "kotlin.",
    "org.apache.avro.",
    "org.apache.thrift.",
    "org.joda.time.",
    "scala.",
)
"""Packages of libraries; their classes extend and implement none of the user's classes."""
_NOT_EXTENDED = (
    "java.util.Collections$",
    "java.util.ImmutableCollections$",
    "java.util.Arrays$",
    "org.apache.avro.Schema",
    "org.apache.avro.generic.GenericData$",
    "org.joda.time.DateTime",
    "org.joda.time.LocalDate",
    "org.joda.time.LocalDateTime",
    "org.joda.time.LocalTime",
    "org.joda.time.Instant",
)
"""Classes of libraries that are final, or that only classes of their own package can extend (by prefix if nested)."""
_ARRAY_SUPERTYPES = frozenset([OBJECT, "java.lang.Cloneable", "java.io.Serializable"])
# Interfaces of collections since Java 21.
_SEQUENCED = "java.util.Sequenced"
_GUAVA = "com.google.common.collect."
_SCHEMA = "org.apache.avro.Schema"
_PROTOBUF = "com.google.protobuf."
MESSAGE_SUPERTYPES = frozenset(
    f"{_PROTOBUF}{name}"
    for name in (
        "AbstractMessage",
        "AbstractMessageLite",
        "GeneratedMessage",
        "GeneratedMessageV3",
        "Message",
        "MessageLite",
        "MessageLiteOrBuilder",
        "MessageOrBuilder",
    )
)
"""What classes of Protobuf messages extend and implement."""


def is_subtype(name: str, of: str, classes: Mapping[str, UserClass], messages: Container[str] = ()) -> bool | None:
    """Whether the class ``name`` is, extends or implements ``of``; None if nothing says so or otherwise.

    Args:
        name: a class as Class.getName() returns it.
        of: another one.
        classes: the user's descriptions; a heading with ``implements`` names all supertypes.
        messages: classes of Protobuf messages.
    """
    if name == of or of == OBJECT or (of in MESSAGE_SUPERTYPES and name in messages):
        return True
    if name.startswith("["):
        return of in _ARRAY_SUPERTYPES or (None if of.startswith("[") else False)
    if of.startswith("["):
        return False
    if name.startswith(_JDK):
        return _is_jdk_subtype(name, of)
    if name.startswith(_LIBRARIES):
        return _is_library_subtype(name, of)
    described = classes.get(name)
    if _cannot_be_extended(of, classes):
        return False
    return None if described is None else _is_described_subtype(described, of, classes)


def _is_library_subtype(name: str, of: str) -> bool | None:
    library = next(package for package in _LIBRARIES if name.startswith(package))
    if not of.startswith((*_JDK, library)):
        return False
    if of == _SCHEMA:
        return name.startswith(f"{_SCHEMA}$")
    if of.startswith(f"{_GUAVA}Immutable"):
        return _is_immutable(name.removeprefix(_GUAVA), of.removeprefix(_GUAVA))
    return True if library == _PROTOBUF and of in MESSAGE_SUPERTYPES else None


def _is_jdk_subtype(name: str, of: str) -> bool | None:
    if not of.startswith(_JDK):
        return False
    known = JDK_SUPERTYPES.get(name)
    return None if known is None or of.startswith(_SEQUENCED) else of in known


def _is_immutable(name: str, of: str) -> bool | None:
    """Guava's immutable collections: RegularImmutableList is an ImmutableList, ImmutableSortedMap an ImmutableMap."""
    if of == "ImmutableCollection":
        return None
    outer = name.partition("$")[0]
    return "Immutable" in outer and outer.endswith(of.removeprefix("Immutable"))


def _cannot_be_extended(name: str, classes: Mapping[str, UserClass]) -> bool:
    described = classes.get(name)
    if described is not None and (described.final or described.is_enum):
        return True
    return (
        name in FINAL_CLASSES
        or name.startswith(f"{_GUAVA}Immutable")
        or any(name.startswith(known) if known.endswith("$") else name == known for known in _NOT_EXTENDED)
    )


def _is_described_subtype(described: UserClass, of: str, classes: Mapping[str, UserClass]) -> bool | None:
    """Follow ``extends`` and ``implements``; a class has all fields of those that it extends."""
    seen: set[str] = set()
    above = [described.name]
    complete = described.interfaces is not None
    while above:
        name = above.pop()
        if name in seen:
            continue
        seen.add(name)
        if name == of or (name.startswith(_JDK) and _is_jdk_subtype(name, of)):
            return True
        here = classes.get(name)
        if here is not None:
            above += [*([here.parent] if here.parent else []), *(here.interfaces or ())]
    other = classes.get(of)
    lacks_fields = other is not None and not set(other.fields) <= set(described.fields)
    return False if complete or lacks_fields else None
