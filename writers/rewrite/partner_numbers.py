"""Give the rows of a regular join the number of their partners, or take it away: the join gets another type.

    value of an entry     null mark of a map (1 byte, 0), time of last access with a time to live (8 bytes), record
    record                the row (RowDataSerializer), or of an input without a unique key how often it is there (i32)
    of an outer input     Tuple2: record, number of partners (i32)

Partners of a row are the rows of the other input under the same key of the join, each as often as it is there, and of
these those for which its other condition is true; a null in a column of the key may have none. Source:
JoinRecordStateViews and OuterJoinRecordStateViews of org.apache.flink.table.runtime.operators.join.stream.state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc import types
from stateproc.codec.arrow_arrays import RowBytes, row_bytes_of
from stateproc.codec.encoding.sized_writers import concatenate, write_rows
from stateproc.codec.encoding.strings import row_bytes_writer
from stateproc.codec.machine import ValueDecoder
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.filters.condition import arrow_reader, connection, duckdb_errors
from stateproc.flink_versions import Release
from stateproc.metadata.backend import StateMetaInfo
from stateproc.model.operator import Operator
from stateproc.query_plans.join_types import PartnerChange
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.error_context import placed
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Serializer, proxied_snapshot
from stateproc.serializers.java.structs import TupleOf
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.serializers.table.serializers import RowData
from stateproc.writers.formats.entry_batches import gather
from stateproc.writers.rewrite.entries_by_key import added_up, damage, in_large_batches
from stateproc.writers.rewrite.merged_header import with_value_snapshot
from stateproc.writers.rewrite.raw_copy import CarriedSplit, carried_splits
from stateproc.writers.rewrite.rekey import Rekey, rekey
from stateproc.writers.rewrite.row_selection import raw_entries, with_column
from stateproc.writers.rewrite.ttl import TtlChange

_SIZE = 4
_MOST = 2**31 - 1


@dataclass(frozen=True)
class PartnerNumbers:
    """Adds the numbers of partners to one state's entries, or removes them. Picklable.

    Attributes:
        change: What becomes of the numbers.
        state: The state as its entries come.
        keys: Finds the join's key in an entry of the state.
        other: Finds it in those of the other input; None if no row of that has come.
        partners: The entries of the other input in the same key groups, as they are stored; none if numbers go.
        expired: Drops those of the other input that are dropped in the same write, as they have expired.
        context: How rows are decoded, of which a condition of the join is.
    """

    change: PartnerChange
    state: StateDescriptor
    keys: Rekey
    other: Rekey | None
    partners: tuple[CarriedSplit, ...] = ()
    expired: TtlChange | None = None
    context: LayoutContext = field(default_factory=LayoutContext)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries (RAW_ENTRIES) with other values, in the same order. Raises CorruptSnapshot, MissingFile."""
        if not self.change.on:
            for batch in batches:
                yield with_column(batch, "value", self._cut(row_bytes_of(batch.column("value"))))
            return
        numbers: pa.Table | None = None
        for batch in in_large_batches(batches):
            if numbers is None:
                numbers = self._numbers()
            values = row_bytes_of(batch.column("value"))
            self._check_records(values)
            yield with_column(batch, "value", _joined(values, self._of(batch, numbers)))

    def info(self, info: StateMetaInfo, release: Release) -> StateMetaInfo:
        """Return the state's entry in the header, with the type of its new values."""
        value = self.applied(self.state).value
        return with_value_snapshot(
            info, self.state.kind, proxied_snapshot(TtlSerializer(value) if self.state.ttl else value, release)
        )

    def applied(self, state: StateDescriptor) -> StateDescriptor:
        """Return the state with the type of its new values."""
        value = state.value
        if not self.change.on:
            assert isinstance(value, TupleOf)
            return replace(state, value=value.fields[0])
        return replace(state, value=types.Tuple(value, types.INT))

    def _numbers(self) -> pa.Table:
        """Return how many rows of the other input are under each key of the join: columns ``key``, ``number``.

        With a condition beside the keys a row for each of these, with its columns.
        """
        parts = None if self.other is None else self._rows_of_keys(self.other)
        if parts is None or self.change.condition is None:
            numbers = None if parts is None else added_up(parts)
        else:
            rows = list(parts)
            numbers = pa.concat_tables(rows) if rows else None
        if numbers is None:
            return pa.table({KEY: pa.array([], pa.large_binary()), NUMBER: pa.array([], pa.int64())})
        return numbers.filter(pc.invert(self._have_no_partner(numbers.column(KEY).combine_chunks())))

    def _rows_of_keys(self, other: Rekey) -> Iterator[pa.Table]:
        for split in self.partners:
            stored = split.read() if self.expired is None else self.expired.batches(split.read())
            for batch, found in other.decoded(stored):
                condition = self.change.condition
                columns = () if condition is None else condition.others
                rows = row_columns(batch, other.state, self.context, columns) if columns and len(batch) else {}
                if len(batch):
                    yield pa.table({KEY: found.cast(pa.large_binary()), NUMBER: _rows_in(other.state, batch), **rows})

    def _have_no_partner(self, keys: pa.Array) -> pa.Array:
        """Return whether a column of each key is null by which nothing is joined."""
        stored = row_bytes_of(keys)
        with placed("<raw entries>", int, self.state.name):
            rows = ValueDecoder(self.keys.layout).decode(stored.data, stored.offsets[:-1], stored.offsets[1:])
        nulls = pa.array(np.zeros(len(keys), dtype=np.bool_))
        columns = rows.flatten()
        for position in self.change.null_keys:
            nulls = pc.or_(nulls, columns[position].is_null())
        return nulls

    def _of(self, batch: pa.RecordBatch, numbers: pa.Table) -> RowBytes:
        """Return the number of partners of each entry, as it is stored."""
        parts = [found for _, found in self.keys.decoded([batch])]
        keys, condition = pa.concat_arrays(parts).cast(pa.large_binary()), self.change.condition
        if condition is None:
            found = pc.fill_null(numbers.column(NUMBER).take(pc.index_in(keys, value_set=numbers.column(KEY))), 0)
        else:
            rows = row_columns(batch, self.state, self.context, condition.own) if condition.own else {}
            found = counted_partners(pa.table({KEY: keys, **rows}), numbers, condition.sql, self.state.name)
        if len(found) and pc.max(found).as_py() > _MOST:
            raise UnsupportedSnapshot(
                f"a row has more than {_MOST} partners",
                where=Where(state=self.state.name),
                advice="let the join begin without state: --empty",
            )
        stored = found.to_numpy().astype(">i4")
        return RowBytes(stored.view(np.uint8), np.arange(0, _SIZE * len(stored) + 1, _SIZE, dtype=np.int64))

    def _cut(self, values: RowBytes) -> RowBytes:
        starts, stops = values.offsets[:-1], values.offsets[1:] - _SIZE
        if (stops - starts < _before_record(self.state)).any():
            raise damage(self.state, "a row's number of partners is cut off")
        return gather(values.data, starts, stops)

    def _check_records(self, values: RowBytes) -> None:
        """Raise CorruptSnapshot for a value without a record: no join has such."""
        starts, stops = values.offsets[:-1], values.offsets[1:]
        if (stops - starts <= _before_record(self.state)).any():
            raise damage(self.state, "a value without a row")
        if self.state.kind is StateKind.MAP and values.data[starts].any():
            raise damage(self.state, "a row is null")


def _rows_in(state: StateDescriptor, batch: pa.RecordBatch) -> pa.Array:
    """Return how often the row of each entry is there."""
    if not _is_counted(state.value):
        return pa.array(np.ones(len(batch), dtype=np.int64))
    values = row_bytes_of(batch.column("value"))
    starts = values.offsets[:-1] + _before_record(state)
    if (starts + _SIZE > values.offsets[1:]).any():
        raise damage(state, "a row's number of occurrences is cut off")
    found = values.data[starts[:, None] + np.arange(_SIZE)].view(">i4").reshape(-1).astype(np.int64)
    if (found < 0).any():
        raise damage(state, "a row occurs a negative number of times")
    return pa.array(found)


def _joined(*parts: RowBytes) -> RowBytes:
    return write_rows(concatenate([row_bytes_writer(part) for part in parts]), len(parts[0]))


def _before_record(state: StateDescriptor) -> int:
    """Return how many bytes are before the record of an entry's value."""
    return (state.kind is StateKind.MAP) + 8 * bool(state.ttl)


def _is_counted(value: Serializer) -> bool:
    """Whether rows are keys of a map, and its values how often each is there."""
    return value == types.INT or (isinstance(value, TupleOf) and value.fields[0] == types.INT)


def partner_numbers(
    operator: Operator,
    states: tuple[StateDescriptor, StateDescriptor | None],
    change: PartnerChange,
    split: CarriedSplit | None,
    expired: TtlChange | None,
) -> PartnerNumbers:
    """Return what gives entries of a join's input the numbers of their partners, or takes these away.

    Args:
        states: The state of the input, as its entries come, and that of the other one, as it is stored; a changelog
            has none for an input of which no row has come.
        change: What becomes of the numbers.
        split: The entries; None to look at the types only.
        expired: Drops entries of the other input that have expired; None if they stay.

    Raises:
        UnsupportedSnapshot: The states are not those of a join.
        CorruptSnapshot, MissingFile: The other state cannot be read.
    """
    own, others = states
    _check(own, is_pair=not change.on)
    columns = len(own.key.types) if isinstance(own.key, RowData) else 0
    if any(position >= columns for position in change.null_keys):
        raise _not_of_the_plan(own, f"a key of the type {own.key.type_name} is not that")
    keys, other = (
        None if state is None else rekey(state, operator.max_parallelism, operator.options.context) for state in states
    )
    assert keys is not None
    partners: tuple[CarriedSplit, ...] = ()
    if change.on and others is not None:
        _check(others, is_pair=isinstance(others.value, TupleOf))
        if split is not None:
            partners = tuple(carried_splits(operator, others.name, 0, key_groups=split.key_groups))
    context = replace(operator.options.context, temporal="micros", tail=True)
    return PartnerNumbers(change, own, keys, other, partners, expired, context)


def _check(state: StateDescriptor, *, is_pair: bool) -> None:
    """Raise UnsupportedSnapshot for a state whose values are not those of a join's input."""
    value: Serializer | None = state.value
    if is_pair:
        pair = value if isinstance(value, TupleOf) and len(value.fields) == 2 and value.fields[1] == types.INT else None
        value = None if pair is None else pair.fields[0]
    if state.kind.is_queue or not (isinstance(value, RowData) or value == types.INT):
        raise _not_of_the_plan(state, f"values of the type {state.value.type_name} are not those")


def _not_of_the_plan(state: StateDescriptor, what: str) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        f"{what} of the join in its plan",
        where=Where(state=state.name),
        advice="give the plan that the job ran, or let the join begin without state: --empty",
    )


# Count the partners of rows by a condition beside the keys: DuckDB evaluates it for the rows of each key.


KEY, NUMBER = "key", "number"
"""Columns of rows: their key of the join, and how often each is there."""
_OWN, _PARTNERS, _ROW = "own_rows", "partner_rows", "row"
_AT_ONCE = 1 << 16


def row_columns(
    batch: pa.RecordBatch, state: StateDescriptor, context: LayoutContext, columns: Sequence[tuple[str, int]]
) -> dict[str, pa.Array]:
    """Return columns of the row of each entry (RAW_ENTRIES) of a join's state, by their names.

    Args:
        context: How they are decoded.
        columns: The name of each column, and its position in the row.

    Raises:
        CorruptSnapshot: An entry cannot be decoded.
        UnsupportedSnapshot: Rows have not as many columns.
    """
    value, is_map = state.value, state.kind is StateKind.MAP
    is_pair = isinstance(value, TupleOf)
    is_counted = types.INT in (value, value.fields[0] if isinstance(value, TupleOf) else None)
    decoded = pa.Table.from_batches(list(decode_entries([raw_entries(batch)], state, context, flatten=True)))
    name = "map_key" if is_counted else "map_value" if is_map else "value"
    rows = decoded.column(name).combine_chunks()
    if is_pair and not is_counted:
        rows = pc.struct_field(rows, [0])
    if any(position >= rows.type.num_fields for _, position in columns):
        raise UnsupportedSnapshot(
            "rows of the join have other columns than in its plan",
            where=Where(state=state.name),
            advice="give the plan that the job ran, or let the join begin without state: --empty",
        )
    return {one: _plain(pc.struct_field(rows, [position])) for one, position in columns}


def _plain(array: pa.Array) -> pa.Array:
    # DuckDB compares values of a dictionary by their numbers.
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def counted_partners(own: pa.Table, partners: pa.Table, condition: str, state: str) -> pa.Array:
    """Return how many partners each row has.

    Args:
        own: The rows: their column ``key``, and those of the condition.
        partners: Those of the other input, with ``number``, how often each is there.
        condition: Which rows of one key are partners, in SQL.
        state: The state of the rows, for errors.

    Raises:
        UnsupportedSnapshot: DuckDB cannot evaluate the condition.
    """
    found = np.zeros(len(own), dtype=np.int64)
    if not len(own) or not len(partners):
        return pa.array(found)
    # Numbers instead of keys, so that these are hashed once.
    keys = pc.unique(partners.column(KEY))
    numbered = [
        table.set_column(table.column_names.index(KEY), KEY, pc.index_in(table.column(KEY), value_set=keys))
        for table in (own, partners)
    ]
    rows = numbered[0].append_column(_ROW, pa.array(np.arange(len(own))))
    database = connection()
    database.register(_OWN, rows.filter(pc.is_valid(rows.column(KEY))))
    database.register(_PARTNERS, numbered[1])
    query = (
        f"SELECT {_OWN}.{_ROW}, CAST(SUM({_PARTNERS}.{NUMBER}) AS BIGINT) AS {NUMBER} FROM {_OWN} JOIN {_PARTNERS} "
        f"ON {_OWN}.{KEY} = {_PARTNERS}.{KEY} WHERE {condition} GROUP BY {_OWN}.{_ROW}"
    )
    try:
        for counted in arrow_reader(database.sql(query), _AT_ONCE):
            found[counted.column(0).to_numpy()] = counted.column(1).to_numpy()
    except duckdb_errors() as error:
        raise UnsupportedSnapshot(
            f"the condition of the join beside its keys is not computed: {str(error).partition(chr(10))[0][:200]}",
            where=Where(state=state),
            advice="let the join begin without state: --empty",
        ) from error
    finally:
        for name in (_OWN, _PARTNERS):
            database.unregister(name)
    return pa.array(found)
