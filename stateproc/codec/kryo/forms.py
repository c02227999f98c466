"""What a described class is for Kryo: an object with fields, a record, a Map or a Collection; doubts about it.

Kryo writes no fields of a class that is a Map or a Collection. An empty one has a body of one byte (Kryo 2: 00, Kryo 5:
01), followed by 00 for the comparator that a TreeMap, a TreeSet or Kryo 5's PriorityQueue does not have. One described
field can have the first of these bytes, too. Two fields can have both, but there the object is far more likely: (0, 0)
is a common value, and a sorted map that somebody describes by two fields is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.setting import Guesses, KryoSetting
from stateproc.codec.kryo.types import CLASS, RECORD, FieldType, UserClass
from stateproc.codec.kryo.values import Cycle, KryoMap, KryoObject, Text
from stateproc.errors import SnapshotError, UnsupportedSnapshot

# Name the classes that Kryo writes as maps or collections, of the JDK and of libraries whose values jobs keep.
#
# Kryo takes MapSerializer for every class that implements Map, CollectionSerializer for every Collection: such a class
# has the bytes of a HashMap or an ArrayList, its own fields are not written. A class that is not named here needs a
# description ("com.acme.Props": "map<String, Object>").

_KINDS_OF_SETS = ("Collection", "List", "Set", "SortedSet", "NavigableSet", "RandomAccessList")
_KINDS_OF_MAPS = ("Map", "SortedMap", "NavigableMap")

_COLLECTIONS: Mapping[str, str] = {
    "java.util.": """
        ArrayList LinkedList Vector Stack ArrayDeque HashSet LinkedHashSet
        AbstractList$RandomAccessSubList AbstractList$SubList AbstractMap$1 AbstractMap$2 ArrayList$SubList
        Collections$AsLIFOQueue Collections$CheckedQueue Collections$CopiesList Collections$SetFromMap
        Collections$UnmodifiableNavigableSet$EmptyNavigableSet
        EnumMap$KeySet EnumMap$Values HashMap$KeySet HashMap$Values Hashtable$KeySet Hashtable$ValueCollection
        IdentityHashMap$KeySet IdentityHashMap$Values LinkedHashMap$LinkedKeySet LinkedHashMap$LinkedValues
        TreeMap$KeySet TreeMap$Values WeakHashMap$KeySet WeakHashMap$Values""",
    "java.util.concurrent.": """
        ArrayBlockingQueue ConcurrentHashMap$KeySetView ConcurrentHashMap$ValuesView ConcurrentLinkedDeque
        ConcurrentLinkedQueue ConcurrentSkipListMap$KeySet ConcurrentSkipListMap$Values ConcurrentSkipListSet
        CopyOnWriteArrayList CopyOnWriteArrayList$COWSubList CopyOnWriteArraySet DelayQueue LinkedBlockingDeque
        LinkedBlockingQueue LinkedTransferQueue PriorityBlockingQueue SynchronousQueue""",
    "com.alibaba.": "fastjson.JSONArray fastjson2.JSONArray",
    "com.google.gson.internal.": "LinkedTreeMap$KeySet NonNullElementWrapperList",
    "com.google.common.collect.": """
        AbstractMapBasedMultimap$KeySet AbstractMapBasedMultimap$RandomAccessWrappedList
        AbstractMapBasedMultimap$WrappedCollection AbstractMapBasedMultimap$WrappedList
        AbstractMapBasedMultimap$WrappedNavigableSet AbstractMapBasedMultimap$WrappedSet
        AbstractMapBasedMultimap$WrappedSortedSet AbstractMultimap$Values CartesianList
        Collections2$FilteredCollection Collections2$TransformedCollection CompactHashSet CompactLinkedHashSet
        ConcurrentHashMultiset DescendingImmutableSortedMultiset DescendingImmutableSortedSet EmptyContiguousSet
        EnumMultiset EvictingQueue HashMultiset ImmutableEnumSet ImmutableList$ReverseImmutableList
        ImmutableList$SubList ImmutableMapKeySet ImmutableMapValues ImmutableMultimap$Keys ImmutableMultimap$Values
        ImmutableRangeSet$AsSet ImmutableSortedAsList JdkBackedImmutableMultiset JdkBackedImmutableSet
        LinkedHashMultimap$ValueSet LinkedHashMultiset Lists$AbstractListWrapper Lists$CharSequenceAsList
        Lists$OnePlusArrayList Lists$Partition Lists$RandomAccessListWrapper Lists$RandomAccessPartition
        Lists$RandomAccessReverseList Lists$ReverseList Lists$StringAsImmutableList
        Lists$TransformingRandomAccessList Lists$TransformingSequentialList Lists$TwoPlusArrayList Maps$KeySet
        Maps$NavigableKeySet Maps$SortedKeySet Maps$Values MinMaxPriorityQueue Multimaps$Keys
        Multisets$UnmodifiableMultiset RegularContiguousSet RegularImmutableAsList RegularImmutableList
        RegularImmutableMap$KeySet RegularImmutableMap$Values RegularImmutableMultiset RegularImmutableSet
        RegularImmutableSortedMultiset RegularImmutableSortedSet Sets$1 Sets$2 Sets$3 Sets$4 Sets$CartesianSet
        Sets$FilteredNavigableSet Sets$FilteredSet Sets$FilteredSortedSet Sets$PowerSet Sets$UnmodifiableNavigableSet
        SingletonImmutableList SingletonImmutableSet Synchronized$SynchronizedCollection
        Synchronized$SynchronizedDeque Synchronized$SynchronizedList Synchronized$SynchronizedMultiset
        Synchronized$SynchronizedNavigableSet Synchronized$SynchronizedQueue
        Synchronized$SynchronizedRandomAccessList Synchronized$SynchronizedSet Synchronized$SynchronizedSortedSet
        TreeMultiset UnmodifiableSortedMultiset""",
    "com.google.common.primitives.": """
        Booleans$BooleanArrayAsList Bytes$ByteArrayAsList Chars$CharArrayAsList Doubles$DoubleArrayAsList
        Floats$FloatArrayAsList Ints$IntArrayAsList Longs$LongArrayAsList Shorts$ShortArrayAsList
        ImmutableDoubleArray$AsList ImmutableIntArray$AsList ImmutableLongArray$AsList""",
    "kotlin.collections.": """
        AbstractList$SubList ArrayAsCollection ArrayDeque EmptyList EmptySet MovingSubList ReversedList
        ReversedListReadOnly RingBuffer builders.ListBuilder builders.ListBuilder$BuilderSubList
        builders.MapBuilderKeys builders.MapBuilderValues builders.SetBuilder""",
    "": "org.json.simple.JSONArray net.minidev.json.JSONArray",
    "org.eclipse.collections.impl.": """
        list.mutable.FastList list.fixed.ArrayAdapter set.mutable.UnifiedSet bag.mutable.HashBag""",
}
_MAPS: Mapping[str, str] = {
    "java.util.": """
        HashMap LinkedHashMap Hashtable Properties IdentityHashMap WeakHashMap EnumMap
        TreeMap$AscendingSubMap TreeMap$DescendingSubMap TreeMap$SubMap
        Collections$UnmodifiableNavigableMap$EmptyNavigableMap concurrent.ConcurrentHashMap
        concurrent.ConcurrentSkipListMap$SubMap jar.Attributes stream.Collectors$Partition""",
    "com.alibaba.": """
        fastjson.JSONObject fastjson.util.AntiCollisionHashMap fastjson2.JSONObject fastjson2.util.JSONObject1O""",
    "com.google.gson.internal.": "LinkedTreeMap LinkedHashTreeMap",
    "com.google.common.": "cache.LocalCache reflect.ImmutableTypeToInstanceMap reflect.MutableTypeToInstanceMap",
    "com.google.common.collect.": """
        AbstractBiMap$Inverse AbstractMapBasedMultimap$AsMap AbstractMapBasedMultimap$NavigableAsMap
        AbstractMapBasedMultimap$SortedAsMap AbstractNavigableMap$DescendingMap ArrayTable$Column
        ArrayTable$ColumnMap ArrayTable$Row ArrayTable$RowMap CompactHashMap CompactLinkedHashMap
        DenseImmutableTable$Column DenseImmutableTable$ColumnMap DenseImmutableTable$Row DenseImmutableTable$RowMap
        EnumBiMap EnumHashBiMap HashBiMap HashBiMap$Inverse ImmutableClassToInstanceMap ImmutableEnumMap
        ImmutableMap$MapViewOfValuesAsSingletonSets ImmutableSortedMap JdkBackedImmutableBiMap JdkBackedImmutableMap
        MapMakerInternalMap Maps$AsMapView Maps$FilteredEntryBiMap Maps$FilteredEntryMap
        Maps$FilteredEntryNavigableMap Maps$FilteredEntrySortedMap Maps$FilteredKeyMap Maps$NavigableAsMapView
        Maps$SortedAsMapView Maps$TransformedEntriesMap Maps$TransformedEntriesNavigableMap
        Maps$TransformedEntriesSortedMap Maps$UnmodifiableBiMap Maps$UnmodifiableNavigableMap Multimaps$AsMap
        MutableClassToInstanceMap RegularImmutableBiMap RegularImmutableBiMap$Inverse RegularImmutableMap
        SingletonImmutableBiMap StandardRowSortedTable$RowSortedMap StandardTable$Column StandardTable$ColumnMap
        StandardTable$Row StandardTable$RowMap Synchronized$SynchronizedAsMap Synchronized$SynchronizedBiMap
        Synchronized$SynchronizedMap Synchronized$SynchronizedNavigableMap Synchronized$SynchronizedSortedMap
        TreeBasedTable$TreeRow TreeRangeMap$AsMapOfRanges""",
    "kotlin.collections.": "EmptyMap MapWithDefaultImpl MutableMapWithDefaultImpl builders.MapBuilder",
    "": "org.json.simple.JSONObject net.minidev.json.JSONObject",
    "org.eclipse.collections.impl.": "map.mutable.UnifiedMap",
}


def _named(table: Mapping[str, str], *others: str) -> Iterator[str]:
    for package, names in table.items():
        yield from (package + name for name in names.split())
    yield from others


def _wrappers(kinds: tuple[str, ...]) -> Iterator[str]:
    for wrapper in ("Checked", "Synchronized", "Unmodifiable"):
        yield from (f"java.util.Collections${wrapper}{kind}" for kind in kinds)


COLLECTIONS = frozenset([*_named(_COLLECTIONS), *_wrappers(_KINDS_OF_SETS)])
"""Classes with the bytes of an ArrayList in every version of Kryo."""
MAPS = frozenset([*_named(_MAPS), *_wrappers(_KINDS_OF_MAPS)])
"""Classes with the bytes of a HashMap."""

ABSTRACT = frozenset(
    [
        *(
            f"com.google.common.collect.{name}"
            for name in (
                *("ImmutableCollection", "ImmutableList", "ImmutableSet", "ImmutableSortedSet", "ImmutableMap"),
                *("ImmutableBiMap", "ImmutableMultiset", "ImmutableSortedMultiset", "Multiset", "SortedMultiset"),
                *("BiMap", "ContiguousSet", "ClassToInstanceMap"),
            )
        ),
        *(
            f"kotlin.collections.{name}"
            for name in ("AbstractList", "AbstractMap", "AbstractSet", "AbstractCollection")
        ),
        "java.util.Map$Entry",
        "java.util.Comparator",
        *(f"java.util.{name}" for name in ("AbstractCollection", "AbstractSet", "AbstractQueue", "Dictionary")),
        *(f"java.util.concurrent.{name}" for name in ("BlockingQueue", "BlockingDeque", "TransferQueue")),
        "java.util.concurrent.ConcurrentNavigableMap",
    ]
)
"""Abstract types of such classes: every value names its own class."""


def _fields(name: str, variables: Sequence[str], final: bool, **types: str) -> UserClass:
    fields = tuple((field, FieldType(type_)) for field, type_ in types.items())
    return UserClass(name, fields, variables=tuple(variables), final=final, form=CLASS)


def _tuple(arity: int) -> UserClass:
    fields = {f"f{i}": f"T{i}" for i in range(arity)}
    return _fields(f"org.apache.flink.api.java.tuple.Tuple{arity}", tuple(fields.values()), False, **fields)


_ENUMS = {
    "time.DayOfWeek": "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY",
    "time.Month": "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER",
    "time.temporal.ChronoUnit": "NANOS MICROS MILLIS SECONDS MINUTES HOURS HALF_DAYS DAYS WEEKS MONTHS YEARS DECADES "
    "CENTURIES MILLENNIA ERAS FOREVER",
    "math.RoundingMode": "UP DOWN CEILING FLOOR HALF_UP HALF_DOWN HALF_EVEN UNNECESSARY",
}
KNOWN_CLASSES: Mapping[str, UserClass] = {
    known.name: known
    for known in (
        _fields("java.util.AbstractMap$SimpleEntry", "KV", False, key="K", value="V"),
        _fields("java.util.AbstractMap$SimpleImmutableEntry", "KV", False, key="K", value="V"),
        _fields("java.util.Collections$ReverseComparator2", "", False, cmp="java.util.Comparator"),
        _fields("kotlin.Pair", "AB", True, first="A", second="B"),
        _fields("kotlin.Triple", "ABC", True, first="A", second="B", third="C"),
        UserClass("java.util.Comparators$NaturalOrderComparator", constants=("INSTANCE",), final=True),
        *(_tuple(arity) for arity in range(1, 26)),
        *(UserClass(f"java.{name}", constants=tuple(text.split()), final=True) for name, text in _ENUMS.items()),
    )
}
"""Classes of the JDK, Flink and Kotlin that FieldSerializer writes, and enums, described as the user's are."""


EMPTY_BODIES = {2: (b"\0", b"\0\0"), 5: (b"\1", b"\1\0")}
"""What Kryo writes for an empty Map or Collection, and for an empty one that has a place for a comparator."""
SEARCHED_FORMS = ("java.util.HashMap", "java.util.ArrayList", "java.util.TreeMap", "java.util.TreeSet")
"""The forms that are tried to find out why descriptions do not fit."""


_PLAIN_FORMS = ("map<String, Object>", "list<Object>")


class Ambiguous(UnsupportedSnapshot):
    """Bytes that several descriptions fit, with different values."""

    @classmethod
    def of(cls, value: KryoObject, body: bytes) -> Ambiguous:
        """The error for an object whose bytes are those of an empty map, too."""
        name = value.class_name
        fields = ", ".join(f"{field} = {shown}" for field, shown in value.fields.items())
        forms = ("java.util.TreeMap<Object, Object>", "java.util.TreeSet<Object>") if len(body) > 1 else _PLAIN_FORMS
        return cls(
            f"an object of class {name!r} has the bytes of an empty Map or Collection as well as those of its "
            f"described fields ({fields}); Kryo does not write the fields of Maps and Collections",
            advice=f'it may be a Map or a Collection: describe it as "{name}": "{forms[0]}" or '
            f'"{forms[1]}", or say that it is a class with fields: "class {name}": {{…}} ("record {name}" for a '
            "record)",
        )


@dataclass
class Doubts:
    """What one walk over a value has assumed.

    unconfirmed: why the value must end where its range ends to be believed. ambiguous: what to raise if the value is
    sound otherwise. weak: the classes of maps and collections that were empty or began with null when they were read as
    not sorted. met: the described classes whose objects the value contains. comparing: a comparator is being read.
    """

    unconfirmed: SnapshotError | None = None
    ambiguous: SnapshotError | None = None
    weak: set[str] = field(default_factory=set)
    met: dict[str, None] = field(default_factory=dict)
    comparing: bool = False

    def checked(self, value: KryoObject, described: UserClass, data: KryoInput, start: int) -> KryoObject:
        """Return the value, which begins at ``start``; note if it has the bytes of an empty Map."""
        cursor = data.cursor
        body = bytes(cursor.data[start : min(cursor.pos, start + 3)])
        if may_be_collection(described) and body in EMPTY_BODIES[data.version]:
            self.ambiguous = Ambiguous.of(value, body).at(file=cursor.file, offset=cursor.base + start)
        return value


def description(setting: KryoSetting, name: str) -> UserClass | None:
    """Return the description of a class: the user's, or that of a known class with fields."""
    return setting.classes.get(name) or KNOWN_CLASSES.get(name)


def may_be_collection(described: UserClass) -> bool:
    """Return whether an empty Map or Collection can have the bytes of the class for all that its description says."""
    return described.form is None and described.interfaces is None and len(described.fields) == 1


def pushes_arguments(described: UserClass, version: int, guesses: Guesses) -> bool:
    """Return whether Kryo knew the type arguments of fields: FieldSerializer does, Kryo 5's RecordSerializer does not.

    It is guessed where the description does not say what the class is and it matters.
    """
    if version < 5 or described.form is not None:
        return version < 5 or described.form != RECORD
    if described.final is False or not has_arguments(described):
        return True
    return not guesses.record(described.name)


def has_arguments(described: UserClass) -> bool:
    """Whether any field has a type with arguments."""
    return any(_has_arguments(type_) for _, type_ in described.fields)


def _has_arguments(type_: FieldType) -> bool:
    return any(not type_.array or _has_arguments(arg) for arg in type_.args)


def searched_form(name: str, setting: KryoSetting, guesses: Guesses) -> str | None:
    """Guess as what an object is read whose description may be wrong: as described (None), or a Map or Collection."""
    described = description(setting, name)
    if not setting.search_forms or (described is not None and (described.form or described.like or described.is_enum)):
        return None
    chosen = guesses.form(name, 1 + len(SEARCHED_FORMS))
    return SEARCHED_FORMS[chosen - 1] if chosen else None


def encloses(type_: FieldType, value: Any, setting: KryoSetting) -> bool:
    """Return whether a value can be the enclosing object of a declared type: never null, of the class or a subclass."""
    if isinstance(value, Cycle):
        return True
    if not isinstance(value, KryoObject):
        return isinstance(value, Text) or (value is not None and type_.name.startswith("java."))
    declared, own = setting.classes.get(type_.name), setting.classes.get(value.class_name)
    if value.class_name == type_.name or type_.name.startswith("java."):
        return True
    if declared is None or own is None:
        return own is not None and own.parent == type_.name
    return own.parent == declared.name or set(declared.fields) < set(own.fields)


def keys_of(value: Any) -> list[Any]:
    """Return the keys of a map, the elements of a collection."""
    return [key for key, _ in value.pairs] if isinstance(value, KryoMap) else value or []
