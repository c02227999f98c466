"""Write the keys of an operator's entries in another type: a SQL job's wider key columns, or the type a user wants.

Of an entry the key is decoded and written anew; what is below it stays the bytes it is:

    timers          time (8 bytes), key, namespace
    other entries   key, namespace, of maps also the key of the entry

Entries get the key groups of their new keys. Flink places a SQL key by the bytes of its row, as a projection writes it
(BinaryRowWriter), any other one by its hashCode (KeyGroupRangeAssignment).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import RowBytes, Unencodable, row_bytes_of, uninitialized_bytes, values_array
from stateproc.codec.machine import ValueDecoder
from stateproc.errors import InvalidOption, InvalidRows, UnsupportedSnapshot, Where, located
from stateproc.filters import is_text_of_number, parse
from stateproc.keygroups.class_hashes import HASH_FUNCTIONS, ClassHash
from stateproc.keygroups.key_group_assignment import key_hash_of
from stateproc.keygroups.sql_hash_codes import sql_hash_codes
from stateproc.model.operator_context import OperatorContext
from stateproc.query_plans.plan_comparison import goes_on, is_same, is_written_alike
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.error_context import placed
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext, Serializer, Undecodable
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.java.structs import RowOf, TupleOf
from stateproc.serializers.pojo.serializer import CLASS_FIELD, Pojo
from stateproc.serializers.scala import CaseClass
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import External, RowData
from stateproc.writers.bootstrap.column_types import conformed
from stateproc.writers.bootstrap.keyed_encoder import KEY, MAP_KEY
from stateproc.writers.key_collisions import KeyCollisions, key_pairs
from stateproc.writers.rewrite.rekey import HashCodes, Rekey, rekey
from stateproc.writers.rewrite.row_assignments import Settable, plain
from stateproc.writers.rewrite.row_selection import raw_entries
from stateproc.writers.rewrite.transform import exact_read_options
from stateproc.writers.rewrite.type_changes import Fields, Given, Kept, Matched, Node, TypeChange
from stateproc.writers.rewrite.type_evolution import ValueEvolution
from stateproc.writers.sorting.entry_kernels import splice_bytes

_TIMESTAMP = 8


# What keys become.


@dataclass(frozen=True)
class WiderKey:
    """The wider type of a SQL job's key columns, matched by their positions."""

    value: Serializer


@dataclass(frozen=True)
class BucketKey:
    """The type of a SQL job's key that gets or loses buckets of the values that DISTINCT has seen.

    Attributes:
        value: The new type.
        columns: Of each column the position that it has in the old type; None for a bucket.
        buckets: State with a map of such values → the position of their bucket, and the number of buckets. All other
            buckets are null.
    """

    value: RowData
    columns: tuple[int | None, ...]
    buckets: Mapping[str, tuple[int, int]]


KeyChange = WiderKey | BucketKey | TypeChange
"""Another type of keys: as a changed query has it, or as a user wants it."""


def is_rewritten(old: Serializer | None, change: KeyChange | None) -> bool:
    """Return whether keys of a type are other bytes in a new type; None for a type that stays.

    Raises:
        InvalidOption: The type of a changed query is not as wide.
    """
    if old is None or change is None:
        return False
    if isinstance(change, TypeChange | BucketKey):
        return True
    before, after = _types(old), _types(change.value)
    if len(before) != len(after) or not all(map(goes_on, before, after)):
        raise InvalidOption(
            f"keys are of the type {old.type_name} in the snapshot, of which {change.value.type_name} does not have "
            "all values",
            advice="give the plan that the job ran",
        )
    return not all(is_same(*both) or is_written_alike(*both) for both in zip(before, after, strict=True))


def _types(key: Serializer) -> tuple[LogicalType, ...]:
    """Return the types of a key's columns; whether they may be null is no part of how they are written."""
    return tuple(replace(one, nullable=True) for one in key.types) if isinstance(key, RowData) else ()


class KeyConversion(Protocol):
    """Writes decoded keys in another type; picklable."""

    @property
    def old(self) -> Serializer:
        """The type of keys as they are decoded for it."""

    @property
    def context(self) -> LayoutContext:
        """How keys are decoded for it."""

    def of(self, keys: pa.Array, entries: pa.RecordBatch) -> RowBytes:
        """Return the bytes of the new keys of entries. Raises InvalidRows for a key that does not fit the new type."""


@dataclass(frozen=True)
class WiderColumns:
    """Writes SQL rows with wider columns.

    Attributes:
        old: The type of keys.
        new: The type that keys get.
        context: How keys are decoded.
    """

    old: Serializer
    new: Serializer
    context: LayoutContext

    def of(self, keys: pa.Array, entries: pa.RecordBatch) -> RowBytes:
        """Return the bytes of the new keys. Raises InvalidRows for a key that does not fit the new type."""
        wanted = self.new.layout(replace(self.context, projected=True))
        fields = [
            field if field.type == to.type else field.cast(to.type)
            for field, to in zip(keys.flatten(), wanted.arrow_type, strict=True)
        ]
        try:
            return wanted.encode(pa.StructArray.from_arrays(fields, fields=list(wanted.arrow_type)))
        except Unencodable as error:
            raise InvalidRows(
                f"a key does not fit its new type: {error.message}",
                advice="keep the types of the key's columns, or let the operator begin without state: --empty",
            ) from error


@dataclass(frozen=True)
class BucketColumns:
    """Writes SQL rows with or without buckets.

    Attributes:
        old: The type of keys.
        change: What they become.
        context: How keys are decoded.
        state: The state whose entries have the keys.
    """

    old: Serializer
    change: BucketKey
    context: LayoutContext
    state: StateDescriptor | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """What changes."""
        return ("key with buckets" if None in self.change.columns else "key without buckets",)

    def of(self, keys: pa.Array, entries: pa.RecordBatch) -> RowBytes:
        """Return the bytes of the new keys. Raises CorruptSnapshot."""
        wanted = self.change.value.layout(replace(self.context, projected=True))
        before = keys.flatten()
        bucket, number = self.change.buckets.get("" if self.state is None else self.state.name, (None, 0))
        fields = [
            self._buckets(entries, number)
            if at == bucket
            else pa.nulls(len(keys), field.type)
            if column is None
            else before[column]
            for at, (column, field) in enumerate(zip(self.change.columns, wanted.arrow_type, strict=True))
        ]
        if not fields:
            return wanted.encode(pa.Array.from_buffers(wanted.arrow_type, len(keys), [None]))
        return wanted.encode(pa.StructArray.from_arrays(fields, fields=list(wanted.arrow_type)))

    def _buckets(self, entries: pa.RecordBatch, number: int) -> pa.Array:
        """Return the bucket of each entry's value: Java's remainder has the sign of the hash code."""
        assert self.state is not None and isinstance(self.state.user_key, External)
        decoded = decode_entries([raw_entries(entries)], self.state, self.context, flatten=True)
        codes = [sql_hash_codes(batch.column(MAP_KEY), self.state.user_key.type) for batch in decoded]
        return values_array(np.fmod(np.concatenate([np.empty(0, dtype=np.int32), *codes]), np.int32(number)))


@dataclass(frozen=True)
class MatchedKey:
    """How the keys of an operator become keys of the type that a user wants: fields by name, others by expressions.

    Attributes:
        old: The type of keys, with the names of fields that reading shows.
        new: The type that keys get.
        matched: How the columns match.
        context: How keys are decoded.
    """

    old: Serializer
    new: Serializer
    matched: Matched
    context: LayoutContext

    def of(self, keys: pa.Array, entries: pa.RecordBatch) -> RowBytes:
        """Return the bytes of the new keys. Raises InvalidRows, and what `ValueEvolution.of` raises."""
        return self.values.of(pa.RecordBatch.from_arrays([keys], schema=self.values.rows))

    @cached_property
    def values(self) -> ValueEvolution[RowBytes]:
        """What writes the column of keys."""
        rows, temporal = _schemas(self.old, self.context)
        wanted = self.new.layout(replace(self.context, projected=True))

        def encode(column: pa.Array, rows: pa.RecordBatch) -> RowBytes:
            return wanted.encode(conformed(column, wanted.arrow_type))

        return ValueEvolution(
            _settable(), rows, temporal, self.new, self.matched.node, self.matched.assignments, encode
        )

    @property
    def words(self) -> tuple[str, ...]:
        """What changes."""
        first, *others = self.matched.changes
        return (f"key {first}", *others)

    @property
    def is_one_to_one(self) -> bool:
        """Whether it is certain that different keys stay different."""
        before, after = (one.layout(self.context).arrow_type for one in (self.old, self.new))
        is_exact = _has_exact_columns(self.old) and _has_exact_columns(self.new)
        if is_exact and isinstance(self.matched.node, Given) and pa.types.is_string(after):
            schema = pa.schema([(KEY, before)])
            (given,) = self.matched.assignments
            return is_text_of_number(parse(given.expression, schema).tree, schema)
        return is_exact and _is_one_to_one(self.matched.node, before, after)

    def __getstate__(self) -> dict[str, object]:
        # Expressions are compiled once in each process.
        return {name: getattr(self, name) for name in ("old", "new", "matched", "context")}


def _settable() -> Settable:
    return Settable(None, "keys", KEY, flattened=False, nullable=False)


def _schemas(key: Serializer, context: LayoutContext) -> tuple[pa.Schema, pa.Schema]:
    """Return the column of keys, and the same with dates and times as Arrow's types."""
    contexts = (context, replace(context, temporal="micros"))
    one, two = (pa.schema([(KEY, key.layout(each).arrow_type)]) for each in contexts)
    return one, two


def _has_exact_columns(key: Serializer) -> bool:
    """Whether equal columns are equal bytes."""
    if isinstance(key, Pojo):
        return all(_has_exact_columns(part) for _, part in key.fields)
    if isinstance(key, TupleOf | CaseClass):
        return all(map(_has_exact_columns, key.fields))
    return isinstance(key, Scalar)


def _is_one_to_one(node: Node, old: pa.DataType, new: pa.DataType) -> bool:
    old, new = plain(old), plain(new)
    if pa.types.is_struct(old) and old.get_field_index(CLASS_FIELD) >= 0:
        return False  # Subclasses have fields of types that are not looked at.
    if isinstance(node, Kept):
        if pa.types.is_struct(old) and pa.types.is_struct(new):
            return all(_is_one_to_one(node, one.type, new.field(one.name).type) for one in old)
        is_whole = pa.types.is_signed_integer(old) and pa.types.is_signed_integer(new)
        is_wider = pa.types.is_float32(old) and pa.types.is_float64(new)
        return bool(is_whole or is_wider or old == new)
    if not isinstance(node, Fields) or not pa.types.is_struct(old):
        return False
    parts = {before: (name, part) for name, before, part in node.parts if before is not None}
    return all(
        one.name in parts and _is_one_to_one(parts[one.name][1], one.type, new.field(parts[one.name][0]).type)
        for one in old
    )


def matched_key(key: Serializer, change: TypeChange, operator: OperatorContext) -> MatchedKey:
    """Return how an operator's keys become keys of another type.

    Args:
        key: Their type.
        change: The new type.
        operator: The operator of the snapshot.

    Raises:
        InvalidOption: Fields are missing, a rename or an expression does not fit.
        UnsupportedSnapshot: Keys cannot be decoded, or the new type can only be read.
    """
    at = Where(operator=operator.display)
    context = exact_read_options(operator.options, None).context.inner
    kinds = [isinstance(one, RowOf | RowData) and getattr(one, "has_kind", True) for one in (key, change.value)]
    context = replace(context, row_kind=all(kinds))
    try:
        _, before = _schemas(key, context)
    except Undecodable as error:
        raise UnsupportedSnapshot(
            f"keys of the type {key.type_name} cannot be decoded, and so not get another type",
            where=at,
            advice="describe their class (classes, --classes)",
        ) from error
    try:
        _, after = _schemas(change.value, context)
    except Undecodable as error:
        raise UnsupportedSnapshot(
            f"the type {change.value.type_name} has no columns: {error.message}",
            where=at,
            advice=error.advice or "describe its class (classes, --classes)",
        ) from error
    try:
        found = MatchedKey(key, change.value, change.matched(key, _settable(), before, after, at), context)
        found.values.check()
    except (InvalidOption, UnsupportedSnapshot) as error:
        raise error.at(operator=operator.display) from error
    return found


# Entries.


@dataclass(frozen=True)
class KeyEvolution:
    """Writes the keys of one state's entries in another type, in the key groups that these have. Picklable.

    Attributes:
        source: Finds the keys as they are.
        target: Places keys of the new type.
        conversion: Writes keys in the new type.
        pairs: Whether entries bring pairs of their new and old keys along, by which keys that become one are found.
    """

    source: Rekey
    target: Rekey
    conversion: KeyConversion
    pairs: bool = False

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries (RAW_ENTRIES) with other keys and key groups; they are no longer in order.

        Raises:
            CorruptSnapshot: A key cannot be decoded.
            InvalidRows: A key does not fit the new type.
            InvalidOption: A value that DuckDB refuses.
        """
        for batch, old, new in self._evolved(batches):
            for moved in self.target.batches([batch]):
                yield moved
                if self.pairs:
                    yield key_pairs(moved.column(KEY_GROUP), new, old)

    def _evolved(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, RowBytes, RowBytes]]:
        """Yield entries with new keys in their old key groups, and the bytes of the old and of the new keys."""
        decoder = ValueDecoder(self.conversion.old.layout(self.conversion.context))
        for batch, keys in self.source.decoded(batches, serialized=True):
            if not len(batch):
                continue
            stored, own = row_bytes_of(batch.column("key")), row_bytes_of(keys)
            starts = stored.offsets[:-1] + (_TIMESTAMP if self.source.state.kind.is_queue else 0)
            with placed("<raw entries>", int, self.source.state.name):
                decoded = decoder.decode(own.data, own.offsets[:-1], own.offsets[1:])
            with located(InvalidRows, state=self.source.state.name):
                new = self.conversion.of(decoded, batch)
            made = _with_keys(stored, starts, own.lengths, new)
            yield batch.set_column(batch.schema.get_field_index("key"), "key", made.to_arrow()), own, new


def _with_keys(stored: RowBytes, starts: Longs, lengths: Longs, new: RowBytes) -> RowBytes:
    """Return byte strings with other keys in place of those of ``lengths`` bytes at ``starts``."""
    firsts, stops = stored.offsets[:-1], stored.offsets[1:]
    sizes = stops - firsts - lengths + new.lengths
    offsets = np.zeros(len(stored) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = uninitialized_bytes(int(offsets[-1]))
    edges = [np.ascontiguousarray(column) for column in (firsts, starts, starts + lengths, stops)]
    columns = [stored.data, *edges, new.data, new.offsets, data]
    splice_bytes(len(stored), *(column.ctypes.data for column in columns))
    return RowBytes(data, offsets)


def key_evolution(
    state: StateDescriptor,
    conversion: MatchedKey | WiderColumns | BucketColumns,
    key: Serializer,
    max_parallelism: int,
    operator: OperatorContext,
    *,
    hash_function: ClassHash | HashCodes | None = None,
) -> KeyEvolution:
    """Return what writes the keys of a state in another type.

    Args:
        state: The state, as a header describes it.
        conversion: What keys become.
        key: The new type.
        max_parallelism: The number of key groups of the new savepoint.
        operator: The operator of the snapshot.
        hash_function: The hash codes of new keys whose class has its own.

    Raises:
        UnsupportedSnapshot: The serializers of key and namespace have no fixed length, so that lengths are written
            beside them.
        InvalidOption: The key groups of the new keys are not known.
    """
    lengths = (state.key.length, key.length)
    if not state.kind.is_queue and min(lengths) < 0 and state.namespace.length < 0:
        raise UnsupportedSnapshot(
            f"keys get another type, and namespaces of the type {state.namespace.type_name} have no fixed length",
            where=Where(operator=operator.display, state=state.name),
            advice="leave the state out, or let the operator begin without state: --empty",
        )
    context = operator.options.context
    if hash_function is None and not isinstance(key, RowData) and key_hash_of(key) is None:
        raise InvalidOption(
            f"keys of the type {key.type_name} have a hashCode that does not follow from their bytes, so their key "
            "groups are not known",
            where=Where(operator=operator.display),
            advice="name the hashCode method of the new keys' class: --hash-function 'Objects.hash', in Python "
            f"with_hash_function, or another of {HASH_FUNCTIONS}, with the fields in the method's order "
            "(record:name,count), or in Python a function of the keys that returns their hash codes. Hashes of enums "
            "are others in every JVM",
        )
    if isinstance(conversion, BucketColumns):
        conversion = replace(conversion, state=state)
    source = Rekey(state, max_parallelism, replace(context.inner, temporal="exact"), None)
    target = rekey(
        replace(state, key=key), max_parallelism, context, hash_function=hash_function, operator=operator.display
    )
    return KeyEvolution(source, target, conversion, _has_pairs(conversion))


def _has_pairs(conversion: KeyConversion) -> bool:
    return isinstance(conversion, MatchedKey) and not conversion.is_one_to_one


def key_collisions(conversion: KeyConversion | None) -> KeyCollisions | None:
    """Return what finds keys that become one, if it is not certain that there are none."""
    if not isinstance(conversion, MatchedKey) or not _has_pairs(conversion):
        return None
    return KeyCollisions(conversion.old, conversion.new, conversion.context)
