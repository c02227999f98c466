"""Name the classes that Kryo writes as maps or collections, of the JDK and of libraries whose values jobs keep.

Kryo takes MapSerializer for every class that implements Map, CollectionSerializer for every Collection: such a class
has the bytes of a HashMap or an ArrayList, its own fields are not written. A class that is not named here needs a
description ("com.acme.Props": "map<String, Object>").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stateproc.codec.kryo.types import CLASS, FieldType, UserClass

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


def _fields(name: str, variables: str, final: bool, **types: str) -> UserClass:
    fields = tuple((field, FieldType(type_)) for field, type_ in types.items())
    return UserClass(name, fields, variables=tuple(variables), final=final, form=CLASS)


KNOWN_CLASSES: Mapping[str, UserClass] = {
    known.name: known
    for known in (
        _fields("java.util.AbstractMap$SimpleEntry", "KV", False, key="K", value="V"),
        _fields("java.util.AbstractMap$SimpleImmutableEntry", "KV", False, key="K", value="V"),
        _fields("java.util.Collections$ReverseComparator2", "", False, cmp="java.util.Comparator"),
        _fields("kotlin.Pair", "AB", True, first="A", second="B"),
        _fields("kotlin.Triple", "ABC", True, first="A", second="B", third="C"),
        UserClass("java.util.Comparators$NaturalOrderComparator", constants=("INSTANCE",), final=True),
    )
}
"""Classes of the JDK and of Kotlin that FieldSerializer writes, described as the user's are."""
