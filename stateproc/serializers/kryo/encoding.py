"""Encode Kryo values: numbers, strings, dates, UUIDs, enum constants; described classes, lists and maps of these.

A value has one class by name, its own; those of objects inside have ids, or follow from a field's type. All else is
read only.

Every object is written as a new one. Java gives an object that occurs twice in a value a reference the second time,
which no column represents; readers create two equal objects from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stateproc.codec import arrow_arrays as arrays
from stateproc.codec.array_types import Longs
from stateproc.codec.encoding import list_encoding
from stateproc.codec.encoding.kryo import flagged_varints, strings
from stateproc.codec.encoding.sized_writers import (
    SizedWriter,
    concatenate,
    constant_bytes,
    fixed,
    locate_errors,
    scatter,
    varints,
)
from stateproc.codec.kryo.classes import BY_NAME, ID_BIAS, PRIMITIVE_IDS, REGISTRAR_BASE, REGISTRAR_IDS, USER_BASE
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.types import BOXES, FINAL_CLASSES, STRING, FieldType, UserClass, in_java_order, is_synthetic
from stateproc.codec.layouts.base import Unwritable
from stateproc.codec.temporal import Fidelity
from stateproc.serializers.kryo.columns import KryoColumn
from stateproc.serializers.kryo.leaf_bodies import leaf_body, varint

_NULL, _NEW = b"\0", b"\1"
_FLAG = 0x80
# The longest string that is written in ASCII form, the longest class name.
_LONGEST_ASCII = {2: 63, 5: 32}
_LISTS = {"Collection": "ArrayList", "List": "ArrayList", "Set": "HashSet"}
_LISTS |= {name: name for name in ("ArrayList", "LinkedList", "HashSet", "LinkedHashSet", "Vector", "ArrayDeque")}
_MAPS = {"Map": "HashMap", "HashMap": "HashMap", "LinkedHashMap": "LinkedHashMap"}


@dataclass(frozen=True)
class KryoWriter:
    """Writes values of Kryo.writeClassAndObject as the setting's release does."""

    setting: KryoSetting
    modes: Fidelity

    def measure(self, type_: FieldType, column: KryoColumn, array: pa.Array) -> SizedWriter:
        """Write a whole value: class and object, or null. Raises Unencodable, Unwritable."""
        name = self._class_of(type_, column)
        return _nullable(
            array,
            lambda some: concatenate([constant_bytes(self._reference(name, True)), self._known(type_, column, some)]),
        )

    def _class_of(self, type_: FieldType, column: KryoColumn) -> str:
        """Return the class that values are written as."""
        if self.setting.serializer_of(type_.name).own:
            raise Unwritable(f"class {type_.name!r} has a Kryo serializer of its own: values are read only")
        package, _, simple = type_.name.rpartition(".")
        made = {"list": _LISTS, "map": _MAPS}.get(column.kind)
        if made is None:
            return type_.name
        if package != "java.util" or simple not in made:
            raise Unwritable(f"Kryo values of class {type_.name!r} are read only")
        return f"java.util.{made[simple]}"

    def _reference(self, name: str, first: bool) -> bytes:
        """Encode a class by its id (as clusters assign it), or the value's first class by its name."""
        for base, names in (
            (0, PRIMITIVE_IDS),
            (REGISTRAR_BASE, REGISTRAR_IDS),
            (USER_BASE, self.setting.registrations),
        ):
            if name in names:
                return varint(base + names.index(name) + ID_BIAS)
        if not first or not name.isascii() or not 1 < len(name) <= _LONGEST_ASCII[2]:
            raise Unwritable(f"Kryo values with objects of class {name!r} inside are read only")
        return bytes([BY_NAME, 0]) + name[:-1].encode() + bytes([ord(name[-1]) | 0x80])

    def _known(self, type_: FieldType, column: KryoColumn, array: pa.Array) -> SizedWriter:
        """Write objects after their class, none null."""
        if self._unmarked(type_):
            return self._body(type_, column, array)
        return concatenate([constant_bytes(_NEW), self._body(type_, column, array)])

    def _enum(self, type_: FieldType) -> UserClass | None:
        described = self.setting.classes.get(type_.name)
        return described if described is not None and described.is_enum else None

    def _unmarked(self, type_: FieldType) -> bool:
        """Whether no reference mark stands before such objects."""
        return type_.name in BOXES or (self.setting.version >= 5 and self._enum(type_) is not None)

    def _body(self, type_: FieldType, column: KryoColumn, array: pa.Array) -> SizedWriter:
        if type_.name == STRING:
            return strings(array, _LONGEST_ASCII[self.setting.version])
        if column.kind == "list" and type_.args:
            return self._list(type_.args[0], column.children[0][1], array)
        if column.kind == "map" and type_.args:
            return self._map(type_, column, array)
        if column.kind == "struct":
            return self._struct(type_, column, array)
        body = leaf_body(type_.name, self.setting.version, self.modes, column.type, self._enum(type_))
        if body is None or column.kind == "json":
            raise Unwritable(f"Kryo values of class {type_.name!r} are read only")
        return body.measure(array)

    def _struct(self, type_: FieldType, column: KryoColumn, array: pa.Array) -> SizedWriter:
        """Write the fields in the order of their names: primitives, and objects of final classes after a mark."""
        described = self.setting.classes.get(type_.name)
        if described is None:
            raise Unwritable(f"Kryo values of class {type_.name!r} are read only")
        if column.classes != (described.name,) or described.variables:
            raise Unwritable(f"Kryo values of class {type_.name!r} (it has subclasses or type variables) are read only")
        if any(is_synthetic(name) for name, _ in described.fields):
            raise Unwritable(f"Kryo values of class {type_.name!r} (with an enclosing object) are read only")
        arrays.refuse_nulls(array, "an object")
        children, parts = dict(column.children), []
        for name, part in in_java_order(described.fields):
            with locate_errors(name=f"field {name!r}"):
                parts.append(self._field(part, children[name], arrays.field_of(array, name, -1)))
        return concatenate(parts)

    def _field(self, type_: FieldType, column: KryoColumn, array: pa.Array) -> SizedWriter:
        if type_.primitive:
            return self._body(type_, column, array)
        if type_.name not in FINAL_CLASSES or self.setting.serializer_of(type_.name).own:
            raise Unwritable(f"Kryo values with fields of class {type_} are read only")
        return _nullable(array, lambda some: concatenate([constant_bytes(_NEW), self._body(type_, column, some)]))

    # --- collections --------------------------------------------------------------------------------------
    def _item(self, type_: FieldType, column: KryoColumn) -> bytes:
        """Write the class reference of every item; collections in collections are read only."""
        if column.kind in ("list", "map", "json"):
            raise Unwritable(f"Kryo collections of {type_} are read only")
        return self._reference(self._class_of(type_, column), False)

    def _by_class(self, type_: FieldType, column: KryoColumn, array: pa.Array) -> SizedWriter:
        reference = self._item(type_, column)
        return _nullable(array, lambda some: concatenate([constant_bytes(reference), self._known(type_, column, some)]))

    def _list(self, element: FieldType, column: KryoColumn, array: pa.Array) -> SizedWriter:
        arrays.refuse_nulls(array, "a collection")
        offsets, items = arrays.items_of(array)
        counts = list_encoding.counts_of(offsets, 2**31 - 2, "items")
        with locate_errors(lambda i: int(np.searchsorted(offsets, i, "right")) - 1, "an item"):
            if self.setting.version < 5:
                return concatenate(
                    [varints(counts), list_encoding.joined(offsets, self._by_class(element, column, items))]
                )
            return self._of_one_class(element, column, offsets, items)

    def _of_one_class(self, element: FieldType, column: KryoColumn, offsets: Longs, items: pa.Array) -> SizedWriter:
        """Write a list of one class in Kryo 5.

        A flagged count plus one, the class once (0: all are null), whether there are nulls, the items.
        """
        counts = np.diff(offsets)
        n = len(counts)
        lists = np.repeat(np.arange(n), counts)
        null = arrays.null_rows(items)
        nulls = np.bincount(lists[null], minlength=n)
        flags = np.where(counts > 0, _FLAG, 0)
        some, none = np.flatnonzero(counts > nulls), np.flatnonzero((counts > 0) & (counts == nulls))
        reference = self._item(element, column)
        marks = fixed((nulls[some] > 0).astype(np.uint8))
        head = scatter(n, [(none, constant_bytes(_NULL)), (some, concatenate([constant_bytes(reference), marks]))])
        # Items of a list with nulls have a mark, those of classes without reference marks too.
        sparse = (nulls > 0) & (counts > nulls)
        there = np.flatnonzero(~null)
        gone = np.flatnonzero(null & sparse[lists])
        made = [(there, self._known(element, column, items.drop_null())), (gone, constant_bytes(_NULL))]
        if self._unmarked(element):
            marked = np.flatnonzero(~null & sparse[lists])
            made.insert(0, (marked, constant_bytes(_NEW)))
        return concatenate(
            [flagged_varints(counts + 1, flags), head, list_encoding.joined(offsets, scatter(len(items), made))]
        )

    def _map(self, type_: FieldType, column: KryoColumn, array: pa.Array) -> SizedWriter:
        arrays.refuse_nulls(array, "a map")
        offsets, keys, values = arrays.entries_of(array)
        counts = list_encoding.counts_of(offsets, 2**31 - 2, "entries") + (1 if self.setting.version >= 5 else 0)
        parts = []
        with locate_errors(lambda i: int(np.searchsorted(offsets, i, "right")) - 1, "an entry"):
            for arg, (_, child), half in zip(type_.args, column.children, (keys, values), strict=True):
                parts.append(self._by_class(arg, child, half))
        return concatenate([varints(counts), list_encoding.joined(offsets, concatenate(parts))])


def _nullable(array: pa.Array, measure: Callable[[pa.Array], SizedWriter]) -> SizedWriter:
    """Measure the rows that are not null; null rows have length 0."""
    if not array.null_count:
        return measure(array)
    valid, null = arrays.split_nulls(array)
    with locate_errors(valid.__getitem__):
        return scatter(len(array), [(valid, measure(array.drop_null())), (null, constant_bytes(_NULL))])
