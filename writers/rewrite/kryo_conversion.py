"""Convert states with values of Kryo 2 (Flink 1.x) for Kryo 5 (Flink 2.x), which would misread them.

Of an entry only the parts with such values are decoded; types around them (POJOs, tuples, lists, times to live) are
written again as they were. Values that both versions write alike stay bytes. Keys, namespaces and user keys of maps are
converted wherever they contain Kryo: Flink finds entries by the bytes that it writes itself.

KryoSerializerSnapshot keeps its registrations, and so the ids of classes; a serializer that is registered as an object,
as flink-avro's is, is held in a class that the other major release does not have, and becomes what a job without
flink-avro registers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import RowBytes, Unencodable, row_bytes_of
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.encoding.keys import composite_keys
from stateproc.codec.kryo.kryo5_output import Unconvertible
from stateproc.codec.kryo.types import FieldType
from stateproc.codec.kryo.walk_errors import UndescribedClass, how_to_describe
from stateproc.codec.layouts import Counted, Layout, StructLayout
from stateproc.codec.machine import HostFailure, Machine, ValueDecoder
from stateproc.errors import SnapshotError, UnsupportedSnapshot, Where, located
from stateproc.flink_versions import Release
from stateproc.metadata.backend import StateMetaInfo
from stateproc.model.operator import Operator
from stateproc.readers.entry_programs import composite_value, emit_composite_key
from stateproc.readers.error_context import placed
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Serializer, proxied_snapshot
from stateproc.serializers.core.base import simple_name
from stateproc.serializers.core.compatibility import Comparison
from stateproc.serializers.flinkx.scala_api import has_scala_api, is_migrated, migrated
from stateproc.serializers.kryo.compatibility import Bytes, bytes_of
from stateproc.serializers.kryo.serializer import HOLDERS, Kryo
from stateproc.serializers.pojo.compatibility import convertible, has_collection, undeclared_collections, with_fields
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.verification.class_mentions import all_serializers, class_skeleton
from stateproc.verification.problem import problem_of
from stateproc.writers.rewrite.collection_types import ElementClasses, WatchedKryo
from stateproc.writers.rewrite.kryo_versions import names_scala
from stateproc.writers.rewrite.merged_header import MergedHeader, with_snapshots

_LOOKED_AT = 20_000
"""So many entries of each state are converted to find classes without description; a write converts all."""
_CONVERTIBLE = (2, 5)


def is_convertible(operator: Operator, release: Release) -> bool:
    """Whether values of Kryo in an operator's state are converted for a release."""
    return (operator.options.kryo, release.kryo) == _CONVERTIBLE


def conversion_context(context: LayoutContext, release: Release) -> LayoutContext:
    """Return how values are read and written again: exactly."""
    return replace(context, temporal="lossless", strict=True, row_kind=False, tail=True, convert_to=release.kryo)


def has_kryo(serializer: Serializer) -> bool:
    """Whether values of a type contain some that Kryo writes, in any release."""
    return bool(_kryo_parts(serializer))


def _kryo_parts(serializer: Serializer | None) -> list[Kryo]:
    if serializer is None:
        return []
    return [part for part in all_serializers(serializer) if isinstance(part, Kryo)]


def _differs(serializer: Serializer | None, comparison: Comparison) -> bool:
    """Whether values of the type contain some that the versions of Kryo may write differently."""
    return any(bytes_of(part, comparison).bytes is not Bytes.ALIKE for part in _kryo_parts(serializer))


@contextmanager
def encoding(state: str) -> Iterator[None]:
    """Inside: a value that its serializer in Flink 2 has no form for is an error of the state."""
    try:
        yield
    except Unencodable as error:
        raise UnsupportedSnapshot(
            f"a value has no form in the serializer of Flink 2: {error.message}",
            where=Where(state=state),
            advice="drop or correct such rows (stateproc delete, stateproc update), or give the state another type "
            "(transform_state)",
        ) from error


@dataclass(frozen=True)
class Families:
    """Whether values of Kryo are converted, and whether those of Flink's Scala API."""

    kryo: bool
    scala: bool

    def reason(self, what: str, context: LayoutContext) -> str:
        """Return what a plan says of keys or values."""
        old, new = f"Kryo {context.kryo}", f"Kryo {context.convert_to}"
        if self.scala:
            old = f"{old} and Flink's Scala API" if self.kryo else "Flink's Scala API"
            new = f"{new} and flink-scala-api" if self.kryo else "flink-scala-api"
        return f"{what} of {old} written as {new}"


KRYO = Families(True, False)


def _families(*serializers: Serializer | None) -> Families:
    return Families(any(map(_kryo_parts, serializers)), any(map(is_migrated, serializers)))


class _Converter:
    """Converts byte strings that hold one value of a layout each. Not thread-safe."""

    def __init__(self, layout_of: Callable[[LayoutContext], Layout], context: LayoutContext, state: str) -> None:
        self._layout_of, self._context, self._state = layout_of, context, state
        self._layout = layout_of(context)
        self._decoder = ValueDecoder(self._layout)

    def of(self, values: RowBytes) -> RowBytes:
        """Return the converted values. Raises CorruptSnapshot, UnsupportedSnapshot."""
        if self._context.by_objects:
            return self._converted(values)
        try:
            return self._converted(values)
        except SnapshotError:
            # Half of a surrogate pair, an object of a subclass: what no column represents.
            return self._by_objects.of(values)

    @cached_property
    def _by_objects(self) -> _Converter:
        return _Converter(self._layout_of, replace(self._context, by_objects=True), self._state)

    def _converted(self, values: RowBytes) -> RowBytes:
        with placed("<raw entries>", int, self._state):
            found = self._decoder.decode(values.data, values.offsets[:-1], values.offsets[1:])
        with encoding(self._state):
            return self._layout.encode(found)


class _KeyConverter:
    """Converts composite keys: key, namespace, user key. Not thread-safe."""

    def __init__(self, state: StateDescriptor, context: LayoutContext) -> None:
        self._state, inner = state, context.inner
        self._key = state.key.layout(replace(inner, projected=True))
        self._namespace = state.namespace.layout(inner)
        self._user_key = None if state.user_key is None else state.user_key.layout(context)
        self._assemblers: dict[str, Assembler] = {}
        b = Builder()
        emit_composite_key(b, state, context, self._assemblers, False)
        b.op(ops.ROW_END)
        self._machine = Machine(b.build())

    def of(self, keys: RowBytes) -> RowBytes:
        """Return the converted keys. Raises CorruptSnapshot, UnsupportedSnapshot."""
        state, columns = self._state, self._columns(keys)
        namespaces = columns.get("namespace", pa.nulls(len(keys), self._namespace.arrow_type))
        ambiguous = state.key.length < 0 and state.namespace.length < 0
        with encoding(state.name):
            user_key = None if self._user_key is None else self._user_key.encode(columns["user_key"])
            key, namespace = self._key.encode(columns["key"]), self._namespace.encode(namespaces)
        return composite_keys(key, namespace, user_key, ambiguous)

    def _columns(self, keys: RowBytes) -> dict[str, pa.Array]:
        parts, done = list[dict[str, pa.Array]](), 0
        starts, ends = keys.offsets[:-1][None, :], keys.offsets[1:][None, :]
        with placed("<raw entries>", int, self._state.name):
            while done < len(keys):
                done = self._machine.run(keys.data, starts, ends, done, len(keys))
                taken = self._machine.decoded()
                parts.append({name: assemble(taken) for name, assemble in self._assemblers.items()})
        return {name: pa.concat_arrays([part[name] for part in parts]) for name in self._assemblers}


@dataclass(frozen=True)
class ValueConversion:
    """How the elements of an operator state are converted. Picklable.

    Attributes:
        layout_of: Their layout, from the context.
        context: What `conversion_context` returned.
        state: The state's name, for errors.
        families: What is converted in them.
    """

    layout_of: Callable[[LayoutContext], Layout]
    context: LayoutContext
    state: str
    families: Families = KRYO

    def pieces(self, pieces: Iterable[RowBytes]) -> Iterator[RowBytes]:
        """Yield converted elements. Raises CorruptSnapshot, UnsupportedSnapshot."""
        yield from map(self.converter().of, pieces)

    def converter(self) -> _Converter:
        """Return what converts elements, for one thread. Raises Undecodable."""
        return _Converter(self.layout_of, self.context, self.state)

    @property
    def reason(self) -> str:
        """What a plan says of it."""
        return self.families.reason("values", self.context)


@dataclass(frozen=True)
class KryoConversion:
    """Converts the entries of one keyed state. Picklable.

    Attributes:
        state: The state, as its entries are when they are converted.
        context: What `conversion_context` returned.
        keys: Whether keys, namespaces or user keys contain values of Kryo.
        values: Whether values contain some that Kryo 5 would read otherwise.
    """

    state: StateDescriptor
    context: LayoutContext
    keys: bool
    values: bool

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the converted entries (RAW_ENTRIES), in the same order. Raises CorruptSnapshot, UnsupportedSnapshot."""
        convert = self.converter()
        for batch in batches:
            if len(batch):
                yield convert(batch)

    def converter(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Return a function that converts entries, for one thread. Raises Undecodable."""
        state, parts = self.state, list[tuple[str, _Converter | _KeyConverter]]()
        exact = replace(self.context, by_objects=True)  # Flink finds entries by the bytes of keys.
        if self.keys and state.kind.is_queue:
            parts.append(("key", _Converter(state.value.layout, exact.inner, state.name)))
        elif self.keys:
            parts.append(("key", _KeyConverter(state, exact)))
        if self.values:
            parts.append(("value", _Converter(partial(composite_value, state), self.context, state.name)))

        def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
            for column, converter in parts:
                made = converter.of(row_bytes_of(batch.column(column))).to_arrow()
                batch = batch.set_column(batch.schema.get_field_index(column), column, made)
            return batch

        return convert

    @property
    def reason(self) -> str:
        """What a plan says of it."""
        what = "keys and values" if self.keys and self.values else "keys" if self.keys else "values"
        keys = (self.state.key, self.state.namespace, self.state.user_key) if self.keys else ()
        return _families(*keys, *((self.state.value,) if self.values else ())).reason(what, self.context)


@dataclass(frozen=True)
class _PairsOf:
    """The layout of a broadcast state's only element, which holds all entries."""

    key: Serializer
    value: Serializer

    def __call__(self, context: LayoutContext) -> Layout:
        inner = context.inner
        return Counted(StructLayout((("key", self.key.layout(inner)), ("value", self.value.layout(inner)))))


@dataclass(frozen=True)
class KryoUpgrade:
    """What changes in the states of one operator for another Kryo.

    Attributes:
        release: The release that will restore it.
        scala: Whether types of Flink's Scala API become those of flink-scala-api; they stay as they are otherwise.
        taken: The types that values show of fields of POJOs which nobody describes; `problems` fills it.
    """

    operator: Operator
    release: Release
    scala: bool = False
    taken: dict[tuple[str, str], FieldType] = field(default_factory=dict, compare=False)

    @cached_property
    def context(self) -> LayoutContext:
        """How values are converted."""
        return conversion_context(self.operator.options.context, self.release)

    @cached_property
    def comparison(self) -> Comparison:
        """What `bytes_of` compares."""
        context = self.operator.options.context
        return Comparison(self.operator.options.kryo, self.release, context.classes)

    def converted(self, serializer: Serializer) -> Serializer:
        """Return the serializer as a job of the release declares it: fields of POJOs, types of Scala.

        Raises UnsupportedSnapshot for a type of Flink's Scala API that flink-scala-api has no counterpart for.
        """
        made = convertible(serializer, self.comparison, self.taken)
        return migrated(made, self.context) if self.scala else made

    def _changes(self, serializer: Serializer | None) -> bool:
        """Whether a serializer may be another one in a job of the release."""
        return bool(_kryo_parts(serializer)) or (self.scala and has_scala_api(serializer))

    def conversion(self, header: MergedHeader, name: str, *, ttl: bool | None = None) -> KryoConversion | None:
        """Return how entries of a keyed state are converted; None if they stay as they are.

        ``ttl``: whether values have a time to live, if that is changed before. Raises UnsupportedSnapshot.
        """
        info = header.info(name)
        parts = [header.key, *info.serializers.values()]
        if not any(map(self._changes, parts)):
            return None
        with located(operator=self.operator.display, state=name):
            return self._conversion(header.keyed(name), ttl)

    def _conversion(self, state: StateDescriptor, ttl: bool | None) -> KryoConversion | None:
        state = replace(
            state,
            key=self.converted(state.key),
            namespace=self.converted(state.namespace),
            user_key=None if state.user_key is None else self.converted(state.user_key),
            value=self.converted(state.value),
            ttl=state.ttl if ttl is None else ttl,
        )
        in_keys = any(
            bool(_kryo_parts(one)) or is_migrated(one) for one in (state.key, state.namespace, state.user_key)
        )
        in_values = not state.kind.is_queue and (_differs(state.value, self.comparison) or is_migrated(state.value))
        # With a time to live, each element has the time of its last access.
        if in_values and state.kind is StateKind.LIST and state.value.length == 0 and not state.ttl:
            raise UnsupportedSnapshot(
                f"elements of the type {state.value.type_name} have no bytes in flink-scala-api, so that Flink finds "
                "another number of them",
                advice="give the state another type (transform_state), or leave it out (drop_state)",
            )
        return KryoConversion(state, self.context, in_keys, in_values) if in_keys or in_values else None

    def elements(self, info: StateMetaInfo) -> ValueConversion | None:
        """Return how elements of an operator state are converted; None if they stay as they are."""
        key, value = info.key_serializer, info.value_serializer
        if value is None or not (self._changes(key) or self._changes(value)):
            return None
        with located(operator=self.operator.display, state=info.name):
            new_key, new_value = None if key is None else self.converted(key), self.converted(value)
        differs = bool(_kryo_parts(key)) or _differs(value, self.comparison)
        if not differs and not is_migrated(new_key) and not is_migrated(new_value):
            return None
        layout_of = new_value.layout if new_key is None else _PairsOf(new_key, new_value)
        return ValueConversion(layout_of, self.context, info.name, _families(new_key, new_value))

    def snapshot(self, serializer: Serializer | None, data: bytes) -> bytes:
        """Return a serializer's snapshot (proxied) with the registrations that a job of the release has."""
        if serializer is None:
            return data
        made = self.converted(serializer)
        # Serializers of Scala's API may equal their counterparts: only the classes of their snapshots differ.
        is_same = (made is serializer or made == serializer) and not (self.scala and has_scala_api(serializer))
        written = (
            data
            if is_same and HOLDERS[self.operator.options.kryo] not in data
            else proxied_snapshot(made, self.release)
        )
        if self.scala and names_scala(written):
            raise UnsupportedSnapshot(
                f"in {serializer.type_name} is a type of Flink's Scala API that cannot be read, and so not converted",
                advice="describe the class or register its serializer (docs/kryo-and-classes.md), or leave the state "
                "out (drop_state)",
            )
        return written

    def header_reason(self, info: StateMetaInfo) -> str | None:
        """Return what a plan says of a state whose values stay and whose serializer snapshots change; else None."""
        if self.info(info) is info:
            return None
        if self.scala and any(map(has_scala_api, info.serializers.values())):
            return "serializers of flink-scala-api"
        return f"registrations of Kryo as in Flink {self.release}"

    def info(self, info: StateMetaInfo) -> StateMetaInfo:
        """Return a state's entry in the header, as the release reads it. Raises UnsupportedSnapshot."""
        with located(operator=self.operator.display, state=info.name):
            made = {role: self.snapshot(info.serializers.get(role), data) for role, data in info.snapshots.items()}
            return info if made == info.snapshots else with_snapshots(info, made)

    def changes_header(self, header: MergedHeader, names: Collection[str]) -> bool:
        """Whether serializer snapshots of keys or of these keyed states change."""
        return self.snapshot(header.key, header.key_snapshot) != header.key_snapshot or any(
            self.info(info) is not info for info in header.states if info.name in names
        )

    # --- what cannot be converted ----------------------------------------------------------------------------
    def problems(
        self, header: MergedHeader, name: str, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[ConversionProblem]:
        """Yield what keeps the first entries of a keyed state from being converted."""
        conversion = self.conversion(header, name)
        if conversion is None:
            return
        seen: dict[tuple[str, str], ElementClasses] = {}
        state = conversion.state
        watched = replace(state, key=self._watched(state.key, seen), value=self._watched(state.value, seen))
        for class_name, error in _found(replace(conversion, state=watched).converter(), batches).items():
            yield ConversionProblem(self.operator.display, name, class_name, error)
        self._take(seen)
        yield from self._undeclared(header.info(name))

    def _watched(self, serializer: Serializer, seen: dict[tuple[str, str], ElementClasses]) -> Serializer:
        """Return a serializer that notes the classes of elements in fields whose arguments nothing gives."""
        undeclared = {
            (pojo.class_name, name) for pojo, name in undeclared_collections(serializer, self.comparison, self.taken)
        }

        def watched(class_name: str, name: str, field_: Serializer) -> Serializer | None:
            if (class_name, name) not in undeclared or not isinstance(field_, Kryo):
                return None
            return WatchedKryo(field_, seen.setdefault((class_name, name), ElementClasses(field_.class_name)))

        return with_fields(serializer, watched) if undeclared else serializer

    def _take(self, seen: Mapping[tuple[str, str], ElementClasses]) -> None:
        """Take the types that values show for the fields."""
        for place, classes in seen.items():
            type_ = classes.type
            if type_ is not None:
                self.taken[place] = type_

    def taken_types(self, info: StateMetaInfo) -> Iterator[str]:
        """Yield what a plan says of the types that are taken for fields of a state's POJOs."""
        found = (undeclared_collections(serializer, self.comparison) for serializer in info.serializers.values())
        for place in dict.fromkeys((pojo.class_name, name) for fields in found for pojo, name in fields):
            if place in self.taken:
                yield f"{simple_name(place[0])}.{place[1]} taken as {self.taken[place]}, as its values are"
        if any(map(has_collection, info.serializers.values())):
            yield "List, Set and Map left to Kryo: if the job declares their arguments, evolve-type first"

    def _undeclared(self, info: StateMetaInfo) -> Iterator[ConversionProblem]:
        """Yield the POJOs with fields of collections whose arguments nobody gives."""
        for serializer in info.serializers.values():
            for pojo, name in undeclared_collections(serializer, self.comparison, self.taken):
                error = _undeclared_field(pojo, name)
                yield ConversionProblem(self.operator.display, info.name, f"{pojo.class_name}.{name}", error)

    def element_problems(self, info: StateMetaInfo, pieces: Iterable[RowBytes]) -> Iterator[ConversionProblem]:
        """Yield what keeps the elements of an operator state from being converted."""
        conversion = self.elements(info)
        if conversion is None or info.value_serializer is None:
            return
        seen: dict[tuple[str, str], ElementClasses] = {}
        key, value = info.key_serializer, self._watched(self.converted(info.value_serializer), seen)
        watched = value.layout if key is None else _PairsOf(self._watched(self.converted(key), seen), value)
        converter = replace(conversion, layout_of=watched).converter()
        batches = (pa.RecordBatch.from_arrays([piece.to_arrow()], ["value"]) for piece in pieces)
        found = _found(lambda batch: converter.of(row_bytes_of(batch.column("value"))), batches)
        yield from (ConversionProblem(self.operator.display, info.name, *item) for item in found.items())
        self._take(seen)
        yield from self._undeclared(info)


@dataclass(frozen=True)
class ConversionProblem:
    """A class of which values cannot be converted, and where the first of them is."""

    operator: str
    state: str
    class_name: str
    error: SnapshotError = field(compare=False)

    @property
    def needs_description(self) -> bool:
        """Whether a description of the class would help."""
        return "describe it" in (self.error.advice or "")


def _undeclared_field(pojo: Pojo, field_name: str) -> UndescribedClass:
    error = UndescribedClass(
        f"field {field_name!r} of the POJO {pojo.class_name!r} is a collection, for which Flink 2 has a serializer of "
        "its own if its type arguments are plain classes; no snapshot contains them, and the values are empty or of "
        "several classes",
        advice=how_to_describe(pojo.class_name),
    )
    error.class_name = pojo.class_name
    return error


def _found(convert: Callable[[pa.RecordBatch], object], batches: Iterable[pa.RecordBatch]) -> dict[str, SnapshotError]:
    """Return the first error of each class in the first rows."""
    found: dict[str, SnapshotError] = {}
    seen = 0
    for batch in batches:
        batch = batch.slice(0, _LOOKED_AT - seen)
        seen += len(batch)
        for error in _errors(convert, batch):
            found.setdefault(getattr(error, "class_name", "") or error.message, error)
        if seen >= _LOOKED_AT:
            break
    return found


def _errors(convert: Callable[[pa.RecordBatch], object], batch: pa.RecordBatch) -> Iterator[SnapshotError]:
    """Yield the errors of the rows that cannot be converted: by halves, as most batches have none."""
    if not len(batch):
        return
    try:
        convert(batch)
    except UnsupportedSnapshot as error:
        if len(batch) == 1:
            yield _origin(error)
            return
        half = len(batch) // 2
        yield from _errors(convert, batch.slice(0, half))
        yield from _errors(convert, batch.slice(half))


def _origin(error: BaseException) -> SnapshotError:
    """Return the error of the walk over a value, which has the name of the class."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, HostFailure):
            found = found.error
        if isinstance(found, UndescribedClass | Unconvertible):
            return found
        found = found.__cause__
    assert isinstance(error, SnapshotError)
    return error


def refuse_problems(problems: Iterable[ConversionProblem], release: Release) -> None:
    """Raise UnsupportedSnapshot if there are any: all at once, with a skeleton of descriptions."""
    found = list(dict.fromkeys(problems))
    if not found:
        return
    skeleton = class_skeleton((), [problem_of(item.error, item.operator) for item in found if item.needs_description])
    lines = [f"{item.operator}, {item.state}: {item.error.message}" for item in found]
    advice = "give such states another type (transform_state), or leave them out (drop_state)"
    if skeleton:
        others = "" if all(item.needs_description for item in found) else f"; {advice}, where no description helps"
        advice = (
            "describe the classes with all their fields (--classes FILE, classes=…), by a file like "
            f"{json.dumps(skeleton)}; `stateproc classes --skeleton` writes one{others}"
        )
    first = found[0]
    raise UnsupportedSnapshot(
        f"values cannot be converted to Kryo {release.kryo} of Flink {release}: " + "; ".join(lines),
        where=Where(operator=first.operator, state=first.state),
        advice=advice,
    )
