"""Bodies of Scala's values in Kryo 2, as flink-scala has them written: chill's serializers, and fields of Scala 2.12.

After the class and the mark (an element is an object by its class):

* Some, Left, Right, Success, Failure: an element. TupleN: N elements; with an id and specialised: big-endian numbers;
  specialised otherwise: fields _1 (null), _1$mcX$sp, _2 (null), _2$mcX$sp
* Symbol, Regex: a string without a mark. BoxedUnit and objects (classes whose names end with $): nothing
* Enumeration#Value: the enumeration as element, i32 id. Manifest: see _manifest
* others: FieldSerializer's fields in the order of their names

Defined by com.twitter.chill and org.apache.flink.runtime.types.FlinkScalaKryoInstantiator. ``CHILL_BODIES`` are read so
only where chill's serializers wrote them; without flink-scala those classes are written by their fields.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from stateproc.codec.kryo.types import FieldType
from stateproc.codec.kryo.values import KryoMap, KryoNumber, KryoObject, NumberRange, Text
from stateproc.codec.kryo.walker import Body, Walker

# Bodies of Scala's collections in Kryo 2, written by chill's serializers and by FieldSerializer.
#
# After the class and the mark (an element is an object by its class):
#
# * collections: varint n, n elements; maps: n elements that are Tuple2; sorted ones: the Ordering as element after n
# * immutable BitSet: varint n, varint of the last (n > 0), n varints, each the distance from the one before
# * Nil and most of the empty collections that are objects: varint 0; the empty Set and Stream: nothing
# * WrappedArray: a new object, the class of its components; the array as element
# * others: FieldSerializer's fields in the order of their names, synthetic ones too
#
# Defined by com.twitter.chill and org.apache.flink.runtime.types.FlinkScalaKryoInstantiator.

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
    "scala.collection.MapLike$DefaultValuesIterable": lambda w, type_: [value for _, value in _outer_map(w)],
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


EITHER = "scala.util.Either"
_MATH_CONTEXT, _ROUNDING, _TIME_UNIT = (
    "java.math.MathContext",
    "java.math.RoundingMode",
    "java.util.concurrent.TimeUnit",
)
_ROUNDING_MODES = 8
_UNITS = ("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS")
_MANIFESTS = (
    *("Any", "AnyVal", "Boolean", "Byte", "Char", "Double", "Float", "Int"),
    *("Long", "Nothing", "Null", "Object", "Short", "Unit"),
)
_MOST_ARGUMENTS = 32
_PRIMITIVES = {"J": "long", "I": "int", "D": "double", "C": "char", "Z": "boolean"}


def _side(w: Walker, type_: FieldType, *, class_name: str, side: str) -> KryoObject:
    return KryoObject(class_name, {side: w.by_class()})


def _unit(w: Walker, type_: FieldType) -> KryoObject:
    return KryoObject(type_.name)


def _named(w: Walker, type_: FieldType, *, text: str) -> Text:
    return Text(text)


def singleton(w: Walker, type_: FieldType) -> Text:
    """Return the name of a Scala object, which has no body."""
    return Text(type_.name.removesuffix("$"))


# --- tuples -----------------------------------------------------------------------------------------------
def _tuple(w: Walker, type_: FieldType, *, n: int) -> KryoObject:
    return KryoObject(f"scala.Tuple{n}", {f"_{i}": w.by_class() for i in range(1, n + 1)})


def _tuple_by_name(w: Walker, type_: FieldType, *, n: int) -> KryoObject:
    names = [f"_{i}" for i in range(1, n + 1)]
    values = {name: w.by_class() for name in sorted(names)}
    return KryoObject(f"scala.Tuple{n}", {name: values[name] for name in names})


def _fixed_tuple(w: Walker, type_: FieldType, *, kinds: str) -> KryoObject:
    values = {f"_{i}": w.data.fixed(_PRIMITIVES[kind]) for i, kind in enumerate(kinds, 1)}
    return KryoObject(f"scala.Tuple{len(kinds)}", values)


def _specialised_tuple(w: Walker, type_: FieldType, *, kinds: str) -> KryoObject:
    values = {}
    for i, kind in enumerate(kinds, 1):
        at = w.data.cursor.pos
        if w.by_class() is not None:
            w.data.cursor.corrupt(f"a specialised tuple with an object as field _{i}", at=at)
        values[f"_{i}"] = w.data.primitive(_PRIMITIVES[kind])
    return KryoObject(f"scala.Tuple{len(kinds)}", values)


# --- numbers and times ------------------------------------------------------------------------------------
def _big_decimal(w: Walker, type_: FieldType) -> KryoNumber | None:
    """BigDecimal: bigDecimal, computedHashCode, mc."""
    number = w.by_class()
    w.data.zigzag()
    w.known(FieldType(_MATH_CONTEXT, final=True))
    return _expect_number(w, number)


def _expect_number(w: Walker, value: Any) -> KryoNumber | None:
    if value is not None and not isinstance(value, KryoNumber):
        w.data.cursor.corrupt("a big number of Scala without Java's number in it")
    return value


def _math_context(w: Walker, type_: FieldType) -> Text:
    """MathContext: precision, roundingMode."""
    precision = w.data.zigzag()
    w.known(FieldType(_ROUNDING, final=True))
    return Text(f"precision={precision}")


def _constant(w: Walker, type_: FieldType, *, n: int) -> int:
    """Read an enum's constant, varint ordinal + 1."""
    at = w.data.cursor.pos
    ordinal = w.data.varint() - 1
    if not 0 <= ordinal < n:
        w.data.cursor.corrupt(f"constant {ordinal} of {type_.name}, which has {n}", at=at)
    return ordinal


def _finite_duration(w: Walker, type_: FieldType) -> Text:
    """FiniteDuration: length, unit. TimeUnit is final since Java 9; before, its constants had classes of their own."""
    length = w.data.zigzag_long()
    at = w.data.cursor.pos
    by_class = w.guesses.final(_TIME_UNIT)
    unit = str(w.by_class() if by_class else w.known(FieldType(_TIME_UNIT, final=True)))
    if unit not in _UNITS:
        w.data.cursor.corrupt("a FiniteDuration without its unit", at=at)
    return Text(f"{length} {unit.lower()[:-1] if abs(length) == 1 else unit.lower()}")


def _deadline(w: Walker, type_: FieldType) -> Any:
    return w.known(FieldType("scala.concurrent.duration.FiniteDuration", final=True))


def _enumeration_value(w: Walker, type_: FieldType) -> Any:
    """The enumeration as element, i32 id; its constants are known where the enumeration is described as an enum."""
    at = w.data.cursor.pos
    enumeration = w.by_class()
    number = w.data.fixed("int")
    if not isinstance(enumeration, Text):
        w.data.cursor.corrupt("a value of an Enumeration without the enumeration", at=at)
    name = enumeration.text
    described = w.enum(f"{name}$") or w.enum(name)
    if described is None:
        return KryoObject(type_.name, {"enumeration": name, "id": number})
    if not 0 <= number < len(described.constants):
        w.data.cursor.corrupt(f"value {number} of {name}, which has {len(described.constants)} as described", at=at)
    return described.constants[number]


def _manifest(w: Walker, type_: FieldType) -> Text:
    """ManifestSerializer: varint n + 1 of a type without class; or 0, the class, the number of arguments, these."""
    at = w.data.cursor.pos
    number = w.data.varint()
    if number:
        if number > len(_MANIFESTS):
            w.data.cursor.corrupt(f"type {number} of {len(_MANIFESTS)} in a Manifest", at=at)
        return Text(f"scala.{_MANIFESTS[number - 1]}")
    name = w.known(FieldType("java.lang.Class"), nullable=False)
    n = w.data.count(w.data.varint(), "type arguments")
    if n > _MOST_ARGUMENTS:
        w.data.cursor.corrupt(f"a Manifest with {n} type arguments", at=at)
    args = ", ".join(str(_manifest(w, type_)) for _ in range(n))
    return Text(f"{name}[{args}]" if args else f"{name}")


def _ordering(w: Walker, type_: FieldType, *, n: int) -> Text:
    """An Ordering made of others: its fields."""
    for _ in range(n):
        w.by_class()
    return Text(type_.name)


_ANONYMOUS_ORDERINGS: dict[str, int] = {
    "Ordering$$anon$3": 1,
    "Ordering$$anon$4": 1,
    "Ordering$$anon$11": 1,
    "Ordering$ExtraImplicits$$anon$8": 1,
    "Ordering$DoubleOrdering$$anon$2": 1,
    "Ordering$FloatOrdering$$anon$1": 1,
    "LowPriorityOrderingImplicits$$anon$7": 1,
    **{f"Ordering$$anon${10 + n}": n for n in range(2, 10)},
}
CHILL_BODIES: dict[str, Body] = {
    **{f"scala.Tuple{n}": partial(_tuple, n=n) for n in range(1, 23)},
    **{f"scala.Tuple1$mc{kind}$sp": partial(_fixed_tuple, kinds=kind) for kind in "JID"},
    **{f"scala.Tuple2$mc{a}{b}$sp": partial(_fixed_tuple, kinds=a + b) for a in "JID" for b in "JID"},
    **CHILL_COLLECTIONS,
    "scala.Symbol": lambda w, type_: w.data.string(),
    "scala.runtime.BoxedUnit": _unit,
    "scala.util.matching.Regex": lambda w, type_: Text(w.data.string() or ""),
    "scala.Enumeration$Val": _enumeration_value,
    **{f"scala.reflect.ManifestFactory${name}Manifest": _manifest for name in (*_MANIFESTS, "ClassType")},
}
"""Classes that chill's serializers write."""

NAMED_BODIES: dict[str, Body] = {
    **{f"scala.Tuple{n}": partial(_tuple_by_name, n=n) for n in range(1, 23)},
    **{f"scala.Tuple1$mc{kind}$sp": partial(_specialised_tuple, kinds=kind) for kind in "JID"},
    **{f"scala.Tuple2$mc{a}{b}$sp": partial(_specialised_tuple, kinds=a + b) for a in "JID" for b in "JID"},
    "scala.Symbol": lambda w, type_: w.known(FieldType("java.lang.String")),
    "scala.runtime.BoxedUnit": _unit,
}
"""Classes with an id in flink-scala, as they are written by their names, without it."""

FIELD_BODIES: dict[str, Body] = {
    "scala.Some": _element,
    "scala.None$": lambda w, type_: None,
    "scala.util.Left": partial(_side, class_name=EITHER, side="left"),
    "scala.util.Right": partial(_side, class_name=EITHER, side="right"),
    "scala.util.Success": partial(_side, class_name="scala.util.Try", side="success"),
    "scala.util.Failure": partial(_side, class_name="scala.util.Try", side="failure"),
    **{
        f"scala.Tuple2$mc{a}{b}$sp": partial(_specialised_tuple, kinds=a + b)
        for a in "JIDCZ"
        for b in "JIDCZ"
        if "C" in a + b or "Z" in a + b
    },
    **FIELD_COLLECTIONS,
    f"{IMMUTABLE}.WrappedString": lambda w, type_: w.known(FieldType("java.lang.String")),
    f"{MUTABLE}.StringBuilder": lambda w, type_: w.known(FieldType("java.lang.StringBuilder")),
    "scala.math.BigDecimal": _big_decimal,
    "scala.math.BigInt": lambda w, type_: _expect_number(w, w.by_class()),
    _MATH_CONTEXT: _math_context,
    _ROUNDING: partial(_constant, n=_ROUNDING_MODES),
    _TIME_UNIT: lambda w, type_: Text(_UNITS[_constant(w, type_, n=len(_UNITS))]),
    "java.util.Comparators$NaturalOrderComparator": partial(_constant, n=1),
    "scala.concurrent.duration.FiniteDuration": _finite_duration,
    "scala.concurrent.duration.Deadline": _deadline,
    "scala.concurrent.duration.Duration$$anon$1": partial(_named, text="Duration.Undefined"),
    "scala.concurrent.duration.Duration$$anon$2": partial(_named, text="Duration.Inf"),
    "scala.concurrent.duration.Duration$$anon$3": partial(_named, text="Duration.MinusInf"),
    "scala.reflect.ClassTag$GenericClassTag": lambda w, type_: w.known(FieldType("java.lang.Class")),
    **{f"scala.math.{name}": partial(_ordering, n=n) for name, n in _ANONYMOUS_ORDERINGS.items()},
}
"""Classes that FieldSerializer writes, or a serializer that writes the same bytes."""
