"""Bodies of Scala's collections in Kryo 2, written by chill's serializers and by FieldSerializer.

After the class and the mark (an element is an object by its class):

* collections: varint n, n elements; maps: n elements that are Tuple2; sorted ones: the Ordering as element after n
* immutable BitSet: varint n, varint of the last (n > 0), n varints, each the distance from the one before
* Nil and most of the empty collections that are objects: varint 0; the empty Set and Stream: nothing
* WrappedArray: a new object, the class of its components; the array as element
* others: FieldSerializer's fields in the order of their names, synthetic ones too

Defined by com.twitter.chill and org.apache.flink.runtime.types.FlinkScalaKryoInstantiator.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from stateproc.codec.kryo.types import FieldType
from stateproc.codec.kryo.values import KryoMap, KryoObject, NumberRange, Text
from stateproc.codec.kryo.walker import Body, Walker

IMMUTABLE, MUTABLE = "scala.collection.immutable", "scala.collection.mutable"
_WRAPPERS = "scala.collection.convert.Wrappers$"


def _element(w: Walker, type_: FieldType) -> Any:
    return w.by_class()


def _elements(w: Walker, type_: FieldType, *, ordered: bool = False) -> list[Any]:
    n = w.data.varint()
    if ordered:
        w.by_class()
    return [w.by_class() for _ in range(w.data.count(n, "elements"))]


def _map(w: Walker, type_: FieldType, *, ordered: bool = False) -> KryoMap:
    n = w.data.varint()
    if ordered:
        w.by_class()
    return KryoMap([_entry(w) for _ in range(w.data.count(n, "entries"))])


def _entry(w: Walker) -> tuple[Any, Any]:
    at = w.data.cursor.pos
    entry = w.by_class()
    if not isinstance(entry, KryoObject) or entry.class_name != "scala.Tuple2":
        w.data.cursor.corrupt("an entry of a Scala map that is no Tuple2", at=at)
    return entry.fields["_1"], entry.fields["_2"]


def _bit_set(w: Walker, type_: FieldType) -> list[int]:
    n = w.data.count(w.data.varint(), "bits")
    if not n:
        return []
    at = w.data.cursor.pos
    last, bit, bits = w.data.varint(), 0, []
    for _ in range(n):
        bit += w.data.varint()
        bits.append(bit)
    if bit != last:
        w.data.cursor.corrupt(f"a BitSet that ends with {bit}, not with {last}", at=at)
    return bits


def _no_elements(w: Walker, type_: FieldType) -> list[Any]:
    return []


def _one_element_set(w: Walker, type_: FieldType) -> list[Any]:
    """HashSet1: hash, key."""
    w.data.zigzag()
    return [w.by_class()]


def _set_of_one_hash(w: Walker, type_: FieldType) -> list[Any]:
    """HashSetCollision1: hash, the elements as ListSet."""
    w.data.zigzag()
    return _expect_list(w, w.by_class())


def _wrapped_array(w: Walker, type_: FieldType) -> Any:
    w.known(FieldType("java.lang.Class"), nullable=False)
    return w.by_class()


def _array_sequence(w: Walker, type_: FieldType) -> list[Any]:
    """ArraySeq: array, length."""
    items, length = _expect_list(w, w.by_class()), w.data.zigzag()
    if length != len(items):
        w.data.cursor.corrupt(f"an ArraySeq of {length} elements in an array of {len(items)}")
    return items


def _array_stack(w: Walker, type_: FieldType) -> list[Any]:
    """ArrayStack: the number of elements, an array with the bottom first."""
    n, items = w.data.zigzag(), _expect_list(w, w.by_class())
    if not 0 <= n <= len(items):
        w.data.cursor.corrupt(f"an ArrayStack of {n} elements in an array of {len(items)}")
    return items[:n][::-1]


def _expect_list(w: Walker, value: Any) -> list[Any]:
    if not isinstance(value, list):
        w.data.cursor.corrupt("a Scala collection without its elements")
    return value


def _outer(w: Walker) -> None:
    """Read the enclosing object of a wrapper, which is the object Wrappers."""
    at = w.data.cursor.pos
    outer = w.by_class()
    if not isinstance(outer, Text):
        w.data.cursor.corrupt("a wrapper of a collection without its enclosing object", at=at)


def _wrapper(w: Walker, type_: FieldType) -> Any:
    _outer(w)
    return w.by_class()


def _java_elements(w: Walker, type_: FieldType) -> list[Any]:
    """A wrapper that is a Java collection: CollectionSerializer."""
    return [w.by_class() for _ in range(w.data.count(w.data.varint(), "elements"))]


def _java_entries(w: Walker, type_: FieldType) -> KryoMap:
    """A wrapper that is a Java map: MapSerializer."""
    return KryoMap([(w.by_class(), w.by_class()) for _ in range(w.data.count(w.data.varint(), "entries", 2))])


def _keys(w: Walker, type_: FieldType) -> list[Any]:
    return [key for key, _ in _outer_map(w)]


def _keys_of_hash_map(w: Walker, type_: FieldType) -> list[Any]:
    """keySet of a mutable HashMap: the map twice, once for each class of the view."""
    keys = _keys(w, type_)
    _outer_map(w)
    return keys


def _values(w: Walker, type_: FieldType) -> list[Any]:
    return [value for _, value in _outer_map(w)]


def _outer_map(w: Walker) -> list[tuple[Any, Any]]:
    at = w.data.cursor.pos
    outer = w.by_class()
    if not isinstance(outer, KryoMap):
        w.data.cursor.corrupt("a view of a Scala map without the map", at=at)
    return outer.pairs


def _range(w: Walker, type_: FieldType, *, inclusive: bool) -> NumberRange:
    """Range: end, isEmpty, lastElement, numRangeElements, start, step."""
    at = w.data.cursor.pos
    end, empty, last, n, start, step = (
        w.data.boolean() if name == "isEmpty" else w.data.zigzag()
        for name in ("end", "isEmpty", "lastElement", "numRangeElements", "start", "step")
    )
    numbers = range(start, end + (1 if step > 0 else -1) * inclusive, step) if step else range(0)
    # numRangeElements is -1 where it exceeds an Int; lastElement of an empty range is start - step.
    shown = len(numbers) if len(numbers) < 1 << 31 else -1
    fits = bool(step) and empty == (not numbers) and n == shown and (empty or last == numbers[-1])
    if not fits:
        w.data.cursor.corrupt(f"a Range from {start} to {end} by {step} with {n} elements and the last {last}", at=at)
    return NumberRange(str(start), str(end), str(step), inclusive, numbers)


def _numeric_range(w: Walker, type_: FieldType, *, inclusive: bool) -> NumberRange:
    """NumericRange: bitmap$0, end, hashCode, isInclusive, last, num (twice), numRangeElements, start, step."""
    w.data.primitive("byte")
    end = w.by_class()
    w.data.zigzag()
    at = w.data.cursor.pos
    if w.data.boolean() != inclusive:
        w.data.cursor.corrupt(f"a {type_.name} that says the opposite", at=at)
    for _ in ("last", "num", "num"):
        w.by_class()
    w.data.zigzag()
    start, step = w.by_class(), w.by_class()
    numbers = None
    if all(isinstance(part, int) for part in (start, end, step)) and step:
        numbers = range(start, end + (1 if step > 0 else -1) * inclusive, step)
    return NumberRange(str(start), str(end), str(step), inclusive, numbers)


def _all(names: str, body: Body, prefix: str) -> dict[str, Body]:
    return {f"{prefix}{name}": body for name in names.split()}


_SORTED, _SORTED_MAP = partial(_elements, ordered=True), partial(_map, ordered=True)
_EMPTY_COLLECTIONS = (
    *("Nil$", "Queue$EmptyQueue$", "ListSet$EmptyListSet$", "Map$EmptyMap$", "HashMap$EmptyHashMap$"),
    *("ListMap$EmptyListMap$", "LongMap$Nil$", "IntMap$Nil$"),
)
"""Objects that TraversableSerializer writes, with the number 0."""

CHILL_COLLECTIONS: dict[str, Body] = {
    **_all("$colon$colon Vector Queue ListSet$Node ListSet HashSet$HashTrieSet", _elements, f"{IMMUTABLE}."),
    **_all("Set$Set1 Set$Set2 Set$Set3 Set$Set4", _elements, f"{IMMUTABLE}."),
    **_all(
        "ArrayBuffer ListBuffer Queue HashSet LinkedHashSet TreeSet BitSet UnrolledBuffer", _elements, f"{MUTABLE}."
    ),
    **_all("Map$Map1 Map$Map2 Map$Map3 Map$Map4 Map$WithDefault ListMap ListMap$Node", _map, f"{IMMUTABLE}."),
    **_all("HashMap$HashTrieMap HashMap$HashMap1 HashMap$HashMapCollision1", _map, f"{IMMUTABLE}."),
    **_all("MapLike$$anon$1 MapLike$$anon$2 LongMap$Bin LongMap$Tip IntMap$Bin IntMap$Tip", _map, f"{IMMUTABLE}."),
    **_all("HashMap LinkedHashMap OpenHashMap WeakHashMap ListMap AnyRefMap LongMap TreeMap", _map, f"{MUTABLE}."),
    "scala.collection.concurrent.TrieMap": _map,
    **_all("JSetWrapper", _elements, _WRAPPERS),
    **_all("JConcurrentMapWrapper JPropertiesWrapper JDictionaryWrapper", _map, _WRAPPERS),
    **{f"{IMMUTABLE}.{name}": _map if "Map" in name else _elements for name in _EMPTY_COLLECTIONS},
    f"{IMMUTABLE}.TreeSet": _SORTED,
    "scala.Enumeration$ValueSet": _SORTED,
    f"{IMMUTABLE}.TreeMap": _SORTED_MAP,
    **_all("BitSet$BitSet1 BitSet$BitSet2 BitSet$BitSetN", _bit_set, f"{IMMUTABLE}."),
    **_all("ofRef ofInt ofLong ofDouble ofFloat", _wrapped_array, f"{MUTABLE}.WrappedArray$"),
    **_all("ofShort ofByte ofChar ofBoolean ofUnit", _wrapped_array, f"{MUTABLE}.WrappedArray$"),
    **_all("SeqWrapper MapWrapper JListWrapper JMapWrapper", _wrapper, _WRAPPERS),
    **_all("JCollectionWrapper JIterableWrapper DictionaryWrapper", _wrapper, _WRAPPERS),
    f"{_WRAPPERS}IterableWrapper": _element,
    f"{MUTABLE}.HashMap$$anon$1": _keys_of_hash_map,
    f"{IMMUTABLE}.MapLike$ImmutableDefaultKeySet": _keys,
    "scala.collection.MapLike$DefaultKeySet": _keys,
    "scala.collection.MapLike$DefaultValuesIterable": _values,
}
"""Collections that chill's serializers write."""

FIELD_COLLECTIONS: dict[str, Body] = {
    **_all("Set$EmptySet$ HashSet$EmptyHashSet$ Stream$Empty$", _no_elements, f"{IMMUTABLE}."),
    f"{IMMUTABLE}.HashSet$HashSet1": _one_element_set,
    f"{IMMUTABLE}.Range": partial(_range, inclusive=False),
    f"{IMMUTABLE}.Range$Inclusive": partial(_range, inclusive=True),
    f"{IMMUTABLE}.NumericRange$Exclusive": partial(_numeric_range, inclusive=False),
    f"{IMMUTABLE}.NumericRange$Inclusive": partial(_numeric_range, inclusive=True),
    f"{IMMUTABLE}.HashSet$HashSetCollision1": _set_of_one_hash,
    f"{MUTABLE}.ArraySeq": _array_sequence,
    f"{MUTABLE}.ArrayStack": _array_stack,
    f"{MUTABLE}.Stack": _element,
    **_all("MutableSeqWrapper MutableBufferWrapper SetWrapper MutableSetWrapper", _java_elements, _WRAPPERS),
    **_all("MutableMapWrapper ConcurrentMapWrapper", _java_entries, _WRAPPERS),
}
"""Collections that FieldSerializer writes, and Kryo's serializers of Java collections."""
