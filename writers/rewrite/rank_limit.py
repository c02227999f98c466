"""Drop the rows of TopN beyond a rank. If no row is taken back it keeps those of its ranks alone, else all.

    data-state,              map from the sort key (RowDataSerializer) to the rows with it, in lists, as they came
    data-state-with-append
        value of an entry    null mark (1 byte, 0), number of rows (i32), rows, each with its length (i32)
    data-state-with-update   map from a unique key of rows to a row and its number among those of its sort key
        value of an entry    null mark (1 byte, 0), row with its length (i32), number from 1 on (i32)

The rank of a row follows from the order of the sort keys, and from its place in the list, or its number. With the rank
as a column, rows of the last sort key may be beyond the last rank. Sources: RetractableTopNFunction,
AppendOnlyTopNFunction, UpdatableTopNFunction of org.apache.flink.table.runtime.operators.rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stateproc import types
from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import RowBytes, numbers_of, row_bytes_of, values_array
from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.model.operator_context import OperatorContext
from stateproc.query_plans.rank_order import RowsWithRanks, SortColumn
from stateproc.readers.entry_decoder import decode_entries, decode_keys
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.row_schema import KEY_GROUP
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.java.collections import ListOf
from stateproc.serializers.java.structs import TupleOf
from stateproc.serializers.table.serializers import RowData
from stateproc.writers.formats.entry_batches import gather
from stateproc.writers.rewrite.entries_by_key import as_one, damage, in_large_batches
from stateproc.writers.rewrite.rekey import Rekey, rekey
from stateproc.writers.rewrite.row_selection import raw_entries, with_column
from stateproc.writers.rewrite.transform import exact_read_options

_MARK = 1
_SIZE = 4
_SORTED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_temporal,
           pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)  # fmt: skip


@dataclass(frozen=True)
class RankLimit:
    """Drops the rows of one state that are beyond a rank. Picklable.

    Attributes:
        context: How its keys are decoded.
        keys: Finds the key in an entry.
        last: The last rank that stays.
        order: How each column of the sort key is ordered.
        is_list: Whether rows are in lists by their sort key; else each has a number among those of its own.
    """

    state: StateDescriptor
    context: LayoutContext
    keys: Rekey
    last: int
    order: tuple[SortColumn, ...]
    is_list: bool
    row_words = ("row", "rows")

    def touches(self, key_groups: Iterable[int]) -> bool:
        """Whether rows in any of these key groups can be dropped."""
        return True

    def batches(
        self, batches: Iterable[pa.RecordBatch], observe: Callable[[int], object] = lambda _: None
    ) -> Iterator[pa.RecordBatch]:
        """Return the entries that are kept (RAW_ENTRIES), in the same order. Those of a key follow one another.

        Args:
            batches: The entries (RAW_ENTRIES).
            observe: Called with numbers of dropped rows.

        Raises:
            CorruptSnapshot: Entries are damaged.
            UnsupportedSnapshot: Flink has no order of some sort keys.
        """
        waiting: list[pa.RecordBatch] = []
        for batch in in_large_batches(batches):
            entries = as_one([*waiting, batch])
            runs = self._runs(entries)
            # More entries of the last key may come.
            stop = int(np.searchsorted(runs, runs[-1]))
            waiting = [entries.slice(stop)]
            if stop:
                yield from self._limited(entries.slice(0, stop), runs[:stop], observe)
        if waiting:
            yield from self._limited(waiting[0], self._runs(waiting[0]), observe)

    def _runs(self, entries: pa.RecordBatch) -> Longs:
        """Return a number for each entry, the same for those of one key."""
        keys = pa.concat_arrays([found for _, found in self.keys.decoded([entries], serialized=True)])
        is_new = np.zeros(len(entries), dtype=np.int64)
        is_new[1:] = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
        is_new[1:] |= np.diff(numbers_of(entries.column(KEY_GROUP))) != 0
        runs: Longs = np.cumsum(is_new)
        return runs

    def _limited(
        self, entries: pa.RecordBatch, runs: Longs, observe: Callable[[int], object]
    ) -> Iterator[pa.RecordBatch]:
        values = row_bytes_of(entries.column("value"))
        sizes = self._sizes(values)
        places = self._places(entries)
        order = np.lexsort((*reversed(places), runs))
        if any(len(each) for each in places):
            self._check_distinct(runs[order], [place[order] for place in places])
        in_order = sizes[order]
        before = np.cumsum(in_order) - in_order
        firsts = np.flatnonzero(np.diff(runs[order], prepend=-1))
        before -= np.repeat(before[firsts], np.diff(np.append(firsts, len(order))))
        kept = np.empty_like(sizes)
        kept[order] = np.clip(self.last - before, 0, in_order)
        observe(int((sizes - kept).sum()))
        if (kept < sizes).any() or not kept.all():
            if self.is_list:
                entries = with_column(entries, "value", self._cut(values, sizes, kept))
            entries = entries.filter(values_array(kept > 0))
        if len(entries):
            yield entries

    def _sizes(self, values: RowBytes) -> Longs:
        starts, stops = values.offsets[:-1], values.offsets[1:]
        if (stops - starts < _MARK + _SIZE).any() or values.data[starts].any():
            raise damage(self.state, "a list of rows is null, or cut off")
        if not self.is_list:
            return np.ones(len(starts), dtype=np.int64)
        sizes: Longs = (
            values.data[starts[:, None] + np.arange(_MARK, _MARK + _SIZE)].view(">i4").reshape(-1).astype(np.int64)
        )
        if (sizes < 0).any():
            raise damage(self.state, "a list of a negative number of rows")
        return sizes

    def _places(self, entries: pa.RecordBatch) -> list[Longs]:
        """Return the place of each entry by each column of the sort key, and by its number if it has one."""
        columns, numbers = self._sort_key(raw_entries(entries, values=not self.is_list))
        found: list[Longs] = []
        for values, column in zip(columns, self.order, strict=True):
            if pa.types.is_floating(values.type):
                if pc.any(pc.is_nan(values)).as_py():
                    raise _no_order(self.state, "NaN")
                values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 is 0.0 there.
            elif not any(is_one(values.type) for is_one in _SORTED):
                raise _no_order(self.state, f"values of the type {values.type}")
            # Values of a key, once each: what has no order of its own in `pc.rank`, such as decimals, has one here.
            distinct = values.unique()
            direction = "ascending" if column.is_ascending else "descending"
            by = pc.sort_indices(pa.table({"value": distinct}), sort_keys=[("value", direction)])  # null is last
            if distinct.null_count and not column.null_is_last:
                by = pa.concat_arrays([by[-1:], by[:-1]])
            found.append(np.asarray(pc.index_in(values, value_set=distinct.take(by))).astype(np.int64))
        return found if numbers is None else [*found, np.asarray(numbers).astype(np.int64)]

    def _sort_key(self, stored: RawEntries) -> tuple[list[pa.Array], pa.Array | None]:
        """Return the columns of the sort key of each entry, and its number among those of one; None of lists."""
        if self.is_list:
            decoded = pa.Table.from_batches(list(decode_keys([stored], self.state, self.context, user_keys=True)))
            keys = decoded.column("map_key").combine_chunks()
            return [pc.struct_field(keys, number) for number in range(len(self.order))], None
        batches = list(decode_entries([stored], self.state, self.context, flatten=True))
        rows, numbers = pa.Table.from_batches(batches).column("map_value").combine_chunks().flatten()
        return [pc.struct_field(rows, column.position) for column in self.order], numbers

    def _check_distinct(self, runs: Longs, places: Sequence[Longs]) -> None:
        same = np.diff(runs) == 0
        for place in places:
            same &= np.diff(place) == 0
        if same.any():
            raise _no_order(self.state, "0.0 and -0.0")

    def _cut(self, values: RowBytes, sizes: Longs, kept: Longs) -> RowBytes:
        """Return the values with the first rows of the lists that lose some."""
        data, stops = values.data.copy(), values.offsets[1:].copy()
        at = np.flatnonzero((kept < sizes) & (kept > 0))
        ends = values.offsets[:-1][at] + _MARK + _SIZE
        lasts, going = stops[at], np.arange(len(at))
        for number in range(int(kept[at].max()) if len(at) else 0):
            going = going[kept[at[going]] > number]  # As few as are left: the steps are as many as rows stay.
            ends[going] = self._after_row(data, ends[going], lasts[going])
        counts = kept[at].astype(">i4").view(np.uint8).reshape(len(at), _SIZE)
        data[values.offsets[:-1][at][:, None] + np.arange(_MARK, _MARK + _SIZE)] = counts
        stops[at] = ends
        return gather(data, values.offsets[:-1], stops)

    def _after_row(self, data: npt.NDArray[np.uint8], starts: Longs, stops: Longs) -> Longs:
        if (starts + _SIZE > stops).any():
            raise damage(self.state, "a row is cut off")
        ends: Longs = starts + _SIZE + data[starts[:, None] + np.arange(_SIZE)].view(">i4").reshape(-1)
        if ((ends < starts + _SIZE) | (ends > stops)).any():
            raise damage(self.state, "a row is cut off")
        return ends


def rank_limit(state: StateDescriptor, ranks: RowsWithRanks, operator: OperatorContext) -> RankLimit:
    """Return what drops the rows of a state of TopN that are beyond a rank.

    Args:
        state: The state, as a header describes it.
        ranks: The last rank that stays, and how rows are ordered.
        operator: The operator of the snapshot.

    Raises:
        UnsupportedSnapshot: It is no such state, or has a time to live.
    """
    where = Where(operator=operator.display, state=state.name)
    if state.ttl:
        raise UnsupportedSnapshot(
            "rows of TopN with a time to live: which of them have a rank depends on which have expired",
            where=where,
            advice="let the operator begin without state: --empty UID, with its uid in the new plan",
        )
    is_list, order = isinstance(state.value, ListOf), ranks.order
    if not _has_rows(state, order):
        raise UnsupportedSnapshot(
            "rows that are not those of TopN in its plan",
            where=where,
            advice="give the plan that the job ran, or let the operator begin without state: --empty",
        )
    context = replace(exact_read_options(operator.options, None).context, tail=True)
    keys = rekey(state, operator.max_parallelism, operator.options.context)
    return RankLimit(state, context, keys, ranks.last, order, is_list)


def _has_rows(state: StateDescriptor, order: Sequence[SortColumn]) -> bool:
    """Whether a state has rows with such a sort key, in lists by it or with a number."""
    value, keys = state.value, state.user_key
    if state.kind is not StateKind.MAP or not isinstance(keys, RowData):
        return False
    if isinstance(value, ListOf):
        return isinstance(value.element, RowData) and len(keys.types) == len(order)
    if not isinstance(value, TupleOf) or len(value.fields) != 2 or value.fields[1] != types.INT:
        return False
    row = value.fields[0]
    return isinstance(row, RowData) and all(0 <= column.position < len(row.types) for column in order)


def _no_order(state: StateDescriptor, what: str) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        f"rows of TopN are in the order of {what}, which Flink does not distinguish",
        where=Where(state=state.name),
        advice="let the operator begin without state: --empty UID, with its uid in the new plan",
    )
