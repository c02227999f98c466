"""Decode Kryo values with VM programs; the walker over Kryo graphs reads values that a program does not expect.

A program knows the classes of its types: JDK collections, strings, numbers, dates and described classes. It gives
up a value with a class by another name, a reference to anything but a string, or damage, and takes back what it
has written: the walker then reads the value from its start, or raises the error that describes the damage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.builder import Assembler, Builder, DecodedColumns, Label, name_entry
from stateproc.codec.encoding.sized_writers import SizedWriter
from stateproc.codec.errors import BadValue
from stateproc.codec.kryo.avro import AVRO_BODIES
from stateproc.codec.kryo.classes import (
    CHILL_BASE,
    CHILL_IDS,
    PRIMITIVE_IDS,
    REGISTRAR_BASE,
    USER_BASE,
    registered_class,
)
from stateproc.codec.kryo.collections import KERNEL_COLLECTIONS, SORTED_FORMS, kernel_code
from stateproc.codec.kryo.forms import EMPTY_BODIES, Ambiguous, has_arguments, may_be_collection, pushes_arguments
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.reader import BODIES
from stateproc.codec.kryo.setting import Guesses, KryoSetting
from stateproc.codec.kryo.types import BOXES, CLASS, STRING, FieldType, UserClass, bind, in_java_order, is_synthetic
from stateproc.codec.kryo.values import KryoObject
from stateproc.codec.kryo.walker import Walker
from stateproc.codec.layouts import Layout
from stateproc.codec.layouts.base import is_valid, refuse_rows
from stateproc.codec.layouts.collections import as_map, list_array
from stateproc.codec.layouts.nesting import struct_array
from stateproc.codec.layouts.strings import blob_array, blob_columns, whole_strings
from stateproc.codec.temporal import Fidelity
from stateproc.codec.vm import kryo_kernels as codes
from stateproc.errors import SnapshotError
from stateproc.serializers.kryo.columns import KryoColumn, is_scala
from stateproc.serializers.kryo.encoding import KryoWriter
from stateproc.serializers.kryo.leaf_bodies import LEAVES, leaf_body
from stateproc.wire import Cursor

# Refuse objects whose bytes are those of an empty Map or Collection, too.
#
# Kryo writes no fields of a class that is a Map or a Collection. An empty one has a body of one byte (Kryo 2: 00, Kryo
# 5: 01), followed by 00 for a TreeMap, a TreeSet or Kryo 5's PriorityQueue. One or two described fields can have these
# bytes, and nothing in a snapshot says which it is.


@dataclass(frozen=True)
class EmptyValue:
    """An object with the bytes of an empty Map, these bytes, and its fields as pyarrow has them."""

    value: KryoObject
    body: bytes
    row: dict[str, Any]


def empty_values(described: UserClass, setting: KryoSetting, column: KryoColumn) -> tuple[EmptyValue, ...]:
    """Return the values that fields have where the bytes are those of an empty Map or Collection."""
    if not may_be_collection(described):
        return ()
    found = []
    for body in EMPTY_BODIES[setting.version]:
        cursor = Cursor(body)
        walker = Walker(KryoInput(cursor, setting.version), setting, Guesses(), BODIES)
        try:
            value = walker.fields(replace(described, form=CLASS), ())
            row = column.arrow(value)
        except (SnapshotError, BadValue):
            continue
        if not cursor.remaining:
            found.append(EmptyValue(value, body, row))
    return tuple(found)


def refuse_empty(array: pa.StructArray, values: tuple[EmptyValue, ...]) -> pa.StructArray:
    """Return the array. Raises Ambiguous if a row is one of the values."""
    for empty in values:
        same = array.is_valid()
        for name, part in empty.row.items():
            column = array.field(name)
            equal = column.is_null() if part is None else pc.equal(column, pa.scalar(part, column.type))
            same = pc.and_(same, equal.fill_null(False))
        if pc.any(same).as_py():
            raise Ambiguous.of(empty.value, empty.body)
    return array


_JDK_CODES = {
    **{name: number + 1 for number, name in enumerate(PRIMITIVE_IDS)},
    **KERNEL_COLLECTIONS,
    "java.math.BigInteger": codes.BIG_INTEGER,
}
# A list of lists has three loops in each of three loops.
_MOST_NESTED = 3


class Unplanned(Exception):
    """Internal: a type that no program reads; the walker reads all values."""


@dataclass(frozen=True)
class KryoValue(Layout):
    """One value of Kryo.writeClassAndObject of static type ``type``.

    ``typed``: whether Kryo knew the type's arguments when it wrote (only fields of classes do). ``read`` is the
    walker; ``whole``: the value ends where its range ends.
    """

    type: FieldType
    column: KryoColumn
    setting: KryoSetting
    modes: Fidelity
    read: Callable[[Cursor], Any] = field(compare=False)
    whole: bool
    min_size = 1
    encodes_null = True

    def __hash__(self) -> int:
        return hash((self.type, self.column, self.whole))

    @property
    def arrow_type(self) -> pa.DataType:
        return self.column.type

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        way = b.column(1, 0)
        first, stop, host, end_label = b.label(), b.label(), b.label(), b.label()
        fill, host_fill = b.pending_fill(), b.pending_fill()
        plan = _Plan(b, self.setting, self.modes, self.whole)
        b.reads_kryo = True
        table = plan.class_table()
        first.at = b.column_count if b.keep else 0
        b.op(ops.KRYO_BEGIN, table, first, stop, host)
        made = b.column_count
        body = plan.by_class(self.type, self.column, False, True)
        b.set_fill(fill, made)
        b.op(ops.KRYO_END, int(self.whole))
        b.op(ops.PUT1, way, 0)
        stop.at = b.column_count if b.keep else 0
        b.op(ops.FILL, host_fill)
        b.op(ops.JUMP, end_label)
        b.bind(host)
        b.op(ops.PUT1, way, 1)
        b.op(ops.FILL, fill)
        made = b.column_count
        hosted = b.host(self.read)
        b.set_fill(host_fill, made)
        b.bind(end_label)
        return partial(self._assemble, way=way, body=body, hosted=hosted)

    def _assemble(self, taken: DecodedColumns, *, way: int, body: Assembler, hosted: int) -> pa.Array:
        array = body(taken)
        slow = is_valid(taken, way)
        if not slow.any():
            return array
        values = taken.python_values(hosted)
        others = pa.array([values[i] for i in np.flatnonzero(slow)], type=self.arrow_type)
        picks = np.arange(len(slow), dtype=np.int64)
        picks[slow] = len(slow) + np.arange(len(others), dtype=np.int64)
        return pa.concat_arrays([array, others]).take(values_array(picks))

    def measure(self, array: pa.Array) -> SizedWriter:
        if not len(array):
            return refuse_rows(array, "")
        return KryoWriter(self.setting, self.modes).measure(self.type, self.column, array)

    def to_python(self, value: Any) -> Any:
        return self.column.python(value)


# Each file and each split asks again, and emitting a program takes a millisecond.
@lru_cache(maxsize=256)
def has_program(layout: KryoValue) -> bool:
    """Return whether programs can read the layout's values."""
    try:
        layout.emit(Builder(), True)
    except Unplanned:
        return False
    return True


@dataclass(frozen=True)
class _KnownClasses:
    """What programs know of the classes in values: their codes by name, and by the ids of the job.

    names, by_name: the names as they follow one another in a builder's table, and of each where it begins there, and
    its code.
    """

    codes: Mapping[str, int]
    by_id: Sequence[int]
    names: bytes
    by_name: Sequence[tuple[int, int]]

    def put(self, b: Builder) -> int:
        """Add the table to a program, and return where it begins."""
        first = b.names(self.names)
        pairs = [word for at, code in self.by_name for word in (first + at, code)]
        return b.table([len(self.by_id), *self.by_id, len(self.by_name), *pairs])


# It takes a millisecond, and a file of many states has many programs.
@lru_cache(maxsize=64)
def _known_classes(setting: KryoSetting, whole: bool) -> _KnownClasses:
    """``whole``: the value ends where its range ends."""
    known = _class_codes(setting, whole)
    ids = range(USER_BASE + len(setting.registrations))
    registered = (registered_class(number, setting.version, setting.registrations) for number in ids)
    by_id = [-1 if name is None else known.get(name, -1) for name in registered]
    # Scala's classes by their ids: the walker knows how chill's serializers write them.
    by_id[CHILL_BASE:REGISTRAR_BASE] = [-1] * len(CHILL_IDS)
    names, by_name = b"", []
    for name, code in known.items():
        if name.isascii() and len(name) > 1:
            by_name.append((len(names), code))
            names += name_entry(name.encode())
    return _KnownClasses(known, by_id, names, by_name)


def _class_codes(setting: KryoSetting, whole: bool) -> dict[str, int]:
    """Class → code; classes with a serializer of their own, or described otherwise, are left out."""

    def is_plain(name: str) -> bool:
        """Whether Kryo's own choice of a serializer is certain."""
        return not setting.serializer_of(name).own

    described = setting.classes
    found = {name: code for name, code in _JDK_CODES.items() if is_plain(name) and name not in described}
    for name, own in described.items():
        if own.like is None or name in _JDK_CODES or _may_be_sorted(own.like, whole) or not is_plain(name):
            continue
        code = kernel_code(own.like.name)
        if code is not None:
            found[name] = code
    left_out = _JDK_CODES.keys() | AVRO_BODIES.keys()
    others = [name for name in described if name not in left_out and described[name].like is None] + LEAVES
    for number, name in enumerate(dict.fromkeys(others)):
        if is_plain(name):
            found[name] = codes.FIRST_OTHER + number
    return found


def _may_be_sorted(like: FieldType, whole: bool) -> bool:
    """Whether a Map may be a TreeMap for all that is known. Only the end of the value shows that it is not."""
    return not whole and like.name in SORTED_FORMS


class _Plan:
    """Emits what a program needs to read a type's values."""

    def __init__(self, b: Builder, setting: KryoSetting, modes: Fidelity, whole: bool) -> None:
        self.b = b
        self.setting = setting
        self.version = setting.version
        self.modes = modes
        self.whole = whole
        self._walker = Walker(KryoInput(Cursor(b""), setting.version), setting, Guesses(), BODIES)
        self._classes = _known_classes(setting, whole)
        self._codes = self._classes.codes
        self._depth = 0

    # --- classes ------------------------------------------------------------------------------------------
    def class_table(self) -> int:
        return self._classes.put(self.b)

    def _expected(self, type_: FieldType, column: KryoColumn) -> list[int]:
        """Return the codes of classes that are expected for a declared type."""
        if column.kind == "list":
            return [codes.COLLECTION]
        if column.kind == "map":
            return [codes.MAP]
        code = self._codes.get(type_.name)
        if code is None:
            raise Unplanned(type_.name)
        return [code]

    # --- objects ------------------------------------------------------------------------------------------
    def declared(self, type_: FieldType, column: KryoColumn, typed: bool) -> Assembler:
        """Emit a field of a described class; ``typed``: Kryo knew its type arguments."""
        if type_.primitive:
            return self._leaf(type_, column)
        if self._walker.final(type_):
            return self.known(type_, column, True, typed)
        return self.by_class(type_, column, typed, False)

    def by_class(self, type_: FieldType, column: KryoColumn, typed: bool, top: bool) -> Assembler:
        """Emit an object after its class; ``top``: a null here is null even where it could be JSON."""
        b = self.b
        if column.kind == "json":
            return self._json(type_, typed, top)
        type_, typed = self._collection_type(type_, typed)
        first, fill, some, end_label = b.column_count, b.pending_fill(), b.label(), b.label()
        b.op(ops.KRYO_CLASS)
        self._switch_class(type_, column, some)
        b.op(ops.FILL, fill)
        b.op(ops.JUMP, end_label)
        b.bind(some)
        assemble = self.known(type_, column, False, typed)
        b.bind(end_label)
        b.set_fill(fill, first)
        return assemble

    def _switch_class(self, type_: FieldType, column: KryoColumn, some: Label, null: bool = True) -> None:
        """Emit a jump to ``some`` for an expected class; null continues after it."""
        b, ways = self.b, [word for code in self._expected(type_, column) for word in (code, some)]
        on = b.label()
        b.op(ops.SWITCH, 0, len(ways) // 2 + null, -1, *ways, *((codes.NO_CLASS, on) if null else ()))
        b.bind(on)

    def _json(self, type_: FieldType, typed: bool, top: bool) -> Assembler:
        if (typed and type_.args) or type_.array or self._walker.final(type_):
            raise Unplanned(str(type_))
        lengths, data = blob_columns(self.b)
        self.b.op(ops.KRYO_JSON, lengths, data, self.version, int(not top))
        return lambda taken: blob_array(taken, lengths, data, pa.string())

    def _collection_type(self, type_: FieldType, typed: bool) -> tuple[FieldType, bool]:
        """Return the Map or Collection that a described class is, and whether Kryo knew its type arguments."""
        described = self.setting.classes.get(type_.name)
        if described is None or described.like is None:
            return type_, typed
        if typed and type_.args:
            raise Unplanned(str(type_))
        if _may_be_sorted(described.like, self.whole):
            raise Unplanned(str(type_))
        bound = dict(zip(described.variables, type_.args, strict=False))
        return bind(described.like, described.variables, bound), False

    def known(self, type_: FieldType, column: KryoColumn, nullable: bool, typed: bool) -> Assembler:
        """Emit an object of a known class."""
        b = self.b
        type_, typed = self._collection_type(type_, typed)
        if type_.name == STRING:
            lengths, data = blob_columns(b)
            b.op(ops.KRYO_STRING, lengths, data, int(nullable) + (ops.KEEP_SURROGATES if self.modes.strict else 0))
            if self.modes.strict:
                return lambda taken: whole_strings(taken, lengths, data)
            return lambda taken: blob_array(taken, lengths, data, pa.string())
        first, fill, end_label = b.column_count, b.pending_fill(), b.label()
        unmarked = type_.name in BOXES or (self.version >= 5 and self._walker.enum(type_.name) is not None)
        if not unmarked:
            b.op(ops.KRYO_MARK, fill, end_label if nullable else -1)
        elif nullable:
            b.op(ops.NULL_IF, 0, fill, end_label, 0)
        assemble = self._body(type_, column, typed)
        b.bind(end_label)
        b.set_fill(fill, first)
        return assemble

    def _body(self, type_: FieldType, column: KryoColumn, typed: bool) -> Assembler:
        if column.kind not in ("list", "map", "struct"):
            return self._leaf(type_, column)
        if type_.array or type_.name == "java.util.BitSet" or is_scala(type_.name) or self._depth >= _MOST_NESTED:
            raise Unplanned(str(type_))
        self._depth += 1
        read = {"list": self._list, "map": self._map, "struct": self._struct}[column.kind]
        assemble = read(type_, column, typed)
        self._depth -= 1
        return assemble

    def _leaf(self, type_: FieldType, column: KryoColumn) -> Assembler:
        enum = self._walker.enum(type_.name)
        layout = leaf_body(type_.name, self.version, self.modes, column.type, enum)
        if layout is None:
            raise Unplanned(str(type_))
        return layout.emit(self.b, True)

    def _struct(self, type_: FieldType, column: KryoColumn, typed: bool) -> Assembler:
        b, described = self.b, self.setting.classes[type_.name]
        if column.classes != (described.name,) or described.variables or not described.fields:
            raise Unplanned(str(type_))
        if any(is_synthetic(name) for name, _ in described.fields):
            raise Unplanned(str(type_))
        pushes = pushes_arguments(described, self.version, self._walker.guesses)
        if not self.whole and self.version >= 5 and described.form is None and has_arguments(described):
            # Only the end of the value shows whether it is a record.
            raise Unplanned(str(type_))
        valid = b.column(1, 0)
        b.op(ops.PUT1, valid, 1)
        columns = dict(column.children)
        parts = {name: self.declared(part, columns[name], pushes) for name, part in in_java_order(described.fields)}
        children = [parts[name] for name, _ in column.children]
        fields = list(column.type)
        empty = empty_values(described, self.setting, column)
        return lambda taken: refuse_empty(struct_array(taken, valid, fields, children), empty)

    # --- collections --------------------------------------------------------------------------------------
    def _list(self, type_: FieldType, column: KryoColumn, typed: bool) -> Assembler:
        b, element, item = self.b, type_.args[0], column.children[0][1]
        counts = b.column(4, -1)
        begin, end_label, fill = b.column_count, b.label(), b.pending_fill()
        b.set_fill(fill, begin - 1)
        final, inner = typed and self._walker.final(element), typed and self.version >= 5

        by_class = partial(self.by_class, element, item, inner, False)
        known = partial(self.known, element, item, typed=inner)
        first = partial(known, nullable=self.version < 5) if final else by_class
        if self.version < 5:
            b.op(ops.READ_COUNT, ops.COUNT_VARINT)
            items = self._loop(counts, 1, first)
        else:
            flagged = b.label()
            b.op(ops.KRYO_COUNT, 1, fill, end_label, flagged)
            items = self._loop(counts, 1, first)
            b.op(ops.JUMP, end_label)
            b.bind(flagged)
            with b.reuse_columns(begin):
                if final:
                    self._loop(counts, 1, partial(known, nullable=True))
                else:
                    self._of_one_class(element, item, known, counts, end_label)
        b.bind(end_label)
        return lambda taken: list_array(taken, counts, items, column.type)

    def _of_one_class(self, element: FieldType, item: KryoColumn, known: Any, counts: int, end_label: Label) -> None:
        """Emit a list of one class: the class once, whether there are nulls, the elements."""
        b, begin, some = self.b, self.b.column_count, self.b.label()
        b.op(ops.PUSH_COUNT)
        b.op(ops.KRYO_CLASS)
        if item.kind == "json":
            b.op(ops.SWITCH, 0, 0, -1)
            return
        self._switch_class(element, item, some, null=False)
        b.bind(some)
        dense, sparse = b.label(), b.label()
        b.op(ops.SWITCH, 1, 2, -1, 0, dense, 1, sparse)
        for way, nullable in ((dense, False), (sparse, True)):
            b.bind(way)
            b.op(ops.POP_COUNT)
            with b.reuse_columns(begin):
                self._loop(counts, 1, partial(known, nullable=nullable))
            b.op(ops.JUMP, end_label)

    def _loop(self, counts: int, least: int, read: Callable[[], Assembler]) -> Assembler:
        b, done = self.b, self.b.label()
        b.op(ops.LOOP, counts, least, done)
        again = b.here()
        with b.items():
            items = read()
        b.op(ops.NEXT, counts, again)
        b.bind(done)
        return items

    def _map(self, type_: FieldType, column: KryoColumn, typed: bool) -> Assembler:
        b = self.b
        counts = b.column(4, -1)
        end_label, fill = b.label(), b.pending_fill()
        b.set_fill(fill, b.column_count - 1)
        if self.version < 5:
            b.op(ops.READ_COUNT, ops.COUNT_VARINT)
        else:
            b.op(ops.KRYO_COUNT, 0, fill, end_label, 0)
        parts: list[Assembler] = []

        def entry() -> Assembler:
            for index, (arg, (_, child)) in enumerate(zip(type_.args, column.children, strict=True)):
                if typed and self._walker.final(arg):
                    parts.append(self.known(arg, child, True, False))
                else:
                    parts.append(self.by_class(arg, child, typed and index == 1 and self.version >= 5, False))
            fields = [pa.field("key", column.type.key_type), pa.field("value", column.type.item_type)]
            return lambda taken: struct_array(taken, -1, fields, parts)

        items = self._loop(counts, 2, entry)
        b.bind(end_label)
        entries = pa.list_(pa.struct([("key", column.type.key_type), ("value", column.type.item_type)]))
        return lambda taken: as_map(list_array(taken, counts, items, entries), column.type)
